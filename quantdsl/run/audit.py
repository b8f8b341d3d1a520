"""`--audit`: what the event loop asks of the system, counted from outside.

The run is made once before itself, in a child process that the parent traces: every system call between the entry and the exit of native
code stops the child and is counted; page faults and context switches are the child's own, by `getrusage`. Linux only."""

import ctypes
import os
import resource
import signal
import struct
import sys
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.run.engine_run import EngineRun
from quantdsl.run.options import RunOptions, fills_of
from quantdsl.run.program import LinkedStrategy
from runtime.records import define, frozen

_TRACEME, _SYSCALL, _SETOPTIONS, _SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_GOOD, _KILL_WITH_PARENT = 1, 0x100000
_ENTRY = 1
_STOPPED = signal.SIGTRAP | 0x80
"""What a stop at a system call reports, with PTRACE_O_TRACESYSGOOD."""
_MARK = 0x5A79_6E00
"""Argument of the calls of `getpgid` that say where the loop begins (+1) and ends (+2)."""


@frozen
class Audit:
    """Of all `calls` of the event loop together. `by_number`: system calls by their number on this machine. `page_faults`: memory that was
    touched for the first time."""

    system_calls: int
    by_number: dict[int, int]
    page_faults: int
    context_switches: int
    calls: int


def audit(strategy: LinkedStrategy, options: RunOptions) -> Audit | None:
    """Runs the strategy on the data in a traced child. None: that run didn't come to its end, and the one that follows says why. Raises
    ZyntaxError where this system can't trace."""
    if not sys.platform.startswith("linux"):
        raise _refused("system calls are counted on Linux only")
    libc = ctypes.CDLL(None, use_errno=True)
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _traced(libc, writer, strategy, options)
    os.close(writer)
    try:
        counts = _watch(libc, child)
        with os.fdopen(reader, "rb", closefd=False) as pipe:
            told = pipe.read(24)
    finally:
        os.close(reader)
    if len(told) != 24:
        return None
    faults, switches, calls = struct.unpack("<3q", told)
    return Audit(sum(counts.values()), counts, faults, switches, calls)


def _refused(reason: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0505", f"`--audit` can't be done here: {reason}"))


# ---- the child ----


def _traced(libc: Any, writer: int, strategy: LinkedStrategy, options: RunOptions) -> None:
    """Replays with marks around native code, writes what `getrusage` says to the pipe, and ends the process."""
    code = 1
    try:
        if libc.ptrace(_TRACEME, 0, None, None) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os.write(writer, struct.pack("<3q", *_replayed(libc, strategy, options)))
            code = 0
    except BaseException:
        code = 2
    os._exit(code)


def _replayed(libc: Any, strategy: LinkedStrategy, options: RunOptions) -> tuple[int, int, int]:
    replay, meter = EngineRun(strategy, options), _Meter(libc.getpgid)
    opened = replay.feed.opened()
    replay.start(fills_of(options, opened.has_book), opened.begin)
    for events in opened.blocks:
        for _ in replay.block(events, meter):
            for _ in replay.engine.collect():
                pass
    return meter.faults, meter.switches, meter.calls


@define
class _Meter:
    """Told when native code begins and ends; marks that for the parent, and adds up what it took."""

    mark: Any
    faults: int = 0
    switches: int = 0
    calls: int = 0

    def __call__(self, inside: bool) -> None:
        if not inside:
            self.mark(_MARK + 2)
        used = resource.getrusage(resource.RUSAGE_THREAD)
        sign = -1 if inside else 1
        self.faults += sign * (used.ru_minflt + used.ru_majflt)
        self.switches += sign * (used.ru_nvcsw + used.ru_nivcsw)
        if inside:
            self.calls += 1
            self.mark(_MARK + 1)


# ---- the parent ----


class _Info(ctypes.Structure):
    """`struct ptrace_syscall_info`, as of a stop at the entry of a call."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("at", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


def _watch(libc: Any, child: int) -> dict[int, int]:
    """System calls of the child between its marks, by number."""
    counts: dict[int, int] = {}
    inside = False
    try:
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            raise _refused("tracing isn't allowed")
        if libc.ptrace(_SETOPTIONS, child, None, ctypes.c_void_p(_GOOD | _KILL_WITH_PARENT)) != 0:
            raise _refused("tracing isn't allowed")
        pending = 0
        while True:
            libc.ptrace(_SYSCALL, child, None, ctypes.c_void_p(pending))
            _, status = os.waitpid(child, 0)
            if not os.WIFSTOPPED(status):
                return counts
            pending = 0
            if os.WSTOPSIG(status) != _STOPPED:
                pending = os.WSTOPSIG(status)
                continue
            info = _Info()
            libc.ptrace(_SYSCALL_INFO, child, ctypes.c_void_p(ctypes.sizeof(info)), ctypes.byref(info))
            if info.op != _ENTRY:
                continue
            if info.arguments[0] in (_MARK + 1, _MARK + 2):
                inside = info.arguments[0] == _MARK + 1
            elif inside:
                counts[int(info.number)] = counts.get(int(info.number), 0) + 1
    except ZyntaxError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
