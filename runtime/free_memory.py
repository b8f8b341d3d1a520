"""How much memory is free."""

from pathlib import Path


def available_memory() -> int:
    """Bytes that can still be allocated, as far as the system tells: what is free, and what a container's limit leaves."""
    free = _number_after("/proc/meminfo", "MemAvailable:")
    limit, used = _number_after("/sys/fs/cgroup/memory.max", ""), _number_after("/sys/fs/cgroup/memory.stat", "anon ")
    available = 1 << 40 if free is None else free * 1024
    return available if limit is None or used is None else max(0, min(available, limit - used))


def _number_after(path: str, word: str) -> int | None:
    """The number that follows a word at the start of a line of one of the system's files."""
    try:
        with Path(path).open(encoding="ascii") as lines:
            return next(int(line[len(word) :].split()[0]) for line in lines if line.startswith(word))
    except (OSError, ValueError, StopIteration, IndexError):
        return None
