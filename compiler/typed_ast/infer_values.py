"""Types of values and of control flow that yields values: literals, names, containers, branches, lambdas, casts."""

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast.checker import AWAIT_HINT, Checker, Frame, infers
from compiler.typed_ast.conversions import clash, is_silent, join, literal_type, strong
from compiler.typed_ast.elsewhere import MODULES, NAMES, without_module
from compiler.typed_ast.kernel_words import is_kernel_word
from compiler.typed_ast.loops import bind_loop_names
from compiler.typed_ast.nodes import (
    Block,
    BoolLiteral,
    Cast,
    Comprehension,
    Conditional,
    EllipsisIndex,
    Expression,
    Field,
    FloatLiteral,
    FString,
    If,
    IntLiteral,
    Lambda,
    LetCondition,
    ListLiteral,
    Name,
    OperatorValue,
    Path,
    Range,
    Slice,
    StringLiteral,
)
from compiler.typed_ast.rules.cases import bare_case, case_of_enum, wrappers
from compiler.typed_ast.scope import Scope, UserFunction, Variable, VariableKind
from compiler.typed_ast.signatures import parameter_types
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    BOOL,
    ERROR,
    NEVER,
    NONE,
    RANGE,
    STRING,
    UNIT,
    UNKNOWN,
    FunctionType,
    FutureType,
    ListType,
    OptionType,
    Scalar,
    TensorType,
    Type,
)

DTYPE_SUFFIXES = "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64"


