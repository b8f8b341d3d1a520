"""What this machine's processor can do: its name, its features, the width of its vectors."""

from functools import cache


@cache
def host_cpu() -> str:
    """LLVM's name of the processor."""
    from llvmlite import binding

    return str(binding.get_host_cpu_name())


@cache
def host_features() -> str:
    """LLVM's feature string: `+avx2,-avx512f,...`."""
    from llvmlite import binding

    return str(binding.get_host_cpu_features().flatten())


@cache
def processor() -> str:
    """What tells this processor from others that code may be made for, without LLVM where the system says it."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:  # noqa: PTH123 - each start waits for it; the first processor's part is enough
            first = file.read(8192).decode().partition("\n\n")[0]
    except (OSError, ValueError):
        first = ""
    told = [line for line in first.splitlines() if line.startswith(_TELLING)]
    return "\n".join(told) if len(told) >= len(_TELLING) - 1 else f"{host_cpu()} {host_features()}"


_TELLING = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
"""Lines about a processor that say what it can do."""


def vector_bits(features: str) -> int:
    """Bits of the widest vector registers that the features name; 0 when they don't tell."""
    for feature, bits in (("+avx512f", 512), ("+avx2", 256), ("+avx", 256), ("+sse2", 128), ("+neon", 128)):
        if feature in features.split(","):
            return bits
    return 0


@cache
def cores() -> int:
    """Processors that this process may use."""
    import os

    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def threads() -> int:
    """How many threads work where a program says nothing: one a processor, at most as many as the environment grants OpenMP's teams."""
    import os

    most = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores(), int(most)) if most.isdecimal() and int(most) > 0 else cores()


@cache
def caches() -> dict[str, int]:
    """Bytes of the caches that a core sees, by name: `L1d`, `L1i`, `L2`, `L3`; nothing where the system doesn't tell."""
    from pathlib import Path

    sizes: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
        if size.rstrip("KM").isdigit():
            sizes[f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")] = int(size.rstrip("KM")) * unit
    return sizes


def describe() -> list[str]:
    """This machine as a device, one line."""
    return [f"cpu     {host_cpu()}, {cores()} {'core' if cores() == 1 else 'cores'}, {simd_name()}"]


def simd_name() -> str:
    """The vector extension in words, for lists of devices."""
    features = host_features().split(",")
    for feature, name in (("+avx512f", "AVX-512"), ("+avx2", "AVX2"), ("+avx", "AVX"), ("+sse4.2", "SSE4.2"), ("+neon", "NEON")):
        if feature in features:
            return name
    return "baseline"
