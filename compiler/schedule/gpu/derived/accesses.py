"""The loads of a thread: elements side by side in memory are one aligned vector where all addresses allow it, and what lies outside where
a condition fails is read from the nearest element inside, so that no load waits for a condition."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from compiler.analysis.edge_reads import Outside
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, bytes_of
from compiler.machines.access import ALIGNMENT
from compiler.schedule.gpu.derived.instances import Part, StoredElement, ThreadInstances
from compiler.schedule.gpu.derived.nest import ThreadNest
from runtime.records import frozen


@frozen
class LoadGroup:
    """`lanes` elements from the index on. `below`, `above`: dimensions along which the index may lie before the first element or behind
    the last: where the condition of the load fails, or where others are read, as `outside` says."""

    memory: int
    parts: tuple[Part, ...]
    at: tuple[int, ...]
    lanes: int
    below: tuple[bool, ...]
    above: tuple[bool, ...]
    outside: Outside | None


def load_groups(instances: ThreadInstances, live: Sequence[bool]) -> Mapping[int, tuple[LoadGroup, int]]:
    """Of each load that is needed, what is loaded and in which lane it lies."""
    buckets: dict[tuple[object, ...], list[int]] = {}
    widest: dict[tuple[object, ...], int] = {}
    for number, node in enumerate(instances.nodes):
        if node[0] != "load" or not live[number]:
            continue
        _, memory, parts, at, *edges = node
        width = widest.get((memory, parts))
        if width is None:
            width = widest[memory, parts] = widest_vector(mem_of(instances.nest.memories[memory]), parts)
        bucket = (memory, parts, at[:-1], at[-1] // width if at else 0, *edges)
        buckets.setdefault(bucket, []).append(number)
    groups: dict[int, tuple[LoadGroup, int]] = {}
    for members in buckets.values():
        node = instances.nodes[members[0]]
        groups.update(_grouped(instances, members, widest[node[1], node[2]]))
    return groups


@frozen
class StoreGroup:
    """Values side by side from the index on, stored together where a condition holds."""

    memory: int
    parts: tuple[Part, ...]
    at: tuple[int, ...]
    values: tuple[int, ...]
    where: int | None


def store_groups(nest: ThreadNest, stores: Iterable[StoredElement], mems: Mapping[int, Mem]) -> list[StoreGroup]:
    """The stores of a thread, those that are one aligned vector together. `mems`: other memories than the nest's that they go to."""
    buckets: dict[tuple[int, tuple[int, ...], int, int | None, int, int], list[StoredElement]] = {}
    for element in stores:
        memory = nest.memories.index(nest.ops[element.op].mem)  # type: ignore[attr-defined]
        width = widest_vector(mems.get(memory) or mem_of(nest.memories[memory]), element.parts)
        buckets.setdefault((element.op, element.at[:-1], element.at[-1] // width, element.where, memory, width), []).append(element)
    groups = []
    for (_, _, _, where, memory, width), bucket in buckets.items():
        elements = sorted(bucket, key=lambda element: element.at[-1])
        while elements:
            lanes = width
            while not _side_by_side(elements[:lanes], lanes):
                lanes //= 2
            together, elements = elements[:lanes], elements[lanes:]
            groups.append(StoreGroup(memory, together[0].parts, together[0].at, tuple(e.value for e in together), where))
    return groups


def _side_by_side(elements: Sequence[StoredElement], lanes: int) -> bool:
    """Whether these are so many elements, one behind the other, from a multiple of as many on."""
    first = elements[0].at[-1]
    return lanes == 1 or (len(elements) == lanes and first % lanes == 0 and elements[-1].at[-1] == first + lanes - 1)


def widest_vector(mem: Mem, parts: Sequence[Part]) -> int:
    """Elements of the longest vector that is aligned wherever the thread stands, and whatever the constants of other dimensions are."""
    size = bytes_of(mem.dtype)
    strides = strides_of(mem)
    if not parts or strides[-1] != 1:
        return 1
    known = gcd(ALIGNMENT, mem.align or size, *(size * coefficient for _, coefficient in parts[-1]))
    for dim, stride in zip(mem.dims[:-1], strides, strict=False):
        if dim.value != 1:
            known = gcd(known, size * stride)
    return max(1, known // size)


def strides_of(mem: Mem) -> list[int]:
    """Elements between neighbours along each dimension, of a memory whose extents are numbers."""
    if mem.strides is not None:
        return [stride.constant for stride in mem.strides]
    strides = [1]
    for dim in reversed(mem.dims[1:]):
        strides.insert(0, strides[0] * dim.constant)
    return strides[: mem.rank]


def _grouped(instances: ThreadInstances, members: list[int], width: int) -> Mapping[int, tuple[LoadGroup, int]]:
    at = instances.nodes[members[0]][3]
    last = [instances.nodes[number][3][-1] for number in members] if at else []
    lanes = 1
    while lanes < width and last and min(last) // lanes != max(last) // lanes:
        lanes *= 2
    if lanes > 1:
        group = _group(instances, members[0], (*at[:-1], min(last) // lanes * lanes), lanes)
        if group is not None and _has_mirrored(instances, group, [element - group.at[-1] for element in last]):
            return {number: (group, element - group.at[-1]) for number, element in zip(members, last, strict=True)}
    single = {}
    for number in members:
        group = _group(instances, number, instances.nodes[number][3], 1)
        assert group is not None
        single[number] = group, 0
    return single


def lanes_outside(group: LoadGroup, lane: int) -> tuple[int, int]:
    """In which lanes of the first and of the last vector inside the element lies that is read for a lane of the one beside them."""
    last = group.lanes - 1
    match group.outside:
        case Outside.MIRRORED:
            return last + 1 - lane, last - 1 - lane
        case Outside.REPEATED:
            return last - lane, last - lane
        case _:
            return 0, last


def _has_mirrored(instances: ThreadInstances, group: LoadGroup, lanes: Sequence[int]) -> bool:
    """Whether what these lanes read instead of elements outside lies in the first and in the last vector, where such lanes turn back."""
    if group.outside not in (Outside.MIRRORED, Outside.REPEATED):
        return True
    dim = mem_of(instances.nest.memories[group.memory]).dims[-1].constant
    low, high = instances.interval(group.parts[-1], group.at[-1])
    outside = [lanes_outside(group, lane) for lane in lanes]
    below = low >= 0 or (low == -group.lanes and all(first < group.lanes for first, _ in outside))
    return below and (high < dim or (high == dim and all(last >= 0 for _, last in outside)))


def _group(instances: ThreadInstances, number: int, at: tuple[int, ...], lanes: int) -> LoadGroup | None:
    """None where a vector may reach beyond the memory."""
    _, memory, parts, _, guarded, outside = instances.nodes[number]
    dims = [dim.constant for dim in mem_of(instances.nest.memories[memory]).dims]
    below, above, led_back = [], [], guarded or outside is not None
    for position, (part, constant, dim) in enumerate(zip(parts, at, dims, strict=True)):
        low, high = instances.interval(part, constant)
        beyond = high + (lanes if position == len(dims) - 1 else 1) > dim
        if lanes > 1 and position == len(dims) - 1 and (low < 0 or beyond) and dim % lanes:
            return None
        below.append(led_back and low < 0)
        above.append(led_back and beyond)
    return LoadGroup(memory, parts, at, lanes, tuple(below), tuple(above), outside)
