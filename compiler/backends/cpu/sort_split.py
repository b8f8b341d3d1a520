"""Splitting a long line of keys at those of a sample, in place: halves, and halves of these, until parts are short. A vector's lesser keys
are brought together in a register and stored at the left end of what isn't split yet, the others at the right end."""

from collections.abc import Callable

from compiler.backends.cpu.fetched_ahead import fetch_ahead
from compiler.backends.cpu.sort_network import SortNetwork, repeated
from compiler.backends.llvm.types import I32, I64, PTR, LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant, poison

TOGETHER = 8
"""Vectors that are read at a time."""
AHEAD = 2048
"""Bytes that either end is fetched ahead: the ends take turns that nobody foresees."""
SAMPLES = 1024
"""Keys of the sample."""
MOST_PARTS = 64
"""So that a part is seldom more than twice as long as others."""


class LineSplit:
    """Functions of a module, with a `name` for each, that split lines of keys, whose bits are `memory`; `element` is what a network
    compares for them."""

    def __init__(
        self,
        module: ModuleWriter,
        network: SortNetwork,
        memory: LlvmType,
        element: Callable[[FunctionWriter, LlvmValue], LlvmValue],
        name: Callable[[str], str],
    ) -> None:
        self.module, self.network, self.memory, self.element, self.name = module, network, memory, element, name
        self.held = memory.with_lanes(network.lanes)
        self.block = TOGETHER * network.lanes

    @property
    def works(self) -> bool:
        """Whether processors of such vectors bring lanes together."""
        return self.network.lanes * self.memory.bits == 512 and self.memory.bits == self.network.element.bits

    def _is_less(self, w: FunctionWriter, keys: LlvmValue, pivot: LlvmValue) -> LlvmValue:
        element = self.element(w, keys)
        ahead = "gt" if self.network.descending else "lt"
        return w.compare(f"{'o' if self.network.element.is_float else 's'}{ahead}", element, w.splat(pivot, element.type.lanes))

    # ---- one split ----

    def _apart(self, w: FunctionWriter, keys: LlvmValue, less: LlvmValue, count: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
        """The lesser keys in the first lanes, the others in the first lanes, and how many of the first `count` are less."""
        lanes = self.network.lanes
        bits = LlvmType(f"i{lanes}")
        name = f"llvm.experimental.vector.compress.{keys.type.suffix}"
        valid = w.compare("ult", w.lane_numbers(lanes), w.splat(count, lanes)) if count.number is None else w.true(lanes)
        less = less if count.number is not None else w.binary("and", less, valid)
        other = w.binary("xor", less, valid)
        number = w.convert("zext", w.intrinsic("ctpop", w.value(bits, f"bitcast {less} to {bits}")), "i64")
        none = poison(keys.type)
        return w.call(name, keys.type, keys, less, none), w.call(name, keys.type, keys, other, none), number

    def _store_first(self, w: FunctionWriter, keys: LlvmValue, pointer: LlvmValue, count: LlvmValue) -> None:
        """So many lanes."""
        lanes, bits = self.network.lanes, LlvmType(f"i{self.network.lanes}")
        ones = w.binary("sub", w.binary("shl", constant(I32, 1), w.convert("trunc", count, "i32")), constant(I32, 1))
        mask = w.value(keys.type.of("i1"), f"bitcast {w.convert('trunc', ones, bits.element)} to {keys.type.of('i1')}")
        kind = f"llvm.masked.store.{keys.type.suffix}.p0"
        w.module.declare(kind, f"void ({keys.type}, ptr, <{lanes} x i1>)")
        w.line(f"call void @{kind}({keys}, ptr align {self.memory.bytes} {pointer.text}, {mask})")

    def partition(self) -> str:
        """`i64 (ptr here, i64 count, element pivot)`: how many keys are less than the pivot; they stand first. Lines of few blocks stay as
        they are, which is as if none were less.

        What both ends hold is put aside, a block each and what isn't a whole block. The next block is always read at the end that has less
        room, so that either end has room for all of it."""

        def make(name: str) -> None:
            parameters = [(PTR, "here"), (I64, "count"), (self.network.element, "pivot")]
            w = self.module.function(name, I64, parameters, "internal", "noinline")
            here, count, pivot = w.parameters
            lanes, align, block = self.network.lanes, self.memory.bytes, constant(I64, self.block)
            zero = constant(I64, 0)

            def at(index: LlvmValue) -> LlvmValue:
                return w.offset(here, index, self.memory)

            with w.when(w.compare("slt", count, constant(I64, 4 * self.block))):
                w.ret(zero)
            left, right, low, high = (w.alloca(I64) for _ in range(4))
            rest = w.binary("and", count, constant(I64, self.block - 1))
            begin = w.add(block, rest)
            aside = w.alloca(self.memory, 3 * self.block + lanes, 64)
            with w.loop(zero, begin, lanes) as index:
                w.store(w.load(self.held, at(index), align), w.offset(aside, index, self.memory), align)
            with w.loop(zero, block, lanes) as index:
                behind = w.load(self.held, at(w.add(w.sub(count, block), index)), align)
                w.store(behind, w.offset(aside, w.add(begin, index), self.memory), align)
            for cell, value in ((left, begin), (right, w.sub(count, block)), (low, zero), (high, count)):
                w.store(value, cell)
            with repeated(w, lambda: w.compare("slt", w.load(I64, left), w.load(I64, right))):
                start, end, first, last = (w.load(I64, cell) for cell in (left, right, low, high))
                from_right = w.compare("slt", w.sub(last, end), w.sub(start, first))
                source = at(w.select(from_right, w.sub(end, block), start))
                ahead = w.select(from_right, constant(I64, -AHEAD), constant(I64, AHEAD))
                for k in range(TOGETHER):
                    fetch_ahead(w, w.offset(source, constant(I64, k * lanes), self.memory), ahead)
                w.store(w.select(from_right, start, w.add(start, block)), left)
                w.store(w.select(from_right, w.sub(end, block), end), right)
                vectors = [w.load(self.held, w.offset(source, constant(I64, k * lanes), self.memory), align) for k in range(TOGETHER)]
                for keys in vectors:
                    lesser, others, number = self._apart(w, keys, self._is_less(w, keys, pivot), constant(I64, lanes))
                    more = w.sub(constant(I64, lanes), number)
                    w.store(lesser, at(first), align)
                    last = w.sub(last, more)
                    self._store_first(w, others, at(last), more)
                    first = w.add(first, number)
                w.store(first, low)
                w.store(last, high)
            with w.loop(zero, w.add(begin, block), lanes) as index:
                keys = w.load(self.held, w.offset(aside, index, self.memory), align)
                some = w.intrinsic("smin", w.sub(w.add(begin, block), index), constant(I64, lanes))
                first, last = w.load(I64, low), w.load(I64, high)
                lesser, others, number = self._apart(w, keys, self._is_less(w, keys, pivot), some)
                self._store_first(w, lesser, at(first), number)
                last = w.sub(last, w.sub(some, number))
                self._store_first(w, others, at(last), w.sub(some, number))
                w.store(w.add(first, number), low)
                w.store(last, high)
            w.ret(w.load(I64, low))

        return self.module.helper(self.name("partition"), make)

    # ---- parts ----

    def parts(self) -> str:
        """`void (ptr here, i64 count, i64 parts, ptr ends)`: the keys in so many parts, a power of two, none of which holds a key that
        belongs behind one of the next; where each ends."""
        blocks, split = self.network.blocks(), self._halves()
        samples = -(-SAMPLES // self.network.size) * self.network.size

        def make(name: str) -> None:
            w = self.module.function(name, None, [(PTR, "here"), (I64, "count"), (I64, "parts"), (PTR, "ends")], "internal", "noinline")
            here, count, parts, ends = w.parameters
            element = self.network.element
            sample, pivots = w.alloca(element, samples, 64), w.alloca(element, MOST_PARTS, 64)
            apart = w.binary("udiv", count, constant(I64, samples))
            with w.loop(constant(I64, 0), constant(I64, samples)) as index:
                key = w.load(self.memory, w.offset(here, w.mul(index, apart), self.memory), self.memory.bytes)
                w.store(self.element(w, key), w.offset(sample, index, element))
            w.call_void(blocks, sample, constant(I64, samples // self.network.size))
            step = w.binary("udiv", constant(I64, samples), parts)
            with w.loop(constant(I64, 1), parts) as index:
                pivot = w.load(element, w.offset(sample, w.mul(index, step), element))
                w.store(pivot, w.offset(pivots, index, element))
            w.call_void(split, here, constant(I64, 0), count, pivots, parts, ends)
            w.ret()

        return self.module.helper(self.name("into_parts"), make)

    def _halves(self) -> str:
        """`void (ptr here, i64 first, i64 count, ptr pivots, i64 parts, ptr ends)`: the same of the keys from the first on, with the
        pivot before each part but the first."""
        partition = self.partition()

        def make(name: str) -> None:
            parameters = [(PTR, "here"), (I64, "first"), (I64, "count"), (PTR, "pivots"), (I64, "parts"), (PTR, "ends")]
            w = self.module.function(name, None, parameters, "internal", "noinline")
            here, first, count, pivots, parts, ends = w.parameters
            with w.when(w.compare("eq", parts, constant(I64, 1))):
                w.store(w.add(first, count), ends)
                w.ret()
            half = w.binary("lshr", parts, constant(I64, 1))
            middle = w.offset(pivots, half, self.network.element)
            less = w.call(partition, I64, w.offset(here, first, self.memory), count, w.load(self.network.element, middle))
            w.call_void(name, here, first, less, pivots, half, ends)
            w.call_void(name, here, w.add(first, less), w.sub(count, less), middle, half, w.offset(ends, half, I64))
            w.ret()

        return self.module.helper(self.name("halves"), make)
