"""What a thread's kernel costs by its table: an analysis of its numbered values and of what a block touches. Times are nanoseconds of one
launch. What depends on them is an order among tables, not a promise."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, log2, prod

from compiler.hir.core import Binary, Cast, Contract, Unary
from compiler.hir.memory import Store, mem_of
from compiler.hir.types import Mem, bytes_of, is_float
from compiler.machines.access import ALIGNMENT, WORD
from compiler.machines.gpu import GpuMachine
from compiler.machines.rates import GpuRates
from compiler.schedule.gpu.derived.accesses import LoadGroup, load_groups, store_groups, strides_of
from compiler.schedule.gpu.derived.instances import Part, ThreadInstances, operands_of
from compiler.schedule.gpu.derived.nest import ThreadNest
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.derived.turned_results import row_lanes
from compiler.schedule.gpu.price.launch_price import BEGIN, ISSUE, NARROW
from compiler.schedule.gpu.price.memory_traffic import LINE, SECTOR
from compiler.schedule.gpu.price.queue import throughput
from runtime.records import frozen

DRAIN = 0.3
"""Of a wave: loads come first and stores last."""
PAGE, PAGES = 1 << 21, 16
"""Bytes of a page, and pages of a block that cost nothing."""
CODE = 3000
"""Instructions of a kernel that are fetched without waiting."""
FUNCTION = 20
"""Instructions of a function such as `exp`."""
CONSTANT_DIVISOR = 5
"""Instructions of a division of ints by a constant."""
RESERVED = 20
"""Registers of addresses and digits."""
MOST_REGISTERS = 255


@frozen
class ThreadAccess:
    """Loads or stores that a thread makes: of so many bytes each, by their digits' coefficients."""

    memory: int
    parts: tuple[Part, ...]
    ats: tuple[tuple[int, ...], ...]
    lanes: int


@frozen
class ThreadWork:
    """What a thread does, whatever block it stands in."""

    instructions: float
    registers: int
    loads: tuple[ThreadAccess, ...]
    stores: tuple[ThreadAccess, ...]


def work_of(instances: ThreadInstances) -> ThreadWork:
    live = instances.live()
    groups = load_groups(instances, live)
    uses = Counter(operand for number, node in enumerate(instances.nodes) if live[number] for operand in operands_of(node))
    instructions = sum(_instructions(instances, number, uses) for number, needed in enumerate(live) if needed)
    vectors = dict.fromkeys(group for group, _ in groups.values())
    bases = {(group.memory, group.parts, group.below, group.above, _moved(group)) for group in vectors}
    instructions += len(vectors) + sum(4 + 3 * (any(below) + any(above)) for _, _, below, above, _ in bases)
    stores = _stores(instances)
    instructions += sum(len(access.ats) for access in stores) + 4 * len(stores) + 20
    return ThreadWork(instructions, _registers(instances, live), _accesses(vectors), stores)


def _moved(group: LoadGroup) -> tuple[int, ...]:
    """The constants of dimensions along which an index may be moved: such addresses have a base of their own."""
    return tuple(at if below or above else 0 for at, below, above in zip(group.at, group.below, group.above, strict=True))


def _instructions(instances: ThreadInstances, number: int, uses: Mapping[int, int]) -> float:
    node, dtype = instances.nodes[number], instances.dtypes[number]
    match node[0]:
        case "load" | "const" | "given":
            return 0.0
        case "op":
            return _cost(instances, node, dtype, uses, number)
        case _:
            return 1.0


def _cost(instances: ThreadInstances, node: tuple[int, ...], dtype: str, uses: Mapping[int, int], number: int) -> float:
    op = instances.templates[node[1]]
    wide = 2.0 if dtype in ("f64", "i64", "u64", "index") else 1.0
    match op:
        case Binary(operator="mul") if "contract" in op.flags and uses[number] == 1:
            return 0.0
        case Binary(operator="div" | "rem") if not is_float(dtype) and instances.nodes[node[3]][0] == "const":
            return wide * CONSTANT_DIVISOR
        case Binary(operator="div" | "rem" | "pow" | "atan2"):
            return wide * (8.0 if is_float(dtype) else FUNCTION)
        case Binary() | Contract():
            return wide
        case Unary(operator="neg" | "not" | "abs"):
            return wide
        case Unary():
            return wide * FUNCTION
        case Cast():
            return wide
        case _:
            return wide


