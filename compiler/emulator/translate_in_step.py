"""Writes the Python source of functions whose threads are run in step (`in_step.py`): values of each thread are arrays along the axis of
threads, and what threads do together is a call. Accesses to a shared memory `name` are told to `name_t`."""

from compiler.emulator.expressions import binary
from compiler.emulator.in_step import THREAD, Anyone, InStep
from compiler.emulator.translate import Translator, axes_of
from compiler.emulator.warps import MEET
from compiler.hir.affine import Affine
from compiler.hir.core import Const, dtype_of
from compiler.hir.gpu import (
    Atomic,
    DynamicShared,
    Fence,
    GridIndex,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    WarpIndex,
)
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import Mma, MmaLoad, MmaStore
from compiler.hir.types import Fragment, Mem


class InStepTranslator(Translator):
    """Writes `def run(p0, p1, ..., block)` of a function that `InStep` has made."""

    def __init__(self, made: InStep, function: HirFunction, module: HirModule | None) -> None:
        super().__init__(function, module)
        self.made = made
        self.tracked: set[str] = set()

    def translate(self) -> str:
        parameters = [self.bind(p) for p in self.function.parameters]
        self.write(0, f"def run({', '.join([*parameters, 'block'])}):")
        for parameter, name in zip(self.function.parameters, parameters, strict=True):
            if isinstance(parameter.type, Mem):
                self.memory(name, parameter.type, 1)
        self.write(1, f"{self.bind(self.made.number)} = block.numbers")
        self.region(self.function.body, 1, None)
        return "\n".join(self.lines) + "\n"

    def mask(self, op: Instruction) -> str:
        mask = self.made.masks.get(id(op))
        return "None" if mask is None else self.of(mask)

    def other(self, op: Instruction, indent: int) -> None:
        match op:
            case Anyone():
                self.result(op, f"bool({self.of(op.value)}.any())", indent)
            case GridIndex():
                self.result(op, f"block.places[{op.operator!r}]['xyz'.index({op.dim!r})]", indent)
            case WarpIndex():
                self.result(op, f"block.{op.operator}", indent)
            case Uniform():
                self.result(op, self.of(op.value), indent)
            case Fence():
                self.write(indent, "pass")
            case SyncThreads():
                self.write(indent, f"block.barrier({self.mask(op)})")
            case SharedAlloc():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name}, {name}_t = block.shared({self.constant(op)}, ({dims}))")
                self.memory(name, op.type, indent)
                self.tracked.add(op.result.name)
            case DynamicShared():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name} = block.dynamic_view({self.constant(op)}, {self.affine(op.offset)}, ({dims}))")
                self.memory(name, op.type, indent)
            case Atomic():
                self.atomic(op, indent)
            case Shuffle():
                given = f"{self.of(op.value)}, {self.of(op.lane)}, {op.mode!r}, {op.width}, {self.mask(op)}"
                same = THREAD not in axes_of(op.value.type)
                self.result(op, self.of(op.value) if same else f"block.shuffle({given})", indent)
            case Mma():
                a, b, c = map(self.of, (op.a, op.b, op.c))
                self.result(op, f"block.multiply({self.constant(op)}, {a}, {b}, {c}, {self.mask(op)})", indent)
            case MmaLoad():
                given = f"{self.of(op.mem)}, ({self.places(op.index)}), {self.track(op.mem)}, {self.mask(op)}"
                self.result(op, f"block.load_fragments({self.constant(op)}, {given})", indent)
            case MmaStore():
                given = f"{self.of(op.mem)}, ({self.places(op.index)}), {self.of(op.fragment)}, {self.track(op.mem)}, {self.mask(op)}"
                self.write(indent, f"block.store_fragments({self.constant(op)}, {given})")
            case _ if type(op) in MEET:
                values = "".join(f"{self.of(value)}, " for value in op.operand_values)
                self.result(op, f"block.meet({self.constant(op)}, ({values}), {self.mask(op)}, {dtype_of(op.result)!r})", indent)
            case _:
                super().other(op, indent)

    def result(self, op: Instruction, text: str, indent: int) -> None:
        self.write(indent, f"{self.bind(op.result)} = {text}")

    def const(self, op: Const) -> str:
        if isinstance(op.type, Fragment):
            return f"block.fragments({op.type.shape}, {float(op.value)!r})"
        return super().const(op)

    def track(self, mem: Value) -> str:
        return f"{self.of(mem)}_t" if mem.name in self.tracked else "None"

    def places(self, index: tuple[Affine, ...]) -> str:
        """Indices of warps: those of each thread."""
        return "".join(f"{self.affine(form, (THREAD,) if self.varies(form) else ())}, " for form in index)

    def load(self, op: Load, indent: int) -> None:
        super().load(op, indent)
        if op.mem.name in self.tracked:
            self.tell("read", op, axes_of(op.result.type), indent)

    def store(self, op: Store, indent: int) -> None:
        if op.mem.name in self.tracked:
            axes = tuple(dict.fromkeys((*self.varies(*op.index), *axes_of(op.value.type), *(axes_of(op.where.type) if op.where else ()))))
            self.tell("write", op, axes, indent)
        super().store(op, indent)

    def tell(self, what: str, op: Load | Store, axes: tuple[str, ...], indent: int) -> None:
        """The access of each thread that takes part."""
        axes = axes if THREAD in axes else (THREAD, *axes)
        where = op.where if op.where is not None else self.made.masks.get(id(op))
        taken = "None" if where is None else self.see(where, axes) if axes_of(where.type) else self.of(where)
        index = "".join(self.affine(form, axes) + ", " for form in op.index)
        self.write(indent, f"{self.of(op.mem)}_t.{what}(({index}), {self.see(self.made.number, axes)}, {taken})")

    def atomic(self, op: Atomic, indent: int) -> None:
        dtype = mem_of(op.mem).dtype
        match op.operation:
            case "exchange":
                new = "value"
            case "cas":
                new = "(value if old == compare else old)"
            case "inc":
                new = "(0 if old >= value else old + 1)"
            case "dec":
                new = "(value if old == 0 or old > value else old - 1)"
            case operator:
                new = binary(operator, dtype, "old", "value")
        compare = "None" if op.compare is None else self.of(op.compare)
        index = "".join(f"{self.affine(form, (THREAD,) if self.varies(form) else ())}, " for form in op.index)
        given = f"{self.of(op.mem)}, {dtype!r}, ({index}), {self.of(op.value)}, {compare}, {self.mask(op)}, {self.track(op.mem)}"
        self.result(op, f"block.atomic({given}, lambda old, value, compare: {new})", indent)
