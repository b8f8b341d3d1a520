"""What a block of a launch does, read off the code of its threads (form C). One block is followed, all its threads at once. A loop is
followed through its first turn, which stands for all; how far a turn moves each index is carried along."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.control import For, If, While, Yield
from compiler.hir.core import Binary, Cast, Const, Index, Reduce, Unary, dtype_of
from compiler.hir.gpu import Atomic, Shuffle, SyncThreads
from compiler.hir.instruction import Instruction, InstructionFamily, Region, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.shared_memory import laid_out, shared_uses
from compiler.hir.tensor_core import LoadMatrix, StoreMatrix, WarpMma
from compiler.hir.types import Mem, Space, Tile, bytes_of, is_float
from compiler.hir.words import WORD, LoadWords, StoreWords
from compiler.schedule.gpu.price.lane_numbers import ELSEWHERE, Known, LaneNumbers, Moves, add_moves
from compiler.schedule.gpu.price.memory_traffic import MemoryTraffic, bank_cycles, shape_of
from runtime.lazy_numpy import Array, np
from runtime.records import Factory, define

FUNCTION, DIVISION = 20.0, 8.0
"""Instructions of a function such as `exp`, and of a quotient of floats."""
LOOP = 3
"""Instructions of a turn beside its body."""
UNKNOWN_TURNS = 16
"""Turns of a loop whose bounds come from data, about."""
SHARED_WAIT, WARP_WAIT, BARRIER_WAIT = 30, 25, 40
"""Cycles until a value comes from shared memory, from another lane, and until the warps of a block have met."""
PLAIN_WAIT, FUNCTION_WAIT, DIVISION_WAIT = 4, 40, 100
"""Cycles until a sum, the value of a function, a quotient is there."""
PRODUCT_WAIT = 33
"""Cycles until a product of matrices is there."""
PRODUCTS = (1600, 1024)
"""Terms of a warp's products of matrices in a cycle, times the bytes of one: on an H200 403 TFLOP/s of bf16; of f64."""
UNPRICED = (InstructionFamily.TENSOR_CORE, InstructionFamily.HOPPER, InstructionFamily.RING, InstructionFamily.LIBRARY)
"""Instructions of which nothing is known here: of matrix units and of bulk copies."""


class NotPriced(Exception):
    """The code has instructions that have no price here."""


@define
class BlockWork:
    """Of all `warps` of a block: instructions begun, cycles of shared memory and of matrix units, atomics, and the traffic of each memory
    by its name. Of a warp: cycles of waiting for values, one after the other. `registers`: those of a thread that values take, about."""

    warps: int
    registers: int
    shared: int
    instructions: float = 0.0
    shared_cycles: float = 0.0
    products: float = 0.0
    atomics: float = 0.0
    waiting: float = 0.0
    memories: dict[str, MemoryTraffic] = Factory(dict)


def block_work(
    function: HirFunction, sizes: Mapping[str, int], block: tuple[int, int, int], place: int, lanes: int, latency: float
) -> BlockWork:
    """The work of block `place` of the grid, with these values of the function's `index` parameters, in warps of so many lanes; `latency`:
    cycles until a value comes from memory. Raises `NotPriced`."""
    return _Follower(function, sizes, block, place, lanes, latency).run()