def _registers(instances: ThreadInstances, live: Sequence[bool]) -> int:
    """Values that are needed at the same time, at most, if each is computed where it is numbered."""
    last: dict[int, int] = {}
    for number, node in enumerate(instances.nodes):
        if live[number]:
            for operand in operands_of(node):
                last[operand] = number
    end = len(instances.nodes)
    for store in instances.stores:
        last[store.value] = end
    ending = Counter(last[number] for number, needed in enumerate(live) if needed and number in last)
    held = most = 0
    for number, needed in enumerate(live):
        if needed and instances.nodes[number][0] != "const":
            held += 1
            most = max(most, held)
        held -= ending[number]
        held = max(0, held)
    width = 2 if any(dtype in ("f64", "i64", "u64") for dtype in instances.dtypes) else 1
    return min(MOST_REGISTERS, width * most + RESERVED)


def _accesses(groups: Mapping[LoadGroup, None]) -> tuple[ThreadAccess, ...]:
    together: dict[tuple[int, tuple[Part, ...], int], list[tuple[int, ...]]] = {}
    for group in groups:
        together.setdefault((group.memory, group.parts, group.lanes), []).append(group.at)
    return tuple(ThreadAccess(memory, parts, tuple(ats), lanes) for (memory, parts, lanes), ats in together.items())


def _stores(instances: ThreadInstances) -> tuple[ThreadAccess, ...]:
    accesses: dict[tuple[int, tuple[Part, ...], int], list[tuple[int, ...]]] = {}
    for group in store_groups(instances.nest, instances.stores, {}):
        accesses.setdefault((group.memory, group.parts, len(group.values)), []).append(group.at)
    return tuple(ThreadAccess(memory, parts, tuple(ats), lanes) for (memory, parts, lanes), ats in accesses.items())


@frozen
class ThreadPrice:
    """`nanoseconds` of a launch, and of each stream by itself."""

    nanoseconds: float
    streams: tuple[tuple[str, float], ...]
    instructions: float
    registers: int

    def words(self) -> str:
        limit = max(self.streams, key=lambda stream: stream[1])[0]
        return f"about {self.nanoseconds / 1000:.1f} us by {limit}, {self.instructions:.1f} instructions an element"


