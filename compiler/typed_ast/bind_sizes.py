"""Sizes at a call: arguments against the shapes of parameters, size names bound to extents, the result's shape from them."""

from compiler.diagnostics import Label
from compiler.typed_ast.checker import Checker, leaves
from compiler.typed_ast.conversions import Fit, fit, is_silent
from compiler.typed_ast.nodes import Argument, Expression, ListLiteral, Name
from compiler.typed_ast.rules.placing import require_part
from compiler.typed_ast.scope import Scope, UserFunction, name_place
from compiler.typed_ast.shapes import describe, differ, dims_of, shape_of, substitute
from compiler.typed_ast.signatures import signature, sizes_in
from compiler.typed_ast.types import UNKNOWN, FunctionType, FutureType, ListType, Quotient, ShapeExpr, TensorType, TupleType, Type

Bound = dict[str, ShapeExpr | None]


def substituted(type_: Type, bound: Bound) -> Type:
    """A result's type with the callee's sizes replaced by what this call bound them to."""
    match type_:
        case TensorType(element=element, shape=shape, device=device):
            dims = dims_of(shape)
            if dims is None or all(d is None or not d.terms for d in dims):
                return type_
            return TensorType(element, shape_of(tuple(substitute(d, bound) for d in dims)), device)
        case ListType(element=element):
            return ListType(substituted(element, bound))
        case TupleType(elements=elements):
            return TupleType(tuple(substituted(e, bound) for e in elements))
        case FutureType(value=value):
            return FutureType(substituted(value, bound))
        case FunctionType():
            return UNKNOWN if _mentions_sizes(type_) else type_
    return type_


def _mentions_sizes(type_: FunctionType) -> bool:
    return any(sizes_in(t) for t in (*type_.parameters, type_.result))


def check_argument(
    checker: Checker,
    argument: Argument,
    actual: Type,
    wanted: Type,
    scope: Scope,
    what: str,
    reason: Label,
    function: UserFunction,
    bound: Bound,
    origins: dict[str, tuple[Argument, str]],
) -> bool:
    """Requires that an argument fits; `what` names its parameter, and `reason` says where that stands."""
    if is_silent(actual):
        return True
    if not isinstance(wanted, TensorType) or fit(actual, wanted) is not Fit.YES:
        good = True
        for leaf in leaves(argument.value):
            good &= require_part(checker, checker.type_of(leaf), wanted, leaf, scope, what, reason)
        return good
    have = dims_of(actual.shape) if isinstance(actual, TensorType) else list_dims(argument.value) if isinstance(actual, ListType) else None
    want = dims_of(wanted.shape)
    if have is None or want is None:
        return True
    if len(have) != len(want):
        checker.report(
            "0301",
            f"shapes do not fit: `{function.name}` takes {wanted}, found {actual}",
            argument.value.span,
            f"it has {len(have)} axes, not {len(want)}" if len(have) != 1 else f"it has 1 axis, not {len(want)}",
            (reason,),
            notes=(f"expected {describe(want)}", f"found    {describe(have)}"),
        )
        return False
    for axis, (dim, form) in enumerate(zip(have, want, strict=True)):
        if form is not None and not _bind(checker, argument, actual, axis, dim, form, wanted, reason, function, bound, origins):
            return False
    return True


def _bind(
    checker: Checker,
    argument: Argument,
    actual: Type,
    axis: int,
    dim: ShapeExpr | None,
    form: ShapeExpr,
    wanted: Type,
    reason: Label,
    function: UserFunction,
    bound: Bound,
    origins: dict[str, tuple[Argument, str]],
) -> bool:
    """Binds the one free size of a dim to this extent, or compares the extent with what the sizes make of the dim."""
    if dim is None:
        return True
    free = [name for name in form.names if name not in bound]
    label = f"{argument_words(argument)} is {actual}"
    if len(free) == 1 and any(free[0] in term.numerator.names for term, _ in form.terms if isinstance(term, Quotient)):
        return True
    if len(free) == 1:
        name = free[0]
        coefficient = dict(form.terms)[name]
        rest = substitute(form + ShapeExpr.of(name).times(-coefficient), bound)
        if rest is None:
            return True
        difference = dim + rest.times(-1)
        if coefficient in (1, -1):
            bound[name] = difference.times(coefficient)
        elif difference.value is not None and difference.value % coefficient == 0:
            bound[name] = ShapeExpr((), difference.value // coefficient)
        elif difference.value is not None:
            checker.report(
                "0301",
                f"shapes do not fit: axis {axis} of {argument_words(argument)} is {dim}, and no {name} makes {form} of it",
                argument.value.span,
                f"this is {actual}",
                (reason,),
            )
            return False
        if name in bound:
            origins[name] = (argument, f"{label}: {name} = {bound[name]}")
        return True
    if free:
        return True
    expected = substitute(form, bound)
    if expected is None or not differ(expected, dim):
        return True
    if (alone := form.name) is not None:
        first, words = origins[alone]
        shown = signature(checker, function.node, function.scope)
        checker.report(
            "0302",
            f"size `{alone}` is bound to two values",
            argument.value.span,
            f"{label}: {alone} = {dim}",
            (Label(first.value.span, words), Label(name_place(function.node), f"declared `{shown}`")),
            hint=f"`{alone}` is one number in each call of `{function.name}`",
        )
        return False
    where = "".join(f", with {name} = {bound[name]}" for name in form.names)
    checker.report(
        "0301",
        f"shapes do not fit: axis {axis} of {argument_words(argument)} is {dim}, but `{function.name}` takes {form}{where}",
        argument.value.span,
        f"this is {actual}",
        (reason, *(Label(origins[n][0].value.span, origins[n][1]) for n in form.names if origins[n][0] is not argument)),
        notes=(f"expected {_shape_words(wanted)}", f"found    {_shape_words(actual, argument.value)}"),
    )
    return False


def _shape_words(type_: Type, node: Expression | None = None) -> str:
    if isinstance(type_, TensorType):
        return describe(dims_of(type_.shape))
    return describe(list_dims(node)) if node is not None else str(type_)


def list_dims(node: Expression) -> tuple[ShapeExpr | None, ...] | None:
    """The shape of a nested list literal, where it is written out and regular."""
    if not isinstance(node, ListLiteral):
        return None
    inner = [list_dims(e) for e in node.elements if isinstance(e, ListLiteral)]
    if not inner:
        return (ShapeExpr((), len(node.elements)),)
    if len(inner) != len(node.elements) or any(i != inner[0] for i in inner) or inner[0] is None:
        return None
    return (ShapeExpr((), len(node.elements)), *inner[0])


def argument_words(argument: Argument) -> str:
    """How a message names an argument."""
    if isinstance(argument.value, Name):
        return f"`{argument.value.name}`"
    return f"`{argument.name}`" if argument.name else "the argument"


def ragged_rows(node: Expression) -> tuple[ListLiteral, ListLiteral] | None:
    """Of nested lists written out, the first row that differs in length from the first one of its depth, with that one; else None."""
    rows = [node]
    while all(isinstance(row, ListLiteral) for row in rows) and rows:
        lists = [row for row in rows if isinstance(row, ListLiteral)]
        for row in lists:
            if len(row.elements) != len(lists[0].elements):
                return row, lists[0]
        rows = [element for row in lists for element in row.elements]
    return None