class _Follower:
    def __init__(
        self, function: HirFunction, sizes: Mapping[str, int], block: tuple[int, int, int], place: int, lanes: int, latency: float
    ) -> None:
        self.function, self.latency = function, latency
        self.threads, self.lanes = prod(block), min(lanes, prod(block))
        self.warps = -(-self.threads // lanes)
        self.axes = {name: extent.value or 1 for name, extent in function.axes.items()}
        self.known = LaneNumbers(sizes, self.axes, block, place, lanes)
        self.turns: dict[str, float] = {}
        """Of each loop around, by its variable."""
        self.work = BlockWork(self.warps, registers_of(function), laid_out(shared_uses(function)))

    def run(self) -> BlockWork:
        with np.errstate(all="ignore"):  # numbers of branches that aren't taken, and hashes, may wrap
            self.region(self.function.body, 1.0, np.ones(self.threads, bool))
        return self.work

    # ---- control ----

    def region(self, region: Region, weight: float, active: Array) -> None:
        """`weight`: how often the threads come by; `active`: which of them."""
        waits, loads = 0.0, False
        for op in region.body:
            match op:
                case For():
                    self.loop(op, weight, active)
                case If():
                    self.branch(op, weight, active)
                case While():
                    for inner in (op.before, op.body):
                        self.region(inner, weight * UNKNOWN_TURNS, active)
                case Yield():
                    pass
                case _:
                    loads = loads or (isinstance(op, Load | LoadWords) and mem_of(op.mem).space is Space.GLOBAL)
                    waits += self.instruction(op, weight, active)
        self.work.waiting += weight * (waits + (self.latency if loads else 0.0))

    def loop(self, op: For, weight: float, active: Array) -> None:
        name, low, high = op.variable.name, self.known.form(op.low), self.known.form(op.high)
        turns = float(UNKNOWN_TURNS)
        begin = Known(np.array(0)) if low is None else low
        self.known.numbers[name] = Known(begin.numbers, {**begin.moves, name: op.step})
        if low is not None and high is not None:
            each = self.of_threads(np.maximum(0, -((low.numbers - high.numbers) // op.step))) * active
            active = each > 0
            turns = float(self.by_warp(each).max(axis=1).mean())
        for parameter, initial in zip(op.body.parameters[1:], op.carried, strict=True):
            if (known := self.known.numbers.get(initial.name)) is not None:
                self.known.numbers[parameter.name] = Known(known.numbers, {**known.moves, name: ELSEWHERE})
        if turns:
            self.turns[name] = turns
            self.region(op.body, weight * turns, active)
            del self.turns[name]
            self.work.instructions += LOOP * weight * turns * self.warps

    def branch(self, op: If, weight: float, active: Array) -> None:
        """What is known to hold for no thread isn't followed; what isn't known holds every second time, unless the program says more."""
        known = self.known.numbers.get(op.condition.name)
        self.work.instructions += weight * self.warps
        for region, holds in ((op.then, True), (op.otherwise, False)):
            if region is None:
                continue
            if known is None:
                likely = 0.5 if op.likely is None else float(op.likely == holds)
                taken = active
            else:
                taken = active & (self.of_threads(known.numbers).astype(bool) == holds)
                likely = float(taken.any())
            if likely:
                self.region(region, weight * likely, taken)

    # ---- instructions ----

    def instruction(self, op: Instruction, weight: float, active: Array) -> float:
        """Counts it; how many cycles what stands behind it waits for it, memory apart."""
        issued = weight * float(self.by_warp(active).any(axis=1).sum())
        match op:
            case Load() | LoadWords() | Store() | StoreWords():
                return self.access(op, op.mem, op.index, weight, active)
            case AsyncCopy():
                self.work.shared_cycles += issued * op.bytes / WORD
                return self.access(op, op.source, op.source_index, weight, active)
            case Atomic():
                self.work.atomics += weight * float(active.sum())
                self.work.instructions += issued
                return 0.0
            case SyncThreads():
                self.work.instructions += issued
                return float(BARRIER_WAIT)
            case Shuffle():
                self.work.instructions += issued * _elements(op, self.axes)
                return float(WARP_WAIT)
            case LoadMatrix() | StoreMatrix():
                self.work.instructions += issued
                self.work.shared_cycles += issued * (op.count if isinstance(op, LoadMatrix) else len(op.values))
                return float(SHARED_WAIT)
            case WarpMma():
                self.work.instructions += issued
                self.work.products += issued * prod(op.shape) * bytes_of(op.dtype) / PRODUCTS[op.dtype == "f64"]
                return float(PRODUCT_WAIT)
        if op.family in UNPRICED:
            raise NotPriced(op.mnemonic)
        if self.known.follow(op) and _dtype(op) in ("index", "i1"):
            return 0.0  # much of it is done once, or is part of an address
        self.work.instructions += issued * cost_of(op) * _elements(op, self.axes)
        return latency_of(op)

    def access(self, op: Instruction, memory: Value, index: Sequence[Affine], weight: float, active: Array) -> float:
        mem = mem_of(memory)
        strides = self.strides(mem)
        shape = shape_of(op, mem, index, strides, self.axes)
        where, share = getattr(op, "where", None) or getattr(op, "valid", None), 1.0
        if where is not None and (mask := self.known.numbers.get(where.name)) is not None:
            active, share = active & self.of_threads(mask.numbers).astype(bool), mask.share
        lines = self.by_warp(active)
        self.work.instructions += weight * shape.times * float(lines.any(axis=1).sum())
        if not active.any() or mem.space in (Space.LOCAL, Space.CONSTANT):
            return 0.0
        addresses, moves = self.addresses(mem, index, strides)
        if mem.space is Space.SHARED:
            self.work.shared_cycles += weight * shape.times * bank_cycles(addresses, lines, shape.wide)
            return float(SHARED_WAIT) if isinstance(op, Load | LoadWords) else 0.0
        traffic = self.work.memories.get(memory.name)
        if traffic is None:
            traffic = MemoryTraffic(bytes_of(mem.dtype) * prod(map(self.known.number, mem.dims)))
            self.work.memories[memory.name] = traffic
        traffic.count(addresses, lines, shape, moves, self.turns, weight, isinstance(op, Store | StoreWords), share)
        return 0.0

    def addresses(self, mem: Mem, index: Sequence[Affine], strides: Sequence[int]) -> tuple[Array | None, Moves]:
        """Bytes from the beginning of a memory, a line a warp, None where they aren't known; and how turns of loops move them."""
        total, moves = np.zeros(self.threads, np.int64), dict[str, int | None]()
        for form, stride in zip(index, strides, strict=True):
            known = self.known.form(form)
            if known is None:
                return None, {}
            total = total + known.numbers * stride * bytes_of(mem.dtype)
            add_moves(moves, known.moves, stride * bytes_of(mem.dtype))
        return self.by_warp(total), moves

    def strides(self, mem: Mem) -> list[int]:
        if mem.strides is not None:
            return [self.known.number(stride) for stride in mem.strides]
        strides = [1]
        for dim in reversed(mem.dims[1:]):
            strides.insert(0, strides[0] * self.known.number(dim))
        return strides[: mem.rank]

    def of_threads(self, numbers: Array) -> Array:
        return np.broadcast_to(numbers, (self.threads,))

    def by_warp(self, numbers: Array) -> Array:
        """Numbers of all threads, a line a warp; a last warp that isn't whole has those of the first threads again."""
        return np.resize(numbers, (self.warps, self.lanes))


def _dtype(op: Instruction) -> str:
    return next((value.type.dtype for value in op.results if isinstance(value.type, Tile)), "f32")


def _elements(op: Instruction, axes: Mapping[str, int]) -> int:
    """Of what it computes, or of what it reduces."""
    values = op.operand_values if isinstance(op, Reduce) else op.results
    return max((prod(axes.get(axis, 1) for axis in value.type.axis_names) for value in values if isinstance(value.type, Tile)), default=1)


def cost_of(op: Instruction) -> float:
    """Instructions of an element."""
    dtype = _dtype(op)
    wide = 2.0 if dtype in ("f64", "i64", "u64") else 1.0
    match op:
        case Const() | Index():
            return 0.0
        case Binary(operator="div" | "rem" | "pow" | "atan2"):
            return wide * (DIVISION if is_float(dtype) else FUNCTION)
        case Unary(operator=operator) if operator not in ("neg", "not", "abs"):
            return wide * FUNCTION
        case Cast(value=value):
            return 2.0 if {dtype, dtype_of(value)} & {"f16", "f64"} or dtype == "bf16" else 1.0
    return wide


def latency_of(op: Instruction) -> float:
    """Cycles until what is computed of an element is there."""
    match op:
        case Const() | Index():
            return 0.0
        case Binary(operator="div" | "rem" | "pow" | "atan2"):
            return float(DIVISION_WAIT)
        case Unary(operator=operator) if operator not in ("neg", "not", "abs"):
            return float(FUNCTION_WAIT)
    return float(PLAIN_WAIT)


def registers_of(function: HirFunction) -> int:
    """Words of the values that are needed at the same time, at most, where each is computed where it stands."""
    begins, ends, words = dict[str, int](), dict[str, int](), dict[str, int]()
    for number, op in enumerate(_in_order(function.body)):
        for value in op.operand_values:
            ends[value.name] = number
        for value in op.results:
            if isinstance(value.type, Tile) and value.type.dtype not in ("index", "i1") and not isinstance(op, Const):
                begins.setdefault(value.name, number)
                words[value.name] = prod(extent.value or 1 for _, extent in value.type.axes) * -(-bytes_of(value.type.dtype) // WORD)
    changes = dict[int, int]()
    for name, begin in begins.items():
        if name in ends:
            changes[begin] = changes.get(begin, 0) + words[name]
            changes[ends[name]] = changes.get(ends[name], 0) - words[name]
    held = most = 0
    for number in sorted(changes):
        held += changes[number]
        most = max(most, held)
    return most


def _in_order(region: Region) -> Iterator[Instruction]:
    for op in region.body:
        yield from op.walk()
