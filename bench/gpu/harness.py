"""How a row is measured. Ours and its peers run in turn, in one process, on the same tensors; answers are compared first, in float64.

Times are between events on the device, of a burst of calls that the host has queued while the device was kept busy: what the device
needs, where the host is fast enough to stay ahead. What a call costs the host is a figure of its own. The calls of a burst take copies
of their inputs in turn, so that what one left in the L2 cache is gone when its turn comes again."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import Factory, field, frozen

import zynml
from bench.gpu.limits import Cost, Limits
from compiler.devices.tuning.tuner import forget, tuner_of
from runtime.cuda.gpu import gpu

Call = Callable[..., Any]

BURST_SECONDS, BURST_CALLS = 0.01, 20
SLOW = 0.05
"""Seconds of a call from which on three rounds have to do."""

QUEUED_BELOW = 3e-4
"""Seconds of a call: longer ones keep the device ahead of the host by themselves."""

COPIES = 32


class Arrays:
    """Inputs on the device, the same in every run."""

    def __init__(self) -> None:
        self.device = torch.device("cuda")
        self.generator = torch.Generator(device=self.device).manual_seed(7)

    def normal(self, *shape: int, dtype: Any = torch.bfloat16) -> Any:
        """Of mean 0 and deviation 1; fp8 likewise, and f64 too."""
        wide = torch.randn(*shape, device=self.device, generator=self.generator, dtype=torch.float32)
        return wide.to(dtype)

    def whole(self, low: int, high: int, *shape: int, dtype: Any) -> Any:
        """Whole numbers from `low` to below `high`."""
        return torch.randint(low, high, shape, device=self.device, generator=self.generator, dtype=dtype)


@frozen
class Row:
    """`inputs` makes what is given to ours and to every peer. `reference`: the answer, in float64 where that tells more than the first
    peer's, which stands in for it. `tolerance`: of the norm of the difference, over that of the answer. `goal`: the ratio to the best
    peer that is wanted; a row of a `group` counts in that group's geometric mean. `quick`: also of a short run."""

    name: str
    source: str
    inputs: Callable[[Arrays], Sequence[Any]]
    peers: Mapping[str, Call]
    cost: Cost
    tolerance: float
    reference: Call | None = None
    goal: float | None = None
    group: str = ""
    quick: bool = False
    alike: bool = True
    """Whether the peers compute the same; else they are what it should cost."""
    notes: Mapping[str, Any] = field(default=Factory(dict))


