"""A field as the numbering of instances sees it: its axes counted, its indices as rows of coefficients. Only what has the shape for it: a
map, or a reduction of few terms for each result, all of whose extents are numbers."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf, prod

from compiler.analysis.edge_reads import FieldReads, Outside, field_reads
from compiler.hir.affine import Affine
from compiler.hir.core import Compare, Contract, InBounds, Index, Reduce, Scan, dtype_of, union_axes
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of
from compiler.machines.access import WORD
from compiler.schedule.gpu.rewrites.digits_of_axes import divided_axes
from compiler.schedule.gpu.rewrites.short_rows import SHORT_ROW
from compiler.schedule.materialise import common_axes
from runtime.records import frozen

MOST_TERMS = 256
"""Of a result's reductions, all written out."""
MOST_UNSHARED = 64
"""The same, where results share no elements: with more, several threads for a result are as fast or faster (112 rows, on an H200)."""
MOST_OPERATIONS = 200
"""Of a field."""
SHORT_SIDE = 64
"""Elements of an axis that squares are too wide for."""
FEW_PAIRS = 64
"""Of what two loads read: a thread has them all."""
LARGEST_STEP = 8
"""Elements between neighbouring lanes' accesses, at most: others are better turned in shared memory."""

Form = tuple[tuple[tuple[int, int], ...], int]
"""Coefficients by number of an axis, and a constant."""


@frozen(eq=False)
class ThreadNest:
    """`axes`: those of the results first, `outputs` of them; `numbers`: of a field's values, by what makes them; `forms`: indices of each
    access, or the form of an index, by the instruction's number."""

    field: HirFunction
    axes: tuple[str, ...]
    extents: tuple[int, ...]
    outputs: int
    ops: tuple[Instruction, ...]
    numbers: Mapping[Value, int]
    varying: tuple[tuple[int, ...], ...]
    """The axes along which each operation's value varies."""
    forms: tuple[tuple[Form, ...], ...]
    memories: tuple[Value, ...]
    outside: Mapping[int, Outside]
    """What loads read where their index lies outside, by number."""

    @property
    def results(self) -> int:
        return prod(self.extents[: self.outputs])


def derived_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes that a kernel is made for, where its field has the shape and windows are short: all of them. Of reductions of reductions
    each is looked at alone, since they may become parts."""
    over = [op.over for op in field.body.body if isinstance(op, Reduce | Contract)]
    try:
        terms = max((prod(field.axes[axis].evaluate(sizes.__getitem__) for axis in axes) for axes in over), default=1)
    except KeyError:
        return ()
    return tuple(sorted(sizes.items())) if 1 <= terms <= most_terms(field, sizes) else ()


def most_terms(field: HirFunction, sizes: Mapping[str, int] | None = None) -> int:
    """Terms of a result up to which a field has the shape, whatever its extents are: windows and other reductions, or several loads of one
    memory. 0 for a field that hasn't. `sizes`: those that extents would be numbers by."""
    reads = field_reads(field, whatever=True)
    ops = reads.ops
    if len(ops) > MOST_OPERATIONS or any(isinstance(op, Scan) for op in ops):
        return 0
    if any(op.effects is not Effect.PURE and not isinstance(op, Load | Store) for op in ops):
        return 0
    if field.loops or any(op.regions for op in ops) or (field.kernel_info is not None and field.kernel_info.tile):
        return 0
    common = set(common_axes(field))
    reduced = {axis for op in ops if isinstance(op, Reduce | Contract) for axis in op.over}
    stores, loads = ([op for op in ops if isinstance(op, kind)] for kind in (Store, Load))
    if not common or not loads or common & reduced or common | reduced != set(field.axes):
        return 0
    written = {op.mem for op in stores if isinstance(op, Store)}
    if any(op.mem in written or mem_of(op.mem).swizzle or op.mem.source is not None for op in loads):
        return 0
    for op in stores:
        if {name for form in op.index for name in form.names if name in field.axes} != common:
            return 0
    return _most_shared(field, reads, reduced, sizes or {})


