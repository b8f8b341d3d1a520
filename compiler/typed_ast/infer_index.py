"""Types of indexing, slicing and field access."""

from functools import reduce

from compiler.source import Span
from compiler.typed_ast import infer_maps
from compiler.typed_ast.checker import ZYNML_RULES, Checker
from compiler.typed_ast.constants import constant
from compiler.typed_ast.conversions import is_silent, join, strong
from compiler.typed_ast.meaning import UNKNOWN_KIND
from compiler.typed_ast.nodes import EllipsisIndex, Expression, Field, Index, Name, Range, Slice
from compiler.typed_ast.requirements import AWAIT_HINT
from compiler.typed_ast.rules import CORE
from compiler.typed_ast.rules.loops import no_elements
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.shapes import describe, dims_of, shape_of, slice_extent
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    STRING,
    UNKNOWN,
    ArrayType,
    DictType,
    FutureType,
    ListType,
    OptionType,
    RangeType,
    ResultType,
    Scalar,
    SetType,
    ShapeExpr,
    StringType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from runtime.records import evolve


def index(checker: Checker, node: Index, value: Type, scope: Scope) -> Type:
    if is_silent(value):
        for item in node.indices:
            parts = (item.low, item.high, item.step) if isinstance(item, Slice) else (item,)
            for part in parts:
                if part is not None:
                    checker.infer(part, scope)
        return ERROR if value == ERROR else UNKNOWN
    if isinstance(value, DictType):
        return infer_maps.element(checker, node, value, scope)
    kinds = [_index_kind(checker, item, scope) for item in node.indices]
    if "error" in kinds:
        return ERROR
    match value:
        case TensorType():
            return _tensor(checker, node, value, kinds, scope)
        case ListType(element=element):
            return _sequence(checker, node, value, element, kinds)
        case StringType():
            return _sequence(checker, node, value, UNKNOWN, kinds)
        case RangeType():
            return UNKNOWN
        case TupleType(elements=elements):
            return _tuple(checker, node, elements, scope)
    hint = AWAIT_HINT if isinstance(value, FutureType) else None
    return checker.report("0203", f"{value} has no elements to index", node.value.span, f"this is {value}", hint=hint)


def _index_kind(checker: Checker, item: Expression, scope: Scope) -> str:
    """ "int", "slice", "ellipsis", "unknown" (a mask, a gather) or "error"."""
    match item:
        case Slice(low=low, high=high, step=step):
            faults = [_index_kind(checker, part, scope) for part in (low, high, step) if part is not None]
            return "error" if "error" in faults else "slice"
        case EllipsisIndex():
            return "ellipsis"
        case Range():
            checker.infer(item, scope)
            return "slice"
    type_ = checker.infer(item, scope)
    if is_silent(type_):
        return "error" if type_ == ERROR else "unknown"
    if isinstance(type_, Scalar) and type_.dtype.is_int:
        return "int"
    if isinstance(type_, (TensorType, ListType, TupleType, RangeType)):
        return "unknown"
    hint = "write `... as i64`" if isinstance(type_, Scalar) and type_ != BOOL else None
    checker.report("0407", f"an index is an int, not {type_}", item.span, f"this is {type_}", hint=hint)
    return "error"


def _sequence(checker: Checker, node: Index, value: Type, element: Type, kinds: list[str]) -> Type:
    if len(kinds) != 1:
        hint = "a list of lists is indexed one after the other: `a[i][j]`" if isinstance(element, ListType) else None
        return checker.report("0304", f"{value} takes 1 index, but {len(kinds)} are given", node.span, f"the value is {value}", hint=hint)
    return value if kinds[0] == "slice" else UNKNOWN if kinds[0] == "unknown" else element


def _tuple(checker: Checker, node: Index, elements: tuple[Type, ...], scope: Scope) -> Type:
    position = constant(node.indices[0], scope) if len(node.indices) == 1 else None
    if type(position) is not int:
        return UNKNOWN
    if not -len(elements) <= position < len(elements):
        return checker.report("0305", f"index {position} is outside the tuple, which has {len(elements)} elements", node.indices[0].span)
    return elements[position]


def _tensor(checker: Checker, node: Index, value: TensorType, kinds: list[str], scope: Scope) -> Type:
    dims = dims_of(value.shape)
    if dims is None or "unknown" in kinds:
        given = len([k for k in kinds if k != "ellipsis"])
        if dims is not None and given > len(dims):
            return _too_many(checker, node, value, given)
        return UNKNOWN
    given = len([k for k in kinds if k != "ellipsis"])
    if given > len(dims):
        return _too_many(checker, node, value, given)
    out: list[ShapeExpr | None] = []
    axis = 0
    for item, kind in zip(node.indices, kinds, strict=True):
        if kind == "ellipsis":
            skipped = len(dims) - given
            out += dims[axis : axis + skipped]
            axis += skipped
            continue
        if kind == "int":
            if not _inside(checker, item, dims[axis], axis, value, scope):
                return ERROR
        else:
            out.append(_sliced(item, dims[axis], scope))
        axis += 1
    out += dims[axis:]
    if not out and all(k in ("int", "ellipsis") for k in kinds):
        return value.element
    return TensorType(value.element, shape_of(tuple(out)), value.device)