def measured(row: Row, rounds: int, limits: Limits | None) -> dict[str, Any]:
    """The row's figures; where ours or every peer fails, the reason."""
    found: dict[str, Any] = {"workload": row.name, "unit": row.cost.unit, "goal": row.goal, "group": row.group, **row.notes}
    found |= {"operations": row.cost.operations, "bytes": row.cost.bytes, "type": row.cost.type}
    inputs = row.inputs(Arrays())
    absent = {name: reason for name, call in row.peers.items() if (reason := _refusal(call, inputs)) is not None}
    peers = {name: call for name, call in row.peers.items() if name not in absent}
    found["absent"] = absent
    forget()
    began = time.perf_counter()
    try:
        program = zynml.compile(row.source, device="cuda:0")
        first = program.f(*inputs)
        torch.cuda.synchronize()
    except zynml.ZynMLError as error:
        return found | {"failed": f"{', '.join(sorted(set(error.codes)))}: {error.diagnostics[0].message}"}
    found["first_call_s"] = time.perf_counter() - began
    tuner = tuner_of(gpu(0))
    answer = row.reference or next(iter(peers.values()), None)
    if answer is not None:
        found["error"] = worst = error_of(first, answer(*inputs))
        found["right"] = bool(worst <= row.tolerance)
    if row.reference is not None and peers and row.alike:
        name, call = next(iter(peers.items()))
        found["peer_error"] = error_of(call(*inputs), row.reference(*inputs))
    del first
    calls = {"ours": program.f, **peers}
    if tuner.spent:
        found["first_call_s"] -= tuner.spent
        found["tuning_s"] = tuner.spent
    if tuner.changes:
        calls["untuned"] = zynml.compile(row.source, device="cuda:0", tune=False).f
        calls["untuned"](*inputs)
    turns = _turns(inputs)
    single = {name: seconds_of(call, turns, 1) for name, call in calls.items()}
    single = {name: min(single[name], seconds_of(call, turns, 1)) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds if max(single.values()) < SLOW else 3):
        for name, call in calls.items():
            repeats = max(2, min(BURST_CALLS, int(BURST_SECONDS / max(single[name], 1e-6))))
            seconds_of(call, turns, 1)
            times[name].append(seconds_of(call, turns, repeats, single[name] < QUEUED_BELOW))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians.pop("ours")
    if "untuned" in medians:
        found["untuned_ms"] = 1e3 * medians.pop("untuned")
        found["speed_without_tuning"] = statistics.median(a / b for a, b in zip(times["ours"], times["untuned"], strict=True))
    found |= {"ours_ms": 1e3 * ours, "rate": row.cost.rate(ours), "peers_ms": {name: 1e3 * passed for name, passed in medians.items()}}
    if limits is not None:
        found |= {"share_of_limit": row.cost.least_seconds(limits) / ours, "bound": row.cost.bound(limits)}
    if medians:
        best = min(medians, key=lambda name: medians[name])
        ratios = [b / a for a, b in zip(times["ours"], times[best], strict=True)]
        found |= {"best_peer": best, "peer_ms": 1e3 * medians[best]}
        found |= {"ratio": statistics.median(ratios), "ratio_spread": [min(ratios), max(ratios)]}
    if ours < QUEUED_BELOW:
        found["host_us"] = {name: 1e6 * _host_seconds(call, turns) for name, call in calls.items()}
    return found


def error_of(ours: Any, wanted: Any) -> float:
    """The norm of the difference over the norm of what is wanted; of several results the largest."""
    if isinstance(wanted, tuple | list) and isinstance(ours, tuple | list):
        return max(error_of(a, b) for a, b in zip(ours, wanted, strict=True))
    given, wanted = (as_torch(v).to("cuda").double() for v in (ours, wanted))
    if given.shape != wanted.shape or not torch.isfinite(given).all():
        return float("inf")
    return float((given - wanted).norm() / wanted.norm().clamp_min(1e-300))


def as_torch(value: Any) -> Any:
    return torch.from_dlpack(value) if hasattr(value, "__dlpack__") else torch.as_tensor(value)


def release() -> None:
    """Give memory back that rows before took."""
    gc.collect()
    torch.cuda.empty_cache()


def _refusal(call: Call, inputs: Sequence[Any]) -> str | None:
    """Why a peer can't do this, in its own words."""
    try:
        call(*inputs)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return None


def _turns(inputs: Sequence[Any]) -> list[Sequence[Any]]:
    """The inputs, and as many copies of them as twice the L2 cache holds. Strides stay."""
    size = sum(value.nbytes for value in inputs if isinstance(value, torch.Tensor))
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    copies = min(COPIES, 2 * cache // max(size, 1))
    return [inputs, *([value.clone() if isinstance(value, torch.Tensor) else value for value in inputs] for _ in range(copies))]


def seconds_of(call: Call, turns: Sequence[Sequence[Any]], repeats: int, queued: bool = False) -> float:
    """Of one call on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if queued:
        torch.cuda._sleep(1_200_000)
    begin.record()
    for number in range(repeats):
        call(*turns[number % len(turns)])
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / repeats


def _host_seconds(call: Call, turns: Sequence[Sequence[Any]], repeats: int = 100) -> float:
    """Of one call until it returns, while the device is busy with those before."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for number in range(repeats):
        call(*turns[number % len(turns)])
    passed = time.perf_counter() - began
    torch.cuda.synchronize()
    return passed / repeats
