"""Types of values and of control flow that yields values: names, lists, branches, lambdas."""

from compiler.source import Span
from compiler.typed_ast.checker import ZYNML_RULES, Checker, Frame, infers
from compiler.typed_ast.conversions import join, strong
from compiler.typed_ast.infer_maps import require_key
from compiler.typed_ast.kernel_words import is_kernel_word
from compiler.typed_ast.nodes import (
    Comprehension,
    EllipsisIndex,
    Expression,
    Lambda,
    OperatorValue,
    Slice,
    UnitNumber,
)
from compiler.typed_ast.rules.abstract_types import with_suffix
from compiler.typed_ast.rules.bodies import declare_parameter
from compiler.typed_ast.rules.loops import bind_loop_names
from compiler.typed_ast.rules.placing import condition
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    ERROR,
    NEVER,
    UNKNOWN,
    DictType,
    FunctionType,
    ListType,
    Type,
)
from compiler.typed_ast.user_iterators import collected
from runtime.records import evolve


def undeclared(checker: Checker, word: str, span: Span) -> Type | None:
    """What is said of a function that only kernels have. Another function may be called from a kernel, so only the program's own lines
    are wrong."""
    if not is_kernel_word(word):
        return None
    if not checker.frame.top:
        return UNKNOWN
    return checker.report(
        "0413",
        f"`{word}` stands outside of a compute block",
        span,
        hint="it is there in blocks of the kinds `custom` and `fused`, and in functions that they call",
    )


ZYNML_RULES.undeclared = undeclared


@infers(UnitNumber)
def unit_number(checker: Checker, node: UnitNumber, scope: Scope, expected: Type | None, used: bool) -> Type:
    return with_suffix(checker, node, scope, expected)


@infers(OperatorValue)
def operator_value(checker: Checker, node: OperatorValue, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Slice, EllipsisIndex)
def stray_slice(checker: Checker, node: Expression, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Lambda)
def lambda_value(checker: Checker, node: Lambda, scope: Scope, expected: Type | None, used: bool) -> Type:
    known: tuple[Type, ...] = ()
    if isinstance(expected, FunctionType) and len(expected.parameters) == len(node.parameters):
        known = expected.parameters
    outer, checker.frame = checker.frame, Frame()
    inner = scope.inner()
    types: list[Type] = []
    checker.require_distinct(node.parameters)
    for i, parameter in enumerate(node.parameters):
        found = known[i] if known else UNKNOWN
        if parameter.annotation is not None:
            found = checker.resolver.resolve(parameter.annotation)
        types.append(found)
        declare_parameter(checker, parameter, found, inner)
    result = checker.infer(node.body, inner)
    for returned in checker.frame.returns:
        result = join(result, returned)
    checker.frame = outer
    return FunctionType(tuple(types), strong(result) if result != NEVER else UNKNOWN)


@infers(Comprehension)
def comprehension(checker: Checker, node: Comprehension, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = scope.inner()
    source = checker.infer(node.source, scope)
    listed = collected(checker, node.source, source)
    checker.findings.rewrites.pop(id(node), None)
    if listed is not None:
        again = evolve(node, source=listed)
        checker.kept += (node, again)
        actual = checker.infer(again, scope, expected)
        checker.findings.rewrites[id(node)] = again
        return actual
    bind_loop_names(checker, inner, node.names, (), node.source, source)
    if node.condition is not None:
        condition(checker, node.condition, inner, "the condition")
    if node.key is None:
        return ListType(strong(checker.infer(node.element, inner)))
    key = strong(checker.infer(node.key, inner))
    value = strong(checker.infer(node.element, inner))
    return DictType(key, value) if require_key(checker, key, node.key) else ERROR
