"""Faults planted into kernels of warpgroups as the scheduler makes them for sm_90a: a phase that is wrong, a slot of a ring, a fence, wait,
arrival or commit that is missing or comes too early. Each is found, with a code and the instruction; the kernels as they are, are clean."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import frozen

from compiler.hir.affine import Affine
from compiler.hir.control import If
from compiler.hir.core import Binary, Const
from compiler.hir.gpu import FenceAsync, SyncThreads
from compiler.hir.hopper import (
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierWait,
    BulkCommit,
    BulkLoad,
    BulkWait,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
)
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import StoreMatrix
from compiler.hir.text import print_instruction
from compiler.hir.types import I32
from tests.sanitize.warpgroup_kernels import Change, kernel

Kind = type[Instruction]


def places(region: Region) -> Iterator[tuple[Region, Instruction]]:
    """All instructions in order, each with the region that it is in."""
    for op in list(region.body):
        yield region, op
        for inner in op.regions:
            yield from places(inner)


def the(function: HirFunction, kind: Kind, number: int, **facts: Any) -> tuple[Region, Instruction]:
    """The instruction of a kind with this number among those of whom the facts hold; negative: from the end."""
    fitting = [
        (region, op)
        for region, op in places(function.body)
        if isinstance(op, kind) and all(getattr(op, name) == value for name, value in facts.items())
    ]
    return fitting[number]


def without(kind: Kind, number: int = 0, **facts: Any) -> Change:
    def change(function: HirFunction) -> None:
        region, op = the(function, kind, number, **facts)
        after = tuple(op.operand_values)[: len(op.results)]
        region.body.remove(op)
        for _, other in places(function.body):
            for result, value in zip(op.results, after, strict=True):
                _use(other, result.name, value)

    return change


def _use(op: Instruction, name: str, value: Any) -> None:
    """Take another value in place of one of this name."""
    for field in op.__attrs_attrs__:
        held = getattr(op, field.name)
        if getattr(held, "name", None) == name and field.name != "results" and hasattr(held, "source"):
            setattr(op, field.name, value)
        elif isinstance(held, tuple) and any(getattr(one, "name", None) == name for one in held):
            setattr(op, field.name, tuple(value if getattr(one, "name", None) == name else one for one in held))


def with_(kind: Kind, number: int = 0, **changes: Any) -> Change:
    """Other attributes: values, or what to make of the old ones."""

    def change(function: HirFunction) -> None:
        _, op = the(function, kind, number)
        for name, made in changes.items():
            setattr(op, name, made(getattr(op, name)) if callable(made) else made)

    return change


def behind(kind: Kind, number: int, other: Kind, other_number: int) -> Change:
    """One instruction behind the branch in which another one stands alone."""

    def change(function: HirFunction) -> None:
        region, op = the(function, kind, number)
        inside, _ = the(function, other, other_number)
        branch = next(branch for _, branch in places(function.body) if isinstance(branch, If) and branch.then is inside)
        region.body.remove(op)
        region.body.insert(region.body.index(branch) + 1, op)

    return change


def before(kind: Kind, number: int, other: Kind, other_number: int) -> Change:
    """One instruction before another one."""

    def change(function: HirFunction) -> None:
        region, op = the(function, kind, number)
        _, first = the(function, other, other_number)
        region.body.remove(op)
        region.body.insert(region.body.index(first), op)

    return change


def other_phase(number: int) -> Change:
    """A wait for the phase before."""

    def change(function: HirFunction) -> None:
        region, op = the(function, BarrierWait, number)
        assert isinstance(op, BarrierWait)
        one, flipped = Value("one", I32), Value("flipped", I32)
        at = region.body.index(op)
        const, turn = Const(value=1, type=I32), Binary(operator="xor", left=op.parity, right=one)
        const.results, turn.results = [one], [flipped]
        region.body[at:at] = [const, turn]
        op.parity = flipped

    return change


def next_slot(ring: int) -> Callable[[tuple[Affine, ...]], tuple[Affine, ...]]:
    """The slot of a ring behind the right one."""

    def index(old: tuple[Affine, ...]) -> tuple[Affine, ...]:
        one = old[0] + 1
        return (one - one.floordiv(ring) * ring, *old[1:])

    return index


def fewer(number: int) -> int:
    return number - 1


def more(number: int) -> int:
    return number + 1


@frozen
class WarpgroupPlant:
    """A fault in a kernel, and the codes as one of which it is found."""

    kernel: str
    name: str
    change: Change
    code: str = "0412"


P, T, G, A = "product", "two warpgroups", "gated", "attention"
PLANTS = [
    WarpgroupPlant(P, "products begin in the phase before", other_phase(1)),
    WarpgroupPlant(P, "copies begin in the phase before", other_phase(0), "0416"),
    WarpgroupPlant(P, "no wait for the copies", without(BarrierWait, 1)),
    WarpgroupPlant(P, "no wait for the slot", without(BarrierWait, 0)),
    WarpgroupPlant(P, "a copy to the next slot", with_(BulkLoad, 0, shared_index=next_slot(3))),
    WarpgroupPlant(P, "products of the next slot", with_(WarpgroupMma, 3, b_index=next_slot(3))),
    WarpgroupPlant(P, "a copy that another slot's barrier counts", with_(BulkLoad, 1, barrier_index=next_slot(3)), "0416"),
    WarpgroupPlant(P, "the next slot is given back", with_(BarrierArrive, 0, barrier_index=next_slot(3)), "0416"),
    WarpgroupPlant(P, "given back before the wait", behind(WarpgroupWait, 0, BarrierArrive, 0)),
    WarpgroupPlant(P, "one more group may be under way", with_(WarpgroupWait, 0, count=more)),
    WarpgroupPlant(P, "no wait for the last products", without(WarpgroupWait, 1)),
    WarpgroupPlant(P, "a group left under way at the end", with_(WarpgroupWait, 1, count=1)),
    WarpgroupPlant(P, "products are not committed", without(WarpgroupCommit, 0)),
    WarpgroupPlant(P, "registers are not fenced", without(WarpgroupFence, 0)),
    WarpgroupPlant(P, "stores are not fenced", without(FenceAsync, 0)),
    WarpgroupPlant(P, "a fence before the last stores", before(FenceAsync, 0, StoreMatrix, 3)),
    WarpgroupPlant(P, "the result's store is not committed", without(BulkCommit, 0)),
    WarpgroupPlant(P, "no wait before the result is written again", without(BulkWait, 0)),
    WarpgroupPlant(P, "no wait at the end", without(BulkWait, 1)),
    WarpgroupPlant(P, "one store may be under way", with_(BulkWait, 0, count=more)),
    WarpgroupPlant(P, "no barrier after the result is written", without(SyncThreads, 2)),
    WarpgroupPlant(P, "no barrier before the result is written again", without(SyncThreads, 1)),
    WarpgroupPlant(P, "barriers that not all know", without(SyncThreads, 0)),
    WarpgroupPlant(P, "fewer bytes than come", with_(BarrierExpect, 0, bytes=lambda size: size // 2)),
    WarpgroupPlant(P, "more bytes than come", with_(BarrierExpect, 0, bytes=lambda size: 2 * size), "0416"),
    WarpgroupPlant(P, "more arrivals than come", with_(BarrierInit, 1, count=more), "0416"),
    WarpgroupPlant(P, "nobody gives slots back", without(BarrierArrive, 0), "0416"),
    WarpgroupPlant(T, "one warpgroup's arrival is enough", with_(BarrierInit, 1, count=fewer), "0416"),
    WarpgroupPlant(T, "slots are given back before the wait", behind(WarpgroupWait, 0, BarrierArrive, 0)),
    WarpgroupPlant(T, "warpgroups wait at each other's barrier", with_(SyncThreads, 2, id=2), "0411"),
    WarpgroupPlant(T, "products of the next slot", with_(WarpgroupMma, 0, a_index=next_slot(2))),
    WarpgroupPlant(T, "stores are not fenced", without(FenceAsync, 0)),
    WarpgroupPlant(G, "no wait for the slot", without(BarrierWait, 0)),
    WarpgroupPlant(G, "no wait for the copies", without(BarrierWait, 1)),
    WarpgroupPlant(G, "products are not committed", without(WarpgroupCommit, 0)),
    WarpgroupPlant(G, "one more group may be under way", with_(WarpgroupWait, 0, count=more)),
    WarpgroupPlant(A, "no wait for the queries", without(BarrierWait, 12)),
    WarpgroupPlant(A, "no wait for the slot of what is found", without(BarrierWait, 6)),
    WarpgroupPlant(A, "no wait for what is found", without(BarrierWait, 4)),
    WarpgroupPlant(A, "queries are given back before the result is read", without(BulkWait, 0)),
    WarpgroupPlant(A, "no wait for the keys' slot", without(BarrierWait, 2)),
    WarpgroupPlant(A, "no wait for the values' slot", without(BarrierWait, 3)),
    WarpgroupPlant(A, "no wait for keys", without(BarrierWait, 10)),
    WarpgroupPlant(A, "no wait for values", without(BarrierWait, 11)),
    WarpgroupPlant(A, "scores are read while they are under way", with_(WarpgroupWait, 1, count=more)),
    WarpgroupPlant(A, "keys are given back before the scores", behind(WarpgroupWait, 1, BarrierArrive, 5)),
    WarpgroupPlant(A, "values are given back before the sums", behind(WarpgroupWait, 2, BarrierArrive, 6)),
    WarpgroupPlant(A, "scores are not committed", without(WarpgroupCommit, 1)),
    WarpgroupPlant(A, "the next slot's values", with_(WarpgroupMma, 8, b_index=next_slot(2))),
    WarpgroupPlant(A, "the last values' phase is not waited for", other_phase(11)),
    WarpgroupPlant(A, "the result's store is not committed", without(BulkCommit, 0)),
    WarpgroupPlant(A, "stores are not fenced", without(FenceAsync, -1)),
]


@pytest.mark.parametrize("name", [P, T, G, A])
def test_a_kernel_as_the_scheduler_makes_it_is_clean(name: str) -> None:
    assert kernel(name).findings() == []


@pytest.mark.parametrize(("name", "seed"), [(P, 0), (P, 1), (P, 2), (A, 2)])
def test_in_any_order_too(name: str, seed: int) -> None:
    assert kernel(name).findings(seed=seed) == []


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.kernel}: {plant.name}")
def test_a_planted_fault_is_found(plant: WarpgroupPlant) -> None:
    findings = [finding for finding in kernel(plant.kernel).findings(plant.change, until=plant.code) if finding.code == plant.code]
    assert findings
    assert all(finding.label or print_instruction(finding.op) in finding.message for finding in findings)


def test_there_are_enough_of_them() -> None:
    assert len({(plant.kernel, plant.name) for plant in PLANTS}) == len(PLANTS) >= 20

