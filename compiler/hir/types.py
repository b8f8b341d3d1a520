"""Types of HIR values: scalars, tiles with named axes, memories, rings, barriers, tokens, structs."""

from collections.abc import Iterable
from enum import Enum, IntEnum

from compiler.hir.affine import Affine, AffineLike
from runtime.records import field, frozen
from runtime.tuples import as_tuple

FLOATS = {"f8e4m3": 8, "f8e5m2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
SIGNED = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "index": 64}
UNSIGNED = {"i1": 1, "u8": 8, "u16": 16, "u32": 32, "u64": 64, "u128": 128}
DTYPES = {**FLOATS, **SIGNED, **UNSIGNED}
"""Every scalar type's width in bits. `index` is a signed 64-bit integer; `i1` is a truth value, a byte in memory. Only host functions
compute with ints of 128 bits."""


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_signed(dtype: str) -> bool:
    return dtype in SIGNED or dtype in FLOATS


def is_wide(dtype: str) -> bool:
    """An int of 128 bits."""
    return dtype in ("i128", "u128")


def bytes_of(dtype: str) -> int:
    """Bytes of an element in memory."""
    return max(8, DTYPES[dtype]) // 8


class HirType:
    """Base of all HIR types; equal types are equal objects."""


Axis = tuple[str, Affine]
"""A named axis and its extent."""


def _axes(axes: "tuple[tuple[str, AffineLike], ...]") -> tuple[Axis, ...]:
    return tuple(sorted((name, Affine.of(extent)) for name, extent in axes))


@frozen
class Tile(HirType):
    """A value that varies along named axes; without axes it is a scalar. The order of axes has no meaning before form C, where
    it is the order of registers. `place` says where it lives: registers, or shared memory (CPU: a packed panel)."""

    dtype: str
    axes: tuple[Axis, ...] = field(default=(), converter=_axes)
    place: str = "reg"

    @property
    def axis_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def is_scalar(self) -> bool:
        return not self.axes

    def extent(self, axis: str) -> Affine:
        return dict(self.axes)[axis]

    def with_dtype(self, dtype: str) -> "Tile":
        return Tile(dtype, self.axes, self.place)

    def __str__(self) -> str:
        if not self.axes and self.place == "reg":
            return self.dtype
        inside = ", ".join([f"{name}:{extent}" for name, extent in self.axes] + [self.dtype])
        return f"tile<{inside}{'' if self.place == 'reg' else ', in ' + self.place}>"


INDEX = Tile("index")
I1 = Tile("i1")
I32 = Tile("i32")
U32 = Tile("u32")
I64 = Tile("i64")
F32 = Tile("f32")


class Space(IntEnum):
    """Address spaces; the numbers are LLVM's for NVPTX."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 3
    CONSTANT = 4
    LOCAL = 5


def _forms(forms: Iterable[AffineLike]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def _optional_forms(forms: Iterable[AffineLike] | None) -> tuple[Affine, ...] | None:
    return None if forms is None else _forms(forms)


def _dim(form: Affine) -> str:
    """A dim as `mem<NxKxf32>` shows it: in parentheses unless it is a plain number, or a plain name without an `x`."""
    text = str(form)
    return text if text.isdecimal() or (text in form.names and "x" not in text) else f"({text})"


@frozen
class Mem(HirType):
    """A dense array in memory. `dims` and `strides` (in elements) are affine forms of the function's sizes; `strides` None
    means row-major without gaps. Facts to specialise on: `align` (bytes), `noalias`, `readonly`."""

    dtype: str
    dims: tuple[Affine, ...] = field(converter=_forms)
    strides: tuple[Affine, ...] | None = field(default=None, converter=_optional_forms)
    space: Space = Space.GLOBAL
    align: int = 0
    noalias: bool = True
    readonly: bool = False
    swizzle: str | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        shape = "x".join([*map(_dim, self.dims), self.dtype])
        facts = [shape]
        if self.strides is not None:
            facts.append(f"strides=[{', '.join(map(str, self.strides))}]")
        if self.space is not Space.GLOBAL:
            facts.append(self.space.name.lower())
        if self.align:
            facts.append(f"align={self.align}")
        if not self.noalias:
            facts.append("alias")
        if self.readonly:
            facts.append("readonly")
        if self.swizzle:
            facts.append(f'swizzle="{self.swizzle}"')
        return f"mem<{', '.join(facts)}>"


@frozen
class Slot(HirType):
    """A mutable scalar cell of form A: what `var` becomes before `slots_to_carried`."""

    dtype: str

    def __str__(self) -> str:
        return f"slot<{self.dtype}>"


@frozen
class Ring(HirType):
    """A bounded queue of `stages` entries, each a tuple of tiles."""

    stages: int
    elements: tuple[Tile, ...] = field(converter=as_tuple)

    def __str__(self) -> str:
        return f"ring<{self.stages} x ({', '.join(map(str, self.elements))})>"


@frozen
class Barrier(HirType):
    """An mbarrier, or an array of `count` of them, in shared memory."""

    count: int = 1

    def __str__(self) -> str:
        return "barrier" if self.count == 1 else f"barrier<{self.count}>"


@frozen
class Token(HirType):
    """Orders what no value orders."""

    def __str__(self) -> str:
        return "token"


class FragmentRole(Enum):
    A = "a"
    B = "b"
    ACCUMULATOR = "accumulator"


@frozen
class Fragment(HirType):
    """A matrix spread over the lanes of a warp, as the tensor cores hold it."""

    role: FragmentRole
    rows: int
    columns: int
    depth: int
    dtype: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of this matrix of the three."""
        match self.role:
            case FragmentRole.A:
                return self.rows, self.depth
            case FragmentRole.B:
                return self.depth, self.columns
            case _:
                return self.rows, self.columns

    def __str__(self) -> str:
        return f"fragment<{self.role.value}, {self.rows}x{self.columns}x{self.depth}, {self.dtype}>"


@frozen
class Pointer(HirType):
    """Host code: the address of a value."""

    pointee: HirType
    space: Space = Space.GENERIC

    def __str__(self) -> str:
        return f"ptr<{self.pointee}{'' if self.space is Space.GENERIC else ', ' + self.space.name.lower()}>"


@frozen(cache_hash=True)
class Struct(HirType):
    """Host code: fields side by side."""

    name: str
    fields: tuple[tuple[str, HirType], ...] = field(converter=as_tuple)

    def __str__(self) -> str:
        return f"struct<{self.name}; {', '.join(f'{n}: {t}' for n, t in self.fields)}>"


@frozen(cache_hash=True)
class Array(HirType):
    """Host code: `count` elements one behind the other; None: as many as whoever has the address says, `array<open x f32>`."""

    element: HirType
    count: int | None

    def __str__(self) -> str:
        return f"array<{'open' if self.count is None else self.count} x {self.element}>"
