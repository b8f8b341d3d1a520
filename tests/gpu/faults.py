"""Things that a process does once: kernels that fault, waiting that is interrupted. Run by `test_gpu_faults.py`, a part a process."""

import gc
import os
import signal
import sys
import threading

from ptx_kernels import ALL

from runtime.cuda.errors import CudaContextLost, CudaUnavailable
from runtime.cuda.gpu import gpu
from runtime.cuda.launch import CheckedLaunch


def plan(text: str, name: str, signature: tuple[str, ...], where: str = "") -> CheckedLaunch:
    return CheckedLaunch(gpu().modules.load(ALL[text], text).kernel(name), signature, (1,), (32,), where=where)


def stray() -> None:
    """A store to an address that is nobody's."""
    found = gpu()
    kept = found.allocate(1 << 20)
    plan("faults", "stray", ("pointer",), "program.zynml:7")(found.stream, 0x10)
    try:
        found.stream.synchronize(timeout=30)
    except CudaContextLost as lost:
        print(lost.kernels, lost.code)
    try:
        found.allocate(100)
    except CudaContextLost:
        print("still lost")
    del kept
    gc.collect()
    print("in use:", found.pool.statistics().in_use)


def trapped() -> None:
    found = gpu()
    plan("waiting", "nothing", ("pointer", "pointer", "f32", "i64"))(found.stream, 0, 0, 0.0, 0)
    plan("faults", "trapped", (), "program.zynml:9")(found.stream)
    try:
        found.stream.synchronize(timeout=30)
    except CudaContextLost as lost:
        print(lost.kernels)


def at_the_end() -> None:
    """A fault that nobody asks for, buffers still alive: the process ends as if nothing were."""
    found = gpu()
    globals()["kept"] = [found.allocate(1 << 20), found.pinned.empty((1000,), "f4"), found.new_stream(), found.stream.record()]
    plan("faults", "stray", ("pointer",))(found.stream, 0x10)
    print("done")


def interrupted() -> None:
    """Ctrl-C while waiting for a kernel of ten seconds."""
    found = gpu()
    plan("waiting", "spin", ("i64",))(found.stream, 10_000_000_000)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        found.stream.synchronize()
    except KeyboardInterrupt:
        print("interrupted, work under way:", not found.stream.done(), flush=True)
    os._exit(0)


def forked() -> None:
    """A child of a process that uses CUDA is told so."""
    gpu()
    child = os.fork()
    if child == 0:
        try:
            gpu()
        except CudaUnavailable as refusal:
            print(refusal.reason, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    {each.__name__: each for each in (stray, trapped, at_the_end, interrupted, forked)}[sys.argv[1]]()
