"""Sorting many short lines: as many as a vector has lanes at a time, each in a lane of its own, by exchanges of whole vectors."""

from collections.abc import Callable

from compiler.backends.cpu.sort_by_digits import bits_of
from compiler.backends.cpu.sort_keys import KeySort
from compiler.backends.cpu.sort_network import ROWS, SortNetwork
from compiler.backends.cpu.transpose import turn
from compiler.backends.llvm.types import I1, I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.hir.types import is_float

LONGEST = 256
"""Elements of a line: those of all lanes fill a quarter of a first cache of 32 KiB."""


class LinesAcross:
    """The function of a module that sorts lines of one dtype in one direction."""

    def __init__(self, module: ModuleWriter, dtype: str, descending: bool) -> None:
        self.module, self.dtype = module, dtype
        self.keys = KeySort(module, dtype, descending)
        self.network = SortNetwork(module, self.keys.network.element, descending, across=True)

    def function(self) -> str:
        """`i1 (ptr first, i64 apart, i64 step, i64 lines, i64 count)`: the lines in order, unless one has a NaN or -0.0, which it tells.
        Lines begin `apart` elements apart, and their `count` elements are a `step` apart."""
        blocks = self.network.blocks()

        def make(name: str) -> None:
            network, lanes = self.network, self.network.lanes
            parameters = [(PTR, "first"), (I64, "apart"), (I64, "step"), (I64, "lines"), (I64, "count")]
            w = self.module.function(name, I1, parameters, "internal", "noinline")
            first, apart, step, lines, count = w.parameters
            room = w.alloca(network.vector, LONGEST, 64)
            number = w.binary("udiv", w.add(count, constant(I64, ROWS - 1)), constant(I64, ROWS))
            zero, one = constant(I64, 0), constant(I64, 1)
            with w.loop(zero, w.mul(number, constant(I64, ROWS))) as at:
                w.store(w.splat(network.last, lanes), w.offset(room, at, network.vector), network.vector.bytes)
            all_lines = w.compare("eq", lines, constant(I64, lanes))
            beside = w.binary("and", all_lines, w.compare("eq", apart, one))
            turned = w.binary("and", w.compare("eq", step, one), w.compare("sge", count, constant(I64, lanes)))
            turned = w.binary("and", all_lines, turned)

            def element(line: LlvmValue, at: LlvmValue) -> LlvmValue:
                return w.offset(first, w.add(w.mul(line, apart), w.mul(at, step)), self.keys.memory)

            def row(at: LlvmValue) -> LlvmValue:
                return w.offset(room, at, network.vector)

            def moved(vectors: _Move, squares: Callable[[LlvmValue], None], single: _Move) -> None:
                """Moves all elements between lines and room: vectors across lines, squares from a place on, or single ones."""
                labels = [w.label(part) for part in ("beside", "apart", "turned", "single", "moved")]
                w.branch_if(beside, labels[0], labels[1])
                w.start(labels[0])
                with w.loop(zero, count) as at:
                    vectors(element(zero, at), row(at))
                w.branch(labels[4])
                w.start(labels[1])
                w.branch_if(turned, labels[2], labels[3])
                w.start(labels[2])
                with w.loop(zero, count, lanes) as at:
                    squares(w.intrinsic("smin", at, w.sub(count, constant(I64, lanes))))
                w.branch(labels[4])
                w.start(labels[3])
                with w.loop(zero, lines) as line, w.loop(zero, count) as at:
                    single(element(line, at), w.offset(row(at), line, network.element))
                w.start(labels[4])

            held, align = self.keys.memory.with_lanes(lanes), self.keys.memory.bytes

            def take_square(at: LlvmValue) -> None:
                vectors = [self.keys.element(w, w.load(held, element(constant(I64, line), at), align)) for line in range(lanes)]
                for number, vector in enumerate(turn(w, vectors, network.element.bits)):
                    w.store(vector, row(w.add(at, constant(I64, number))), network.vector.bytes)

            def take(source: LlvmValue, target: LlvmValue) -> None:
                w.store(self.keys.element(w, w.load(held, source, align)), target, network.vector.bytes)

            def take_one(source: LlvmValue, target: LlvmValue) -> None:
                w.store(self.keys.element(w, w.load(self.keys.memory, source, align)), target)

            moved(take, take_square, take_one)
            if is_float(self.dtype):
                odd = w.alloca(network.vector.of("i1"))
                w.store(constant(network.vector.of("i1"), 0), odd)
                with w.loop(zero, count) as at:
                    w.store(w.binary("or", w.load(network.vector.of("i1"), odd), self._odd(w, w.load(network.vector, row(at)))), odd)
                some = w.call(f"llvm.vector.reduce.or.v{lanes}i1", I1, w.load(network.vector.of("i1"), odd))
                with w.when(some):
                    w.ret(constant(I1, 0))
            w.call_void(blocks, room, number)

            def put_square(at: LlvmValue) -> None:
                vectors = [w.load(network.vector, row(w.add(at, constant(I64, number))), network.vector.bytes) for number in range(lanes)]
                for line, vector in enumerate(turn(w, vectors, network.element.bits)):
                    w.store(self.keys.key(w, vector), element(constant(I64, line), at), align)

            def put(target: LlvmValue, source: LlvmValue) -> None:
                w.store(self.keys.key(w, w.load(network.vector, source, network.vector.bytes)), target, align)

            def put_one(target: LlvmValue, source: LlvmValue) -> None:
                w.store(self.keys.key(w, w.load(network.element, source)), target, align)

            moved(put, put_square, put_one)
            w.ret(constant(I1, 1))

        return self.module.helper(self.keys.name("lines"), make)

    def _odd(self, w: FunctionWriter, elements: LlvmValue) -> LlvmValue:
        """Which of the elements are NaN or -0.0."""
        if elements.type.is_float:
            number = "i32" if self.dtype == "f32" else "i64"
            bits = w.convert("bitcast", elements, number)
            zero = w.compare("eq", bits, constant(bits.type, -1 << (bits.type.bits - 1)))
            return w.binary("or", w.compare("uno", elements, elements), zero)
        _, infinite = bits_of(self.dtype)
        above = w.compare("sgt", elements, constant(elements.type, infinite))
        below = w.compare("slt", elements, constant(elements.type, ~infinite))
        return w.binary("or", w.binary("or", above, below), w.compare("eq", elements, constant(elements.type, -1)))


_Move = Callable[[LlvmValue, LlvmValue], None]
