"""What is known while one LLVM function of a kernel is written: its values, memories and slots by name, the loops around the
current place, and the checks that have been passed on the way here."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from attrs import Factory, define, field, frozen

from compiler.backends.cpu.bundle import Bundle, scalar_bundle
from compiler.backends.llvm.types import I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, ModuleWriter, Value, constant
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem

if TYPE_CHECKING:
    from compiler.backends.cpu.faults import CheckSite


class Mode(Enum):
    """FAST: checks only raise a flag, and what they guard is masked. REPORT: one thread, exact order, stops at the first fault."""

    FAST = "fast"
    REPORT = "report"


@frozen
class Memory:
    """A memory in scope. `notes`: alias metadata that each access carries."""

    pointer: Value
    type: Mem
    notes: str = ""


@frozen
class Guard:
    """A check passed on the way: the name of its condition, and the index forms it speaks of (none: of any access)."""

    condition: str
    forms: frozenset[Affine]


@frozen
class Target:
    """Where `break` and `continue` of the innermost loop go."""

    following: str
    leaving: str


@define
class Kernel:
    """The whole compilation of one HIR function into one LLVM module."""

    function: HirFunction
    module: ModuleWriter
    mode: Mode
    parallel: str
    """How thread loops run: "gomp", "pool" or "serial"."""
    emit: "Callable[[Frame, Instruction], None]"
    has_checks: bool = False
    checks: "list[CheckSite]" = Factory(list)
    aliases: dict[str, str] = Factory(dict)
    """Alias metadata of each memory by name."""


@define
class Frame:
    """One LLVM function under construction."""

    kernel: Kernel
    w: FunctionWriter
    flag: Value
    """Cell (i64): 0, or 1 after a failed check, 2 when memory ran out."""
    finish: str
    """Label of the exit that frees and returns."""
    threads: Value
    record: Value
    """Address of the fault record."""
    values: dict[str, Bundle] = Factory(dict)
    memories: dict[str, Memory] = Factory(dict)
    slots: dict[str, tuple[Value, str]] = Factory(dict)
    definitions: dict[str, Instruction] = Factory(dict)
    guards: list[Guard] = Factory(list)
    targets: list[Target] = Factory(list)
    yields: list[list[list[Value]]] = Factory(list)
    groups: list[tuple[str, frozenset[str]]] = Factory(list)
    """Access groups of the parallel loops around, each with the memories that its promise covers."""
    heap: list[Value] = Factory(list)
    in_threads: bool = False
    nontemporal: bool = field(default=False)

    def region(self, region: Region) -> None:
        """All instructions of a region; what they passed as checks ends with it."""
        passed = len(self.guards)
        for op in region.body:
            self.kernel.emit(self, op)
        del self.guards[passed:]

    # ---- affine forms ----

    def is_axis(self, name: str) -> bool:
        return name in self.kernel.function.axes

    def affine(self, form: Affine, point: dict[str, int] | None = None, simd: Callable[[str], Value] | None = None) -> Value:
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

    def _wrapping(self, form: Affine, point: dict[str, int] | None, simd: Callable[[str], Value] | None) -> Value:
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

    def symbol(self, name: str, point: dict[str, int], simd: Callable[[str], Value] | None) -> Value:
        if name in point:
            return constant(I64, point[name])
        if self.is_axis(name):
            assert simd is not None, f"axis {name} has no place here"
            return simd(name)
        bundle = self.values[name]
        return bundle.at(point)

    def floor(self, value: Value, divisor: int) -> Value:
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

    def cells(self, bundle: Bundle) -> list[Value]:
        """Stack cells that hold a bundle."""
        return [self.w.alloca(item.type) for item in bundle.items]

    def put(self, bundle: Bundle, cells: list[Value]) -> None:
        for item, cell in zip(bundle.items, cells, strict=True):
            self.w.store(item, cell)

    def fetch(self, like: Bundle, cells: list[Value]) -> Bundle:
        items = tuple(self.w.load(item.type, cell) for item, cell in zip(like.items, cells, strict=True))
        return Bundle(like.dtype, like.axes, like.simd, like.lanes, items)

    def notes(self, memory: Memory, name: str) -> str:
        """Metadata of an access: aliases, and the parallel loops that it belongs to."""
        groups = [group for group, members in self.groups if name in members]
        if not groups:
            return memory.notes
        node = groups[0] if len(groups) == 1 else self.kernel.module.node(groups)
        return f"{memory.notes}, !llvm.access.group {node}"


def new_frame(kernel: Kernel, w: FunctionWriter, threads: Value, record: Value) -> Frame:
    flag = w.alloca(I64)
    w.store(constant(I64, 0), flag)
    return Frame(kernel, w, flag, w.label("finish"), threads, record)


def close_frame(frame: Frame) -> None:
    """The exit block: gives back the heap; the caller writes the return."""
    w = frame.w
    w.start(frame.finish)
    for cell in frame.heap:
        w.module.declare("free", "void (ptr)")
        w.call_void("free", w.load(PTR, cell))


def index_bundle(value: Value) -> Bundle:
    return scalar_bundle("index", value)




def alias_notes(names: Sequence[str], module: ModuleWriter) -> dict[str, str]:
    """Metadata of each memory that says: no access through one of them meets one through another."""
    if len(names) < 2:
        return dict.fromkeys(names, "")
    domain = module.metadata("!{!{self}}", distinct=True)
    scopes = {name: module.node(["!{self}", domain], distinct=True) for name in names}
    found: dict[str, str] = {}
    for name in names:
        mine = module.node([scopes[name]])
        others = module.node(scope for other, scope in scopes.items() if other != name)
        found[name] = f", !alias.scope {mine}, !noalias {others}"
    return found