def _most_shared(field: HirFunction, reads: FieldReads, reduced: set[str], sizes: Mapping[str, int]) -> int:
    """The same, of a field of such instructions: more where some elements serve several results, by windows that move along an axis or
    several loads of one memory, than where elements merely lie near each other for neighbouring results."""
    loads = [op for op in reads.ops if isinstance(op, Load)]
    if not reduced:
        stores = [op for op in reads.ops if isinstance(op, Store)]
        several = len({op.mem for op in loads}) < len({(op.mem, reads.index(op)) for op in loads})
        ordered = len({op.mem for op in stores}) < len(stores)
        special = bool(reads.edges) or _are_digits(field, reads) or _has_short_rows(field, reads, sizes)
        return int(several or ordered or special or _is_turned(field, reads, sizes))
    if _is_product(field, [reads.index(op) for op in loads], reduced, sizes):
        return 0
    if any(_moves(form, reduced, field) for op in loads for form in reads.index(op)):
        return MOST_TERMS
    accesses = [(mem_of(op.mem), reads.index(op)) for op in reads.ops if isinstance(op, Load | Store)]
    near = any(all(_is_near(mem, index, axis) for mem, index in accesses) for axis in field.axes if axis not in reduced)
    return MOST_UNSHARED if near else 0


def _is_turned(field: HirFunction, reads: FieldReads, sizes: Mapping[str, int]) -> bool:
    """Whether something that varies along the axis that results lie along lies along another, and either is short, or rows of elements
    that are shorter than a word begin anywhere: else squares of wide accesses are as good."""
    accesses = [(op, mem_of(op.mem), reads.index(op)) for op in reads.ops if isinstance(op, Load | Store)]
    varying = [({*field.axes}.intersection(name for form in index for name in form.names)) for _, _, index in accesses]
    near = [{name for name in names if _is_near(mem, index, name)} for names, (_, mem, index) in zip(varying, accesses, strict=True)]
    along = set[str]().union(*(names for names, (op, *_) in zip(near, accesses, strict=True) if isinstance(op, Store)))
    loads = [each for each, (op, *_) in zip(zip(varying, near, strict=True), accesses, strict=True) if isinstance(op, Load)]
    rows = ((mem, dim) for op, mem, _ in accesses if isinstance(op, Store) for dim in range(mem.rank - 1))
    narrow = any(bytes_of(mem.dtype) * (_stride(mem, dim) or 1) % WORD for mem, dim in rows)
    turned = [(names, varied & along) for varied, names in loads if names - along and names.isdisjoint(along) and varied & along]
    return any(narrow or min(_extent(field, [axis], sizes) for axis in (*read, *written)) <= SHORT_SIDE for read, written in turned)


def _are_digits(field: HirFunction, reads: FieldReads) -> bool:
    """Whether an index is made of several axes, or could be: of an axis that indices divide."""
    forms = [form for op in reads.ops if isinstance(op, Load | Store) for form in reads.index(op)]
    return bool(divided_axes(field)) or any(sum(name in field.axes for name in form.names) > 1 for form in forms)


def _has_short_rows(field: HirFunction, reads: FieldReads, sizes: Mapping[str, int]) -> bool:
    """Whether the rows of a result are shorter than vectors, and a load that all of them share keeps them from being one long row."""
    rows = {op.index[-1].names[0] for op in reads.ops if isinstance(op, Store) and op.index and len(op.index[-1].names) == 1}
    loads = [{name for form in reads.index(op) for name in form.names} for op in reads.ops if isinstance(op, Load)]
    shared = {row for row in rows for names in loads if row in names and len(names) < len(field.axes)}
    return any(1 < _extent(field, [row], sizes) < SHORT_ROW for row in shared)


def _is_near(mem: Mem, index: Sequence[Affine], axis: str) -> bool:
    """Whether the access steps by a few elements along an axis, whatever extents are names."""
    step = 0
    for dim, form in enumerate(index):
        if axis in form.without(axis).names:
            return False
        if form.coefficient(axis):
            stride = _stride(mem, dim)
            if stride is None:
                return False
            step += form.coefficient(axis) * stride
    return abs(step) <= LARGEST_STEP


def _stride(mem: Mem, dim: int) -> int | None:
    """Elements between neighbours along a dimension, where that is a number."""
    if mem.strides is not None:
        return mem.strides[dim].value
    behind = [extent.value for extent in mem.dims[dim + 1 :]]
    return prod(extent or 0 for extent in behind) if None not in behind else None