@infers(IntLiteral)
def int_literal(checker: Checker, node: IntLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _number(checker, node.suffix, False, node.span)


@infers(FloatLiteral)
def float_literal(checker: Checker, node: FloatLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _number(checker, node.suffix, True, node.span)


def _number(checker: Checker, suffix: str | None, is_float: bool, span: Span) -> Type:
    found = literal_type(suffix, is_float)
    if found == ERROR:
        hint = did_you_mean(suffix or "", DTYPE_SUFFIXES.split()) or f"suffixes are {DTYPE_SUFFIXES}"
        checker.report("0106", f"`{suffix}` is no suffix of a number", span, hint=hint)
    return found


@infers(BoolLiteral)
def bool_literal(checker: Checker, node: BoolLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return BOOL


@infers(StringLiteral)
def string_literal(checker: Checker, node: StringLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return STRING


@infers(FString)
def f_string(checker: Checker, node: FString, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in node.parts:
        if part.value is not None:
            found = checker.infer(part.value, scope)
            if isinstance(found, FutureType):
                message = f"an f-string shows values, not {found}"
                checker.report("0203", message, part.value.span, f"this is {found}", hint=AWAIT_HINT)
    return STRING


@infers(ListLiteral)
def list_literal(checker: Checker, node: ListLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = expected.element if isinstance(expected, ListType) else None
    element: Type = UNKNOWN
    for i, item in enumerate(node.elements):
        found = checker.infer(item, scope, inner)
        if i == 0:
            element = found
        elif clash(element, found):
            first = node.elements[0]
            return checker.report(
                "0203",
                f"the elements of a list have one type: expected {element}, found {found}",
                item.span,
                f"this is {found}",
                (Label(first.span, f"the first is {checker.type_of(first)}"),),
                hint="a tuple `(a, b)` holds values of several types",
            )
        else:
            element = join(element, found)
    return ListType(element)


@infers(Range)
def range_value(checker: Checker, node: Range, scope: Scope, expected: Type | None, used: bool) -> Type:
    for bound in (node.low, node.high, node.step):
        if bound is not None:
            found = checker.infer(bound, scope)
            if not _may_be_int(found):
                checker.report(
                    "0203",
                    f"the bounds and step of a range are ints, not {found}",
                    bound.span,
                    f"this is {found}",
                    hint="write `... as i64`" if isinstance(found, Scalar) else None,
                )
    return RANGE


def _may_be_int(found: Type) -> bool:
    if isinstance(found, TensorType):
        return found.shape.rank in (None, 0)
    return is_silent(found) or (isinstance(found, Scalar) and found.dtype.is_int)


@infers(Name)
def name(checker: Checker, node: Name, scope: Scope, expected: Type | None, used: bool) -> Type:
    entry = scope.find(node.name)
    match entry:
        case Variable():
            return _variable(checker, entry, scope)
        case UserFunction():
            return function_value(checker, entry)
    function = checker.library.functions.get(node.name)
    if function is not None:
        return UNKNOWN
    known = checker.library.constants.get(node.name)
    if known is not None:
        return known[0]
    if node.name == checker.meaning.none:
        return expected if isinstance(expected, OptionType) else NONE
    if node.name in checker.declarations.cases:
        return bare_case(checker, node, expected)
    return undefined(checker, node.name, node.span, scope)


def _variable(checker: Checker, entry: Variable, scope: Scope) -> Type:
    if entry.frame is checker.frame or not entry.mutable or entry.declared or not isinstance(entry.type, TensorType):
        return entry.type
    # Another function may run after the variable got a value of another shape.
    return ANY_TENSOR


def function_value(checker: Checker, function: UserFunction) -> Type:
    """A function as a value; its parameters without a type are Unknown."""
    types = parameter_types(checker, function)
    return FunctionType(tuple(types), UNKNOWN)


def undefined(checker: Checker, word: str, span: Span, scope: Scope) -> Type:
    """0201, with the nearest names; says so when a block that has ended declared the name."""
    if word in wrappers(checker):
        return checker.report("0204", f"`{word}` takes one value", span, hint=f"write `{word}(...)`")
    if word in checker.declarations.structs:
        return checker.report("0203", f"`{word}` is a struct, not a value", span, hint=f"write its fields: `{word} {{ ... }}`")
    if checker.resolver.is_later(word):
        return ERROR
    ended = scope.find_ended(word)
    if ended is not None:
        return checker.report(
            "0201",
            f"`{word}` is not defined here",
            span,
            "not found",
            (Label(ended.span, "this one lives in a block that has ended"),),
            hint=f"declare `{word}` before the block",
        )
    if checker.open_names:
        return UNKNOWN
    if is_kernel_word(word):
        return _kernel_word(checker, word, span)
    further_down = checker.top_names.get(word)
    if further_down is not None:
        others = (Label(further_down, "declared here, further down"),)
        return checker.report("0201", f"`{word}` is not defined yet", span, "not found", others, hint="declare it first")
    known = [n for n, _ in scope.visible()] + [n for n in checker.library.functions if n.isidentifier()] + list(checker.library.constants)
    of_module = f"leave `{word}.` out: the library's functions are always there" if word in MODULES else None
    meant = NAMES.get(word) or of_module or did_you_mean(word, known)
    return checker.report("0201", f"`{word}` is not defined", span, "not found", hint=meant)


def member_of_unknown_module(checker: Checker, node: Field, scope: Scope) -> Type | None:
    """The fault of `np.zeros` where `np` is only known elsewhere, else None."""
    module = node.value
    if not isinstance(module, Name) or module.name not in MODULES or checker.open_names:
        return None
    if scope.find(module.name) is not None or module.name in checker.library.constants or module.name in checker.top_names:
        return None
    hint = without_module(module.name, node.name, checker.library.functions)
    return checker.report("0201", f"`{module.name}` is not defined", module.span, "not found", hint=hint)


def _kernel_word(checker: Checker, word: str, span: Span) -> Type:
    """A function that only kernels have. Another function may be called from a kernel, so only the program's own lines are wrong."""
    if not checker.frame.top:
        return UNKNOWN
    return checker.report(
        "0413",
        f"`{word}` stands outside of a compute block",
        span,
        hint="it is there in blocks of the kinds `custom` and `fused`, and in functions that they call",
    )


@infers(Path)
def path(checker: Checker, node: Path, scope: Scope, expected: Type | None, used: bool) -> Type:
    full = "::".join(node.segments)
    if full in checker.library.functions:
        return UNKNOWN
    known = checker.library.constants.get(full)
    if known is not None:
        return known[0]
    if len(node.segments) == 2 and node.segments[0] in checker.declarations.enums:
        return case_of_enum(checker, node, *node.segments)
    return unknown_path(checker, node, scope)


def unknown_path(checker: Checker, node: Path, scope: Scope) -> Type:
    """A path that the library does not have: 0109 for what is not there yet, else 0202 or 0201."""
    head, tail = node.segments[0], "::".join(node.segments[1:])
    if head in ("HashMap", "HashSet", "dict", "set"):
        return checker.later(f"`{head}`", node.span, "use a list or a tuple")
    if checker.resolver.is_later(head):
        return ERROR
    if isinstance(scope.find(head), Variable) or checker.open_names:
        return UNKNOWN
    members = [n.split("::", 1)[1] for n in checker.library.functions if n.startswith(head + "::")]
    if members:
        hint = did_you_mean(tail, members) or f"it has {_listing(members)}"
        return checker.report("0202", f"`{head}` has no function `{tail}`", node.span, "not found", hint=hint)
    heads = {n.split("::", 1)[0] for n in checker.library.functions if "::" in n}
    near = NAMES.get(head) or did_you_mean(head, heads)
    return checker.report("0201", f"`{head}` is not defined", node.span, "not found", hint=near)


def _listing(names: list[str], limit: int = 12) -> str:
    shown = sorted(set(names))
    return ", ".join(f"`{n}`" for n in shown[:limit]) + (", ..." if len(shown) > limit else "")


@infers(OperatorValue)
def operator_value(checker: Checker, node: OperatorValue, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Slice, EllipsisIndex)
def stray_slice(checker: Checker, node: Expression, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Block)
def block_value(checker: Checker, node: Block, scope: Scope, expected: Type | None, used: bool) -> Type:
    return checker.block(node, scope, expected)


@infers(If)
def if_value(checker: Checker, node: If, scope: Scope, expected: Type | None, used: bool) -> Type:
    inner = scope
    if isinstance(node.condition, LetCondition):
        inner = scope.inner()
        checker.infer(node.condition, inner)
    else:
        checker.require_bool(node.condition, scope, "the condition of `if`")
    then = checker.block(node.then, inner, expected)
    if node.otherwise is None:
        return UNIT
    return join(then, checker.block(node.otherwise, scope, expected))


@infers(Conditional)
def conditional(checker: Checker, node: Conditional, scope: Scope, expected: Type | None, used: bool) -> Type:
    checker.require_bool(node.condition, scope, "the condition")
    then = checker.infer(node.then, scope, expected)
    otherwise = checker.infer(node.otherwise, scope, expected)
    if expected is None and clash(then, otherwise):
        return checker.report(
            "0203",
            f"both values of a conditional have one type: expected {then}, found {otherwise}",
            node.otherwise.span,
            f"this is {otherwise}",
            (Label(node.then.span, f"this is {then}"),),
        )
    return join(then, otherwise)


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
        declared = parameter.annotation is not None
        variable = Variable(parameter.name, found, VariableKind.MUTABLE, parameter.span, declared=declared, frame=checker.frame)
        inner.entries[parameter.name] = variable
    result = checker.infer(node.body, inner)
    for returned in checker.frame.returns:
        result = join(result, returned)
    checker.frame = outer
    return FunctionType(tuple(types), strong(result) if result != NEVER else UNKNOWN)


@infers(Cast)
def cast(checker: Checker, node: Cast, scope: Scope, expected: Type | None, used: bool) -> Type:
    target = checker.resolver.resolve(node.target)
    found = checker.infer(node.value, scope)
    if isinstance(found, FutureType) and not isinstance(target, FutureType):
        message = f"only the value of a future becomes {target}, and this is {found}"
        return checker.report("0203", message, node.value.span, f"this is {found}", hint=AWAIT_HINT)
    if isinstance(found, TensorType) and isinstance(target, Scalar):
        return TensorType(target, found.shape, found.device)
    return target


@infers(Comprehension)
def comprehension(checker: Checker, node: Comprehension, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.key is not None:
        return checker.later("a map", node.span, "use a list of tuples")
    inner = scope.inner()
    source = checker.infer(node.source, scope)
    bind_loop_names(checker, inner, node.names, (), node.source, source)
    if node.condition is not None:
        checker.require_bool(node.condition, inner, "the condition")
    return ListType(strong(checker.infer(node.element, inner)))
