"""Operands as bulk copies take them: read where they lie, in boxes of 128 bytes of what memory is contiguous along."""

from collections.abc import Mapping
from math import prod

from compiler.analysis.recognise import ProductSum
from compiler.hir.affine import Affine
from compiler.hir.hopper import MOST_STEP
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.prover import Inequalities
from compiler.hir.types import Mem, bytes_of
from compiler.schedule.gpu.products.tiling import SWIZZLED
from runtime.records import frozen


@frozen
class PackedPlace:
    """Where the number of a term of a step lies: the line of its byte, and its first bit there, by the lane's place in its row."""

    line: Affine
    start: Affine


@frozen(eq=False)
class PackedRows:
    """Rows of `width` bits of bytes, and `plus`, which are multiplied as this type; `each`: terms that a byte has. `places`: of the terms
    that a lane has of a step, two neighbours of each eight."""

    load: Load
    width: int
    plus: int
    dtype: str
    each: int
    places: tuple[PackedPlace, ...]


@frozen(eq=False)
class ProductOperand:
    """An operand: the load, and its own axes."""

    load: Load
    axes: tuple[str, ...]

    @property
    def mem(self) -> Mem:
        return mem_of(self.load.mem)

    @property
    def axis(self) -> str:
        """The own axis of an operand that has one."""
        (axis,) = self.axes
        return axis


@frozen(eq=False)
class BoxedOperand(ProductOperand):
    """The axes are those that lie outermost in memory first. The dim that each runs along; and that of the sum's axis, of which boxes hold
    a piece. `tile`: how much of each own axis a tile has; `turned`: whether blocks bring what lies across to the order of the sum's axis,
    in squares, where it was copied to; `packed`: how elements are made of its bytes."""

    dims: tuple[int, ...]
    along: int
    tile: tuple[int, ...] = ()
    turned: bool = False
    packed: PackedRows | None = None

    @property
    def dtype(self) -> str:
        """As which elements are multiplied."""
        return self.mem.dtype if self.packed is None else self.packed.dtype

    @property
    def depth(self) -> int:
        """Elements of the sum in a step."""
        return SWIZZLED // bytes_of(self.dtype)

    @property
    def across(self) -> bool:
        """Memory is contiguous along the operand's own axis instead of the sum's."""
        return self.along != self.mem.rank - 1

    @property
    def extent(self) -> int:
        """Rows, or columns, of a tile."""
        return prod(self.tile)

    @property
    def steps(self) -> tuple[int, ...]:
        """How far apart the elements of a tile lie along each dim; empty where they are neighbours."""
        apart = [1] * self.mem.rank
        for axis, dim in zip(self.axes, self.dims, strict=True):
            apart[dim] = self.load.index[dim].coefficient(axis)
        return tuple(apart) if max(apart) > 1 else ()

    @property
    def astride(self) -> bool:
        """Whether what a step copies of a row lies across two lines of cache."""
        strides = self.mem.dims[-1:] if self.mem.strides is None else self.mem.strides[:-1]
        return any(not divides(wide_of(self.mem), form) for form in strides)

    @property
    def digits(self) -> list[tuple[str, int, int]]:
        """The own axes as digits of a row's number in the tile: how many rows one step along them is, and their extent."""
        return [(axis, prod(self.tile[position + 1 :]), self.tile[position]) for position, axis in enumerate(self.axes)]


def side_of(load: Load | None, product: ProductSum, along: str, packed: PackedRows | None = None) -> BoxedOperand | None:
    """The operand as what boxes can copy: read where it lies, contiguous along its own axis or the sum's."""
    if load is None:
        return None
    mem = load.mem.type
    assert isinstance(mem, Mem)
    if load.pad is not None or load.mem.source is not None or not lies_in_boxes(mem):
        return None
    varying = {axis for form in load.index for axis in form.names}
    dims: dict[str, int] = {}
    for axis in (*(axis for axis in (*product.m, *product.n) if axis in varying), along):
        places = [position for position, form in enumerate(load.index) if axis in form.names]
        known = packed is not None and axis == along
        if len(places) != 1 or not (known or 1 <= load.index[places[0]].coefficient(axis) <= (1 if axis == along else MOST_STEP)):
            return None
        dims[axis] = places[0]
    position = dims.pop(along)
    own = sorted(dims, key=dims.__getitem__)
    if not own or len({*dims.values(), position}) != len(own) + 1:
        return None
    last = own[-1] if dims[own[-1]] == mem.rank - 1 else along
    # boxes begin at multiples of 16 bytes along what memory is contiguous along
    unit = 16 // bytes_of(mem.dtype)
    if {**dims, along: position}[last] != mem.rank - 1 or not divides(unit, load.index[-1] - last):
        return None
    return BoxedOperand(load, tuple(own), tuple(dims[axis] for axis in own), position, packed=packed)


def lies_in_boxes(mem: Mem) -> bool:
    """Whether bulk copies reach a memory: its rows are contiguous, and begin at multiples of 16 bytes."""
    strides = mem.dims[-1:] if mem.strides is None else mem.strides[:-1]
    if not 2 <= mem.rank <= 5 or mem.align < 16 or (mem.strides is not None and mem.strides[-1].value != 1):
        return False
    return all(divides(16 // bytes_of(mem.dtype), form) for form in strides)


def stored_dims(field: HirFunction, store: Store, tile: Mapping[str, int], most: int = 1) -> list[int] | None:
    """The dims along which boxes write a tile, by its axes; None where they can't: at places that boxes can't have, more than so many
    elements from one to the next, with a condition, or past the end of what is stored."""
    mem, dims = mem_of(store.mem), list[int]()
    if store.where is not None or store.mem.source is not None or not lies_in_boxes(mem):
        return None
    for axis, size in tile.items():
        positions = [position for position, form in enumerate(store.index) if axis in form.names]
        if len(positions) != 1:
            return None
        form, extent = store.index[positions[0]], field.axes[axis]
        step, rest = form.coefficient(axis), form.without(axis)
        if not 1 <= step <= (1 if positions[0] == mem.rank - 1 else most) or axis in rest.names:
            return None
        known = Inequalities.inside(field.axes, rest.names)
        ends = mem.dims[positions[0]] == extent * step and known.proves(rest) and known.proves(step - 1 - rest)
        if not divides(size, extent) and not ends:
            return None  # boxes end where memory does
        dims += positions
    return dims


def plain_load(operand: Value) -> Load | None:
    """The load that an operand is, if it has no condition."""
    op = operand.source
    return op if isinstance(op, Load) and op.where is None else None


def wide_of(mem: Mem) -> int:
    """Elements of a row of a box."""
    return SWIZZLED // bytes_of(mem.dtype)


def divides(unit: int, form: Affine) -> bool:
    """Whether the form is a multiple of the unit, whatever its symbols are."""
    return all(number % unit == 0 for number in (form.constant, *(coefficient for _, coefficient in form.terms)))