def _is_product(field: HirFunction, loads: Sequence[Sequence[Affine]], reduced: set[str], sizes: Mapping[str, int]) -> bool:
    """Whether two of the loads each lack an axis of the results that the other has: all pairs of what they read are combined then, and
    tiles of both are worth more than registers of results, unless a thread holds all pairs."""
    outputs = set(field.axes) - reduced
    axes = [outputs.intersection(name for form in index for name in form.names) for index in loads]
    pairs = [(first - second, second - first) for first in axes for second in axes]
    return any(first and second and _extent(field, first | second, sizes) > FEW_PAIRS for first, second in pairs)


def _extent(field: HirFunction, axes: Iterable[str], sizes: Mapping[str, int]) -> float:
    extents = [field.axes[axis] for axis in axes]
    known = all(name in sizes for extent in extents for name in extent.names)
    return prod(extent.evaluate(sizes.__getitem__) for extent in extents) if known else inf


def _moves(form: Affine, reduced: set[str], field: HirFunction) -> bool:
    names = [name for name in form.names if name in field.axes]
    return any(name in reduced for name in names) and any(name not in reduced for name in names)


def thread_nest(field: HirFunction) -> ThreadNest | None:
    """None where an extent isn't a number, or something has no place in a thread's kernel."""
    most = most_terms(field)
    if not most:
        return None
    reads = field_reads(field)
    ops = reads.ops
    reduced = list(dict.fromkeys(axis for op in ops if isinstance(op, Reduce | Contract) for axis in op.over))
    axes = (*common_axes(field), *reduced)
    extents = tuple(field.axes[axis].value or 0 for axis in axes)
    memories = tuple(parameter for parameter in field.parameters if isinstance(parameter.type, Mem))
    if min(extents) < 1 or prod(field.axes[axis].value or 0 for axis in reduced) > most:
        return None
    for memory in memories:
        mem = mem_of(memory)
        if any((dim.value or 0) < 1 for dim in mem.dims) or any(stride.value is None for stride in mem.strides or ()):
            return None
    place = {axis: number for number, axis in enumerate(axes)}
    numbers, varying, forms = dict[Value, int](), [], []
    for number, op in enumerate(ops):
        if not _is_taken(op):
            return None
        index = _forms(op, reads)
        if any(not isinstance(symbol, str) or symbol not in place for form in index for symbol, _ in form.terms):
            return None
        forms.append(tuple((tuple((place[str(symbol)], c) for symbol, c in form.terms), form.constant) for form in index))
        varying.append(tuple(place[axis] for axis, _ in union_axes(*op.results)))
        numbers.update(dict.fromkeys(op.results, number))
    outside = {number: reads.edges[op.result].outside for number, op in enumerate(ops) if op.results and op.results[0] in reads.edges}
    return ThreadNest(field, axes, extents, len(axes) - len(reduced), ops, numbers, tuple(varying), tuple(forms), memories, outside)


def _forms(op: Instruction, reads: FieldReads) -> tuple[Affine, ...]:
    """What an instruction says of axes: indices; of a condition, what is at least 0 where it holds."""
    match op:
        case Load() | Store():
            return reads.index(op)
        case Index():
            return (op.of,)
        case InBounds():
            return op.of, op.below - 1 - op.of
        case _:
            return ()


def _is_taken(op: Instruction) -> bool:
    """Whether the numbering knows an instruction: numbers in, one number out."""
    if isinstance(op, Load):
        return op.pad is None or op.where is not None
    if isinstance(op, Store):
        return True
    if isinstance(op, Contract):
        return op.accumulator is None
    if isinstance(op, Reduce) and (len(op.values) > 1 or op.monoid in ("argmin", "argmax")):
        return False
    if isinstance(op, Index | InBounds | Compare):
        return True
    if op.symbols:
        return False
    tiles = [value.type for value in (*op.operand_values, *op.results)]
    if len(op.results) != 1 or not all(isinstance(type_, Tile) for type_ in tiles):
        return False
    return dtype_of(op.result) != "index" or not op.operand_values
