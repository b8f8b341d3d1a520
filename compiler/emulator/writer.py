"""The lines of a function's translation, and the Python names of its values: what `translate.py` and its kind write with."""

from typing import Any

from compiler.emulator.fault import fault
from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.types import HirType, Tile, is_float


def axes_of(type_: HirType) -> tuple[str, ...]:
    """Names of a type's axes; none for what is no tile."""
    return type_.axis_names if isinstance(type_, Tile) else ()


class Writer:
    """Lines of one function, and the Python names of its values."""

    def __init__(self, function: HirFunction, module: HirModule | None = None) -> None:
        self.function = function
        self.module = module
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.types: dict[str, HirType] = {}
        self.called: list[str] = []
        self.counter = 0

    # ---- names ----

    def type_of(self, value: Value) -> HirType:
        """The type of what the Python name of a value holds."""
        return value.type

    def axes(self, value: Value) -> tuple[str, ...]:
        """Names of the axes that a value has in Python."""
        return axes_of(self.type_of(value))

    def bind(self, value: Value) -> str:
        """A Python name for a value."""
        name = f"v{len(self.names)}"
        self.names[value.name] = name
        self.types[value.name] = self.type_of(value)
        return name

    def name(self, value: Value) -> str:
        """The Python name of a value."""
        name = self.names.get(value.name)
        if name is None:
            raise fault(f"%{value.name} is used before it is defined in @{self.function.name}")
        return name

    def of(self, value: Value) -> str:
        """A value as an operand."""
        return self.name(value)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def temporary(self) -> str:
        self.counter += 1
        return f"t{self.counter}"

    def write(self, indent: int, text: str) -> None:
        self.lines.append(" " * indent + text)

    # ---- affine forms ----

    def affine(self, form: Affine, axes: tuple[str, ...] = ()) -> str:
        """The form as a Python expression; with `axes`, over arrays that vary along them."""
        parts: list[str] = []
        for symbol, coefficient in form.terms:
            if isinstance(symbol, str):
                text = self.symbol(symbol, axes)
            else:
                text = f"(({self.affine(symbol.numerator, axes)}) // {symbol.divisor})"
            parts.append(text if coefficient == 1 else f"{coefficient} * {text}")
        if form.constant or not parts:
            parts.append(str(form.constant))
        return " + ".join(parts)

    def symbol(self, name: str, axes: tuple[str, ...]) -> str:
        if name in self.names:
            type_ = self.types[name]
            return self.aligned(self.names[name], type_, axes) if axes_of(type_) else self.names[name]
        if name in self.function.axes and name in axes:
            shape = tuple(-1 if axis == name else 1 for axis in axes)
            return f"axis_values({self.affine(self.function.axes[name])}, {shape})"
        raise fault(f"{name} is not known in @{self.function.name}")

    def varies(self, *forms: Affine) -> tuple[str, ...]:
        """Axes along which the forms vary."""
        axes: dict[str, None] = {}
        for form in forms:
            for name in form.names:
                if name in self.names:
                    axes.update(dict.fromkeys(axes_of(self.types[name])))
                elif name in self.function.axes:
                    axes[name] = None
        return tuple(axes)

    # ---- tiles ----

    def aligned(self, name: str, type_: HirType, axes: tuple[str, ...]) -> str:
        """The array `name` seen with `axes`, which include its own."""
        have = axes_of(type_)
        if have == axes:
            return name
        if not have:
            assert isinstance(type_, Tile)
            return f"numpy_scalar({name}, {type_.dtype!r})"
        order = tuple(have.index(axis) for axis in axes if axis in have)
        shape = tuple(slice(None) if axis in have else None for axis in axes)
        return f"{name}.transpose({order})[{self.constant(shape)}]"

    def see(self, value: Value, axes: tuple[str, ...]) -> str:
        return self.aligned(self.of(value), self.type_of(value), axes)

    def shape(self, value: Value) -> str:
        """The extents of a tile's axes, as a Python tuple."""
        type_ = self.type_of(value)
        assert isinstance(type_, Tile)
        extents = (str(extent.value) if extent.value is not None else f"max(0, {self.affine(extent)})" for _, extent in type_.axes)
        return "(" + "".join(f"{extent}, " for extent in extents) + ")"

    def site(self, op: Instruction) -> str:
        """A constant that tells which instruction is at fault."""
        return self.constant(op)

    def scalar(self, text: str, dtype: str) -> str:
        """An array without dimensions as a Python number."""
        return f"{'float' if is_float(dtype) else 'bool' if dtype == 'i1' else 'int'}({text})"