def _too_many(checker: Checker, node: Index, value: TensorType, given: int) -> Type:
    dims = dims_of(value.shape)
    assert dims is not None
    return checker.report(
        "0304",
        f"{given} indices for a tensor of {len(dims)} {'axis' if len(dims) == 1 else 'axes'}",
        node.span,
        f"the tensor is {describe(dims)}",
    )


def _inside(checker: Checker, item: Expression, dim: ShapeExpr | None, axis: int, value: TensorType, scope: Scope) -> bool:
    extent = None if dim is None else dim.value
    position = constant(item, scope)
    if extent is None or type(position) is not int or -extent <= position < extent or checker.frame.in_try:
        return True
    span = f"{-extent} to {extent - 1}" if extent else "none, since the axis is empty"
    checker.report(
        "0305",
        f"index {position} is outside axis {axis}, which has {extent} {'element' if extent == 1 else 'elements'}",
        item.span,
        f"the tensor is {describe(dims_of(value.shape))}",
        hint=f"valid indices: {span}",
    )
    return False


def _sliced(item: Expression, dim: ShapeExpr | None, scope: Scope) -> ShapeExpr | None:
    """The extent that a slice leaves of an axis."""
    if not isinstance(item, Slice):
        return None
    if item.low is None and item.high is None and item.step is None:
        return dim
    parts: list[int | None] = []
    for part in (item.low, item.high, item.step):
        if part is None:
            parts.append(None)
            continue
        known = constant(part, scope)
        if type(known) is not int:
            return None
        parts.append(known)
    extent = None if dim is None else dim.value
    if extent is None or parts[2] == 0:
        return None
    return ShapeExpr((), slice_extent(extent, *parts))


def without_leading_axis(value: TensorType) -> Type:
    """What `t[i]` is."""
    dims = dims_of(value.shape)
    if dims is None:
        return UNKNOWN
    return value.element if len(dims) == 1 else TensorType(value.element, shape_of(dims[1:]), value.device)


def unknown_field(checker: Checker, node: Field, value: Type) -> Type:
    """Values have no fields but those of tuples; says how what is meant is called as a method."""
    if is_silent(value):
        return UNKNOWN
    if isinstance(value, DictType) and isinstance(value.value, TensorType) and not _is_method(checker, value, node.name):
        return UNKNOWN  # A model's tensors are found by their paths.
    if isinstance(value, TupleType) and node.name.isdigit():
        if int(node.name) < len(value.elements):
            return value.elements[int(node.name)]  # `.01` is `.1`
        return checker.report(
            "0202",
            f"the tuple has no element {int(node.name)}: it has {len(value.elements)}",
            node.span,
            f"the value is {value}",
            hint=f"elements are `.0` to `.{len(value.elements) - 1}`",
        )
    kind = kind_of(value)
    if _is_method(checker, value, node.name):
        return checker.report(
            "0202",
            f"`{node.name}` is a method of {value}, not a field",
            node.span,
            f"the value is {value}" if not isinstance(node.value, Name) else "",
            hint=f"call it: `.{node.name}()`",
        )
    names = [method for owner, method in checker.library.methods if owner == kind]
    hint = did_you_mean(node.name, names)
    if node.name == "T" and "transpose" in names:
        hint = "`.transpose()` swaps the axes"
    elif node.name in ("length", "count") and "len" in names:
        hint = "call it: `.len()`"
    return checker.report("0202", f"{value} has no field `{node.name}`", node.span, f"the value is {value}", hint=hint)


def kind_of(value: Type) -> str | None:
    """The library's word for a receiver of this type; None where methods are not known before the run."""
    match value:
        case TensorType():
            return "tensor"
        case ListType():
            return "List"
        case DictType():
            return "HashMap"
        case SetType():
            return "HashSet"
        case StringType():
            return "String"
        case Scalar(dtype=dtype):
            return "bool" if dtype.value == "bool" else "int" if dtype.is_int else "float"
        case RangeType():
            return "range"
        case TupleType():
            return "tuple"
        case OptionType():
            return "Option"
        case ResultType():
            return "Result"
        case ArrayType():
            return "array"
    return None


def iterate(checker: Checker, source: Type, span: Span) -> Type:
    """What a loop over `source` hands out."""
    match source:
        case ListType(element=element) | SetType(element=element) | DictType(key=element):
            return strong(element)
        case StringType():
            return STRING
        case TupleType(elements=elements):
            return strong(reduce(join, elements))
        case TensorType():
            if source.shape.rank == 0:
                return checker.report("0203", "a tensor without axes has nothing to loop over", span, f"this is {source}")
            return without_leading_axis(source)
    if is_silent(source):
        return ERROR if source == ERROR else UNKNOWN
    return no_elements(checker, source, span, AWAIT_HINT if isinstance(source, FutureType) else None)


_LIKE_ALL: tuple[type[Type], ...] = (Type, *(cls for cls in CORE.kinds if cls not in (ArrayType, OptionType, StructType)))
"""Types whose parts the core doesn't know."""
ZYNML_RULES.kinds |= {
    cls: evolve(CORE.kinds.get(cls, UNKNOWN_KIND), index=index, iterate=iterate, widens=True, unknown_field=unknown_field)
    for cls in _LIKE_ALL
}


def _is_method(checker: Checker, value: Type, name: str) -> bool:
    return (kind_of(value) or "", name) in checker.library.methods
