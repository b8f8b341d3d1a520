"""What every back end knows while it writes a function: its values, memories and slots by name, the loops around the current
place, and the checks that have been passed on the way here. Affine forms become index arithmetic here."""

from collections.abc import Callable

from compiler.backends.llvm.bundle import Bundle, build, scalar_bundle
from compiler.backends.llvm.types import I64, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant, poison
from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction
from compiler.hir.types import HirType, Mem, Tile
from runtime.records import Factory, define, frozen


@frozen
class AddressedMemory:
    """A memory in scope. `notes`: alias metadata that each access carries."""

    pointer: LlvmValue
    type: Mem
    notes: str = ""


@frozen
class Guard:
    """A check passed on the way: the name of its condition, and the index forms it speaks of (none: of any access)."""

    condition: str
    forms: frozenset[Affine]


@frozen
class LoopExits:
    """Where `break` and `continue` of the innermost loop go."""

    following: str
    leaving: str


@define(kw_only=True)
class FunctionFrame:
    """One LLVM function under construction. Back ends derive theirs, which says how an instruction is emitted."""

    function: HirFunction
    w: FunctionWriter
    flag: LlvmValue
    """Cell (i64): 0, or what has gone wrong."""
    finish: str
    """Label of the exit."""
    values: dict[str, Bundle] = Factory(dict)
    memories: dict[str, AddressedMemory] = Factory(dict)
    slots: dict[str, tuple[LlvmValue, str]] = Factory(dict)
    definitions: dict[str, Instruction] = Factory(dict)
    guards: list[Guard] = Factory(list)
    targets: list[LoopExits] = Factory(list)
    yields: list[list[list[LlvmValue]]] = Factory(list)
    compares_lanes: bool = False
    """Whether vectors are registers of as many lanes, whose numbers are compared at once."""

    def emit(self, op: Instruction) -> None:
        raise AssertionError("a back end says how")

    def refused(self, op: Instruction) -> ZyntaxError:
        """What to raise for an instruction that this back end has no code for."""
        raise AssertionError("a back end says how")

    def undefined(self, type: HirType) -> Bundle:
        """A bundle of a type whose values are still to come."""
        assert isinstance(type, Tile)
        return build(self.w, type, lambda point: poison(register_type(type.dtype)))

    def still_good(self) -> LlvmValue | None:
        """Whether no check has failed so far, where loops that data ends have to ask; None: they need not."""
        return None

    def region(self, region: Region) -> None:
        """All instructions of a region; what they passed as checks ends with it."""
        passed = len(self.guards)
        for op in region.body:
            self.emit(op)
        del self.guards[passed:]

    # ---- affine forms ----

    def is_axis(self, name: str) -> bool:
        return name in self.function.axes

    def affine(self, form: Affine, point: dict[str, int] | None = None, simd: Callable[[str], LlvmValue] | None = None) -> LlvmValue:
        """The form's value, at a point of the register axes; `simd` gives the lane numbers of a vector axis."""
        w = self.w
        if any(name in self.definitions for name in form.names):
            return self._wrapping(form, point, simd)
        total = constant(I64, form.constant)
        for symbol, coefficient in form.terms:
            if isinstance(symbol, FloorDiv):
                part = self.floor(self.affine(symbol.numerator, point, simd), symbol.divisor)
            else:
                part = self.symbol(symbol, point or {}, simd)
            total = w.add(total, w.mul(part, constant(I64, coefficient))) if coefficient != -1 else w.sub(total, part)
        return total

    def _wrapping(self, form: Affine, point: dict[str, int] | None, simd: Callable[[str], LlvmValue] | None) -> LlvmValue:
        """A form of computed values, which may come from data and be anything: its arithmetic wraps, so that a check of it holds."""
        w = self.w
        total = constant(I64, form.constant)
        for symbol, coefficient in form.terms:
            if isinstance(symbol, FloorDiv):
                part = self.floor(self.affine(symbol.numerator, point, simd), symbol.divisor)
            else:
                part = self.symbol(symbol, point or {}, simd)
            if coefficient != 1:
                part = w.binary("mul", part, constant(part.type, coefficient))
            total = part if total.number == 0 else w.binary("add", total, part)
        return total

    def symbol(self, name: str, point: dict[str, int], simd: Callable[[str], LlvmValue] | None) -> LlvmValue:
        if name in point:
            return constant(I64, point[name])
        if self.is_axis(name):
            assert simd is not None, f"axis {name} has no place here"
            return simd(name)
        bundle = self.values[name]
        item = bundle.at(point)
        return self.w.extract(item, point[bundle.simd]) if bundle.simd in point and item.type.lanes else item

    def floor(self, value: LlvmValue, divisor: int) -> LlvmValue:
        """floor(value / divisor), divisor > 0."""
        w = self.w
        if value.number is not None:
            return constant(value.type, value.number // divisor)
        if divisor & (divisor - 1) == 0:
            return w.binary("ashr", value, constant(value.type, divisor.bit_length() - 1))
        quotient = w.binary("sdiv", value, constant(value.type, divisor))
        rest = w.binary("sub nsw", value, w.binary("mul nsw", quotient, constant(value.type, divisor)))
        return w.binary("add nsw", quotient, w.binary("ashr", rest, constant(value.type, 63)))

    # ---- results ----

    def define(self, op: Instruction, *bundles: Bundle) -> None:
        for value, bundle in zip(op.results, bundles, strict=True):
            self.values[value.name] = bundle
            self.definitions[value.name] = op

    def cells(self, bundle: Bundle) -> list[LlvmValue]:
        """Stack cells that hold a bundle."""
        return [self.w.alloca(item.type) for item in bundle.items]

    def put(self, bundle: Bundle, cells: list[LlvmValue]) -> None:
        for item, cell in zip(bundle.items, cells, strict=True):
            self.w.store(item, cell)

    def fetch(self, like: Bundle, cells: list[LlvmValue]) -> Bundle:
        items = tuple(self.w.load(item.type, cell) for item, cell in zip(like.items, cells, strict=True))
        return Bundle(like.dtype, like.axes, like.simd, like.lanes, items)


def index_bundle(value: LlvmValue) -> Bundle:
    return scalar_bundle("index", value)
