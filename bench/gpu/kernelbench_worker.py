"""The process of `bench.gpu.kernelbench` that measures: a problem for each line that it is given."""

import json
import runpy
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

import zynml
from bench.gpu.fused_programs import Unknown, fused_program
from bench.gpu.harness import as_torch, release
from bench.gpu.kernelbench_programs import program_of
from bench.worker import say

ROUNDS = 7
SLOW = 0.3
"""Seconds of a call from which on two rounds have to do."""

QUEUED = 600_000
"""Clocks that the device is kept busy while the host queues a call."""

TOLERANCE = 1e-2
PIECE = 1 << 27


def measure(question: Mapping[str, Any], products: str, compiled: bool) -> None:
    """Says what is known of the problem as soon as it is."""
    torch.manual_seed(42)
    names = runpy.run_path(question["path"])
    model = names["Model"](*names["get_init_inputs"]()).to("cuda")
    inputs = [value.to("cuda") if isinstance(value, torch.Tensor) else value for value in names["get_inputs"]()]
    try:
        ours = program_of(question["title"], model, inputs) if question["level"] == 1 else fused_program(model, inputs)
    except Unknown as unknown:
        say(state="no program", message=f"no loops for {unknown}", done=True)
        return
    if ours is None:
        say(state="no program", done=True)
        return
    arguments = [value.detach() if isinstance(value, torch.Tensor) else value for value in ours.arguments]
    torch.cuda.synchronize()
    began = time.perf_counter()
    try:
        program = zynml.compile(ours.text, device="cuda:0", products=None if products == "exact" else products)
        got = program.f(*arguments)
        torch.cuda.synchronize()
    except zynml.ZynMLError as error:
        say(
            state="refused",
            message=f"{', '.join(sorted(set(error.codes)))}: {error.diagnostics[0].message}"[:300],
            text=ours.text,
            done=True,
        )
        return
    say(state="stopped", first_call_s=time.perf_counter() - began, text=ours.text)
    right, error = compared(as_torch(got).to("cuda"), model(*inputs))
    del got
    release()
    say(state="right" if right else "wrong", error=error)
    calls: dict[str, Callable[[], Any]] = {"ours": lambda: program.f(*arguments), "eager": lambda: model(*inputs)}
    say(**{f"{name}_ms": 1e3 * value for name, value in medians(calls, inputs, 2).items()})
    if compiled:
        began = time.perf_counter()
        fast = torch.compile(model)
        try:
            fast(*inputs)
            torch.cuda.synchronize()
        except Exception as error:
            say(message=f"torch.compile: {type(error).__name__}")
        else:
            calls["compile"] = lambda: fast(*inputs)
            say(compile_first_call_s=time.perf_counter() - began)
    say(**{f"{name}_ms": 1e3 * value for name, value in medians(calls, inputs, ROUNDS).items()}, done=True)
    torch.compiler.reset()


def compared(ours: Any, wanted: Any) -> tuple[bool, float]:
    """Whether all elements are near, and the norm of the difference over that of what is wanted."""
    if ours.shape != wanted.shape:
        return False, float("inf")
    ours, wanted = ours.reshape(-1), wanted.reshape(-1)
    right, squares, whole = True, 0.0, 0.0
    for start in range(0, ours.numel(), PIECE):
        a, b = ours[start : start + PIECE].double(), wanted[start : start + PIECE].double()
        right = right and bool(torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE))
        squares += float((a - b).square().sum())
        whole += float(b.square().sum())
    return right, (squares / max(whole, 1e-300)) ** 0.5


def medians(calls: Mapping[str, Callable[[], Any]], inputs: Sequence[Any], rounds: int) -> dict[str, float]:
    """Seconds of a call on the device, in turns; what was left in the cache is overwritten before each, where inputs are small."""
    size = sum(value.nbytes for value in inputs if isinstance(value, torch.Tensor))
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    flush = torch.empty(2 * cache if size < 8 * cache else 0, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for turn in range(rounds):
        for name, call in calls.items():
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(QUEUED)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end) / 1e3)
        if turn and max(values[-1] for values in times.values()) > SLOW:
            break
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    products, peers = sys.argv[1:]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = products == "tf32"
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
    torch.set_grad_enabled(False)
    torch.set_default_device("cuda")
    say(device=torch.cuda.get_device_name(0), torch=torch.__version__, products=products, done=True)
    for question in map(json.loads, sys.stdin):
        try:
            measure(question, products, peers == "compile")
        except Exception as error:
            say(state="crashed", message=f"{type(error).__name__}: {error}"[:300], done=True)
        release()


if __name__ == "__main__":
    main()