def price(
    nest: ThreadNest, table: ThreadTable, works: Sequence[tuple[float, ThreadWork]], machine: GpuMachine, processors: int, rates: GpuRates
) -> ThreadPrice:
    """`works`: what threads do, each with its share of them."""
    clock = rates.clock
    blocks, threads = prod(table.blocks(nest)), table.block
    warps = -(-threads // machine.lanes)
    instructions = sum(share * work.instructions for share, work in works)
    registers = max(work.registers for _, work in works)
    work = works[0][1]
    bytes_dram, dram_factor, l2_bytes, wavefronts, pages, shared = 0.0, 1.0, 0.0, 0.0, 0.0, 0.0
    whole = sum(bytes_of(mem_of(memory).dtype) * prod(dim.constant for dim in mem_of(memory).dims) for memory in nest.memories)
    for number, memory in enumerate(nest.memories):
        mem = mem_of(memory)
        own = [access for access in (*work.loads, *work.stores) if access.memory == number]
        if not own:
            continue
        total = bytes_of(mem.dtype) * prod(dim.constant for dim in mem.dims)
        touched, run = _touched(nest, table, number, own)
        read = min(float(total), touched * blocks)
        bytes_dram += read
        stores = [access for access in own if access in work.stores]
        turned = stores if table.turned else []
        stored = sum(len(access.ats) * len(_sectors(nest, table, machine.lanes, access, mem)) for access in stores if not turned)
        l2_bytes += max(touched, warps * SECTOR * stored)  # the first cache puts no stores together
        if read * 8 > whole:
            widest = max(bytes_of(mem.dtype) * access.lanes for access in own)
            narrow = NARROW * log2(ALIGNMENT / widest)
            dram_factor = max(dram_factor, 1 + 0.25 * max(0.0, LINE / run - 1) + narrow)
        pages += _pages(nest, table, own, mem)
        wavefronts += sum(_wavefronts(nest, table, machine.lanes, access, mem) for access in own if access not in turned)
        if turned:
            shared += touched
            lanes, _ = row_lanes(nest, table, next(op for op in nest.ops if isinstance(op, Store) and op.mem is memory))
            wavefronts += 3 * prod(table.registers) * max(1 / lanes, bytes_of(mem.dtype) / WORD)  # stored, read and stored again
            instructions += 4.0 * prod(table.registers) / lanes
    resident = max(1, machine.resident_blocks(threads, registers, ceil(shared)))
    each = blocks / processors
    code = sum(each_work.instructions for _, each_work in works)
    issue = each * warps * instructions / ISSUE / clock * (1 + max(0.0, code - CODE) / CODE / 4)
    streams = {
        "memory": bytes_dram / rates.memory * dram_factor * (1 + 0.3 * max(0.0, 1 - PAGES / max(1.0, pages))),
        "the second cache": each * l2_bytes / (rates.second_cache * clock),
        "the first cache": each * warps * wavefronts / clock,
        "instructions": issue,
        "blocks": each * rates.block / clock,
    }
    waiting = (BEGIN + rates.latency) / clock
    at_once = min(resident, max(1, ceil(each)))
    customers = at_once * max(1, warps // 4)
    portions = each * max(1, warps // 4)
    services = [streams[name] / portions for name in ("memory", "the second cache", "the first cache", "instructions")]
    passed = max(portions / throughput(waiting, services, customers), streams["blocks"])
    if each < 8:
        passed *= ceil(each) / each
    passed *= 1 + DRAIN / max(0.6, each / resident)
    return ThreadPrice(passed + rates.launch, tuple(streams.items()), instructions / prod(table.registers), registers)


def _reach(nest: ThreadNest, table: ThreadTable, accesses: Sequence[ThreadAccess], position: int) -> int:
    """Elements along a dim from a block's first thread to its last."""
    spans, steps = table.spans(nest), {axis: c for access in accesses for axis, c in access.parts[position]}
    return sum(abs(c) * (table.registers[axis] // spans[axis].unit) * (table.threads[axis] - 1) for axis, c in steps.items())


def _pages(nest: ThreadNest, table: ThreadTable, accesses: Sequence[ThreadAccess], mem: Mem) -> float:
    """Pages of a memory that a block touches, about."""
    size, pages = bytes_of(mem.dtype), 1.0
    for position, stride in enumerate(strides_of(mem)):
        constants = [at[position] for access in accesses for at in access.ats]
        extent = min(mem.dims[position].constant, max(constants) - min(constants) + 1 + _reach(nest, table, accesses, position))
        pages *= max(1.0, min(extent, extent * size * stride / PAGE))
    return pages


def _touched(nest: ThreadNest, table: ThreadTable, memory: int, accesses: Sequence[ThreadAccess]) -> tuple[float, float]:
    """Bytes of sectors that a block touches of a memory, and of those that lie in one piece."""
    mem = mem_of(nest.memories[memory])
    size, strides = bytes_of(mem.dtype), strides_of(mem)
    extents, elements = [], []
    for position, dim in enumerate(mem.dims):
        low = min(min(at[position] for at in access.ats) for access in accesses)
        high = max(max(at[position] for at in access.ats) + (access.lanes - 1) * (position == mem.rank - 1) for access in accesses)
        extents.append(min(dim.constant, high - low + 1 + _reach(nest, table, accesses, position)))
        steps = {axis for access in accesses for axis, _ in access.parts[position]}
        each = prod(table.threads[axis] for axis in steps) * len({at[position] for access in accesses for at in access.ats})
        elements.append(min(extents[-1], each * max(access.lanes for access in accesses) if position == mem.rank - 1 else each))
    if not extents:
        return float(SECTOR), float(SECTOR)
    stride = size * strides[-1]
    row: float = max(SECTOR, min(extents[-1] * stride, elements[-1] * max(SECTOR, stride)))
    row = -(-row // SECTOR) * SECTOR + (SECTOR / 2 if len(extents) > 1 else 0)
    run = float(row)
    for position in range(mem.rank - 2, -1, -1):
        if extents[position + 1] < mem.dims[position + 1].constant:
            break
        run *= extents[position]
    return row * prod(elements[:-1]), max(float(SECTOR), run)


def _wavefronts(nest: ThreadNest, table: ThreadTable, lanes: int, access: ThreadAccess, mem: Mem) -> float:
    """Cycles of the first cache for a warp's accesses."""
    sectors = _sectors(nest, table, lanes, access, mem)
    lines = {sector // (LINE // SECTOR) for sector in sectors}
    return len(access.ats) * max(1.0, len(sectors) * SECTOR / 64, len(lines))


def _sectors(nest: ThreadNest, table: ThreadTable, lanes: int, access: ThreadAccess, mem: Mem) -> set[int]:
    """Which sectors a warp touches by one of its accesses."""
    size, strides, spans = bytes_of(mem.dtype), strides_of(mem), table.spans(nest)
    left, addresses = lanes, [0]
    for axis in table.order:
        count = min(left, table.threads[axis])
        each = size * sum(c * stride for part, stride in zip(access.parts, strides, strict=True) for a, c in part if a == axis)
        step = each * (table.registers[axis] // spans[axis].unit)
        addresses = [address + step * digit for address in addresses for digit in range(count)]
        left //= max(1, count)
        if left <= 1:
            break
    return {sector for address in addresses for sector in range(address // SECTOR, (address + size * access.lanes - 1) // SECTOR + 1)}
