"""Compute blocks in compiled code. Reductions of numbers are compiled as the loops that they are; the other kinds need tensors, and run in
programs with a `main`, where ZynML's rules check them."""

from compiler.lowering.dtypes import accumulator
from compiler.typed_ast import nodes
from compiler.typed_ast.annotations import kernel_metadata
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.declarations import CallableDeclaration
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.rules.strays import stray_yield
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import BOOL, ERROR, UNIT, Scalar, TupleType, Type
from compiler.typed_ast.walk import walk
from compiler.typed_ast.yielded import Yielded
from quantdsl.check.checker import QuantChecker, checks, infers
from quantdsl.check.fits import shown

_OPERATORS = {
    **dict.fromkeys(("+", "sum", "add"), "add"),
    **dict.fromkeys(("*", "prod", "mul"), "mul"),
    "min": "min",
    "max": "max",
    **dict.fromkeys(("and", "all"), "and"),
    **dict.fromkeys(("or", "any"), "or"),
}


def operators_of(node: nodes.Compute) -> tuple[str, ...] | None:
    """`add mul min max and or` for each component of a reduction, or one for all; None for blocks that are compiled with tensors alone."""
    metadata, faults = kernel_metadata(node)
    given = metadata.option("op", "+")
    names = given if isinstance(given, tuple) else (given,)
    plain = metadata.kernel_type is KernelType.REDUCE and metadata.option("axis") is None and not metadata.is_async
    if faults or not plain or not all(name in _OPERATORS for name in names):
        return None
    return tuple(_OPERATORS[str(name)] for name in names)


@infers(nodes.Compute)
def compute(checker: QuantChecker, node: nodes.Compute, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = Scope(scope)
    for given in node.inputs:
        inner.add(Variable(given.name, checker.infer(given.value, scope), VariableKind.LET, given.span))
    operators = operators_of(node)
    _stays_inside(checker, node)
    if operators is None:
        return ERROR
    yielded = Yielded(operators, [])
    with checker.within(yielded=yielded, sometimes=True, loops=0):
        checker.infer(node.body, inner, used=False)
    match yielded.types:
        case []:
            hint = "write `yield e` in the innermost loop"
            return checker.report("0408", "a reduction without a `yield`", node.span, hint=hint)
        case [only]:
            return only
    return ERROR if ERROR in yielded.types else TupleType(tuple(yielded.types))


def _stays_inside(checker: QuantChecker, node: nodes.Compute) -> None:
    """A block computes numbers: it neither acts nor leaves its function."""
    for found in walk(node.body):
        match found:
            case nodes.Call(function=nodes.Name(name=name) | nodes.Field(name=name)):
                if any(map(_acts, _meant(checker, found, name))):
                    hint = "compute what is needed before the block, and act on it behind"
                    checker.report("0410", f"`{name}` stands inside `compute`", found.span, hint=hint)
            case nodes.Return() | nodes.Propagate():
                word = "return" if isinstance(found, nodes.Return) else "?"
                checker.report("0410", f"`{word}` leaves a compute block", found.span, hint="`break` leaves a loop")


def _meant(checker: QuantChecker, call: nodes.Call, name: str) -> list[CallableDeclaration]:
    """The functions that a call may mean: of a method that of its receiver's type, which isn't known yet, is one."""
    of_name = checker.declarations.functions.get(name)
    methods = [one for one in checker.declarations.methods(name).values() if id(one) not in checker.declarations.foreign]
    return [*methods, of_name] if of_name is not None and isinstance(call.function, nodes.Name) else methods


def _acts(callee: CallableDeclaration) -> bool:
    """Whether a call does something beside computing; signals remember."""
    return bool(callee.effects) if isinstance(callee, nodes.Function) else True


@checks(nodes.Yield)
def yield_(checker: QuantChecker, node: nodes.Yield, scope: Scope) -> Type:
    yielded = checker.frame.yielded
    type_ = strong(checker.infer(node.value, scope))
    if yielded is None:
        return stray_yield(checker, node, scope)
    parts = type_.elements if isinstance(type_, TupleType) else (type_,)
    if len(yielded.operators) not in (1, len(parts)):
        return checker.report("0408", f"{len(yielded.operators)} operators need a tuple of as many numbers", node.value.span)
    types = [_combined(checker, yielded.operator(n), part, node) for n, part in enumerate(parts)]
    if not yielded.types:
        yielded.types.extend(types)
    elif yielded.types != types and ERROR not in (*types, *yielded.types):
        before = ", ".join(map(shown, yielded.types))
        return checker.report("0203", f"the `yield` before gives `{before}`, and this `{shown(type_)}`", node.value.span)
    return UNIT


def _combined(checker: QuantChecker, operator: str, part: Type, node: nodes.Yield) -> Type:
    """The type in which numbers of a type are combined."""
    if part == ERROR:
        return ERROR
    truth = part == BOOL
    if not isinstance(part, Scalar) or (not truth if operator in ("and", "or") else truth and operator != "add"):
        wanted = "bools" if operator in ("and", "or") else "numbers"
        return checker.report("0203", f"this reduction combines {wanted}, and a `{shown(part)}` is yielded", node.value.span)
    return Scalar(accumulator(part.dtype)) if operator in ("add", "mul") else part
