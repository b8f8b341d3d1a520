"""Names, fields, elements, conditions, blocks: what every expression but operators, literals and calls is."""

from compiler.typed_ast import nodes
from compiler.typed_ast.elsewhere import NAMES
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    F64,
    I64,
    NEVER,
    RANGE,
    UNIT,
    DType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    TensorType,
    TupleType,
    Type,
)
from quantdsl import types as qt
from quantdsl.check import heap, library, presence, turns
from quantdsl.check.checker import QuantChecker, infers
from quantdsl.check.constants import constant_int
from quantdsl.check.fits import fits, report_optional, require, shown
from quantdsl.check.generic import is_open, substituted, unify
from quantdsl.check.literals import place_of, settled
from quantdsl.check.patterns import PatternShape, bind, cases_of, fields_of, uncovered
from quantdsl.check.resolve import resolve
from quantdsl.check.scope import CheckScope

_F64_FIELD = {"f64": F64}

NAMES_ELSEWHERE = {word: NAMES[word] for word in ("True", "TRUE", "False", "FALSE")} | dict.fromkeys(
    ("None", "null", "NULL", "nil", "nullptr"), "write `none`"
)
"""What is written instead of a name of other languages."""


def _fields(checker: QuantChecker, subject: Type) -> dict[str, Type]:
    """The fields of a type."""
    match subject:
        case qt.PriceType() | qt.TicksType():
            return {**_F64_FIELD, "ticks": I64}
        case qt.QtyType():
            return {**_F64_FIELD, "lots": I64}
        case qt.MoneyType():
            return {**_F64_FIELD, "units": I64}
        case qt.Container(kind="ring" | "table" | "array"):
            return {"len": I64}
        case qt.StructType():
            return dict(fields_of(checker, subject))
        case TupleType(elements=elements):
            return {str(number): element for number, element in enumerate(elements)}
        case ListType():
            return {"len": I64}
    if subject == qt.SIDE:
        return {"sign": I64, "opposite": qt.SIDE}
    if subject == qt.REJECT_MASK:
        return dict.fromkeys(qt.RULES, BOOL)
    if subject == qt.REJECT_COUNTS:
        return dict.fromkeys(qt.RULES, I64)
    if subject in (qt.DURATION, qt.TIMESTAMP):
        return {"ns": I64}
    return dict(_F64_FIELD) if subject == qt.RATIO else {}


@infers(nodes.Name)
def name(checker: QuantChecker, node: nodes.Name, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    variable = scope.find(node.name)
    if variable is not None:
        return presence.seen(variable, expected)
    if node.name == "none":
        return expected if isinstance(expected, OptionType) else qt.NONE
    found = checker.world.cases.get(node.name)
    if found is not None:
        return _bare_case(checker, node, expected)
    if node.name in checker.world.functions or node.name in library.names():
        return checker.report("0203", f"`{node.name}` is a function, not a value", node.span, hint=f"call it: `{node.name}(...)`")
    hint = NAMES_ELSEWHERE.get(node.name) or did_you_mean(node.name, {*scope.names(), *checker.world.cases})
    return checker.report("0201", f"undefined name `{node.name}`", node.span, hint=hint)


def _bare_case(checker: QuantChecker, node: nodes.Name, expected: Type | None) -> Type:
    """`Buy`: a case without values; where several enums have it, the place decides."""
    wanted = expected.value if isinstance(expected, OptionType) else expected
    found = checker.world.cases[node.name]
    enum, variant = next(((e, v) for e, v in found if isinstance(wanted, qt.EnumType) and e.name == wanted.name), found[0])
    if variant.elements or variant.fields:
        return checker.report("0204", f"the case `{node.name}` of `{enum.name}` has values", node.span, hint=f"write `{node.name}(...)`")
    return qt.EnumType(enum.name)


@infers(nodes.Path)
def path(checker: QuantChecker, node: nodes.Path, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    if len(node.segments) == 2 and node.segments[0] in checker.world.enums:
        enum, case = node.segments
        if case in {variant.name for variant in checker.world.enums[enum].variants}:
            return qt.EnumType(enum)
        known = [variant.name for variant in checker.world.enums[enum].variants]
        return checker.report("0201", f"`{enum}` has no case `{case}`", node.span, hint=did_you_mean(case, known))
    return checker.report("0201", f"there is no `{'::'.join(node.segments)}`", node.span)


@infers(nodes.Field)
def field(checker: QuantChecker, node: nodes.Field, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    subject = checker.infer(node.value, scope)
    if subject == ERROR:
        return ERROR
    fields = _fields(checker, subject)
    if node.name in fields:
        return fields[node.name]
    if isinstance(subject, OptionType):
        return report_optional(checker, subject, node.value.span)
    known = f"it has {', '.join(f'`{known}`' for known in fields)}" if fields else None
    return checker.report(
        "0202", f"a `{shown(subject)}` has no field `{node.name}`", node.span, hint=did_you_mean(node.name, fields) or known
    )


@infers(nodes.Index)
def index(checker: QuantChecker, node: nodes.Index, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    subject = checker.infer(node.value, scope)
    found = [checker.infer(place, scope) for place in node.indices]
    if ERROR in (subject, *found):
        return ERROR
    if isinstance(subject, OptionType):
        return report_optional(checker, subject, node.value.span)
    if isinstance(subject, TensorType):
        return F64
    element = heap.element(subject)
    if len(found) != 1 or (element is None and not (isinstance(subject, qt.Container) and subject.kind in ("array", "ring"))):
        return checker.report("0203", f"a `{shown(subject)}` has no elements `[...]`", node.span)
    if not require(checker, found[0], I64, node.indices[0].span, "the index"):
        return ERROR
    if element is not None:
        return element
    assert isinstance(subject, qt.Container)
    value = constant_int(node.indices[0], scope)
    size = subject.size.value if isinstance(subject.size, qt.Size) else None
    if value is not None and (value < 0 or (size is not None and value >= size)):
        hint = f"indices go from 0 to {size - 1}" if size is not None else "indices begin with 0"
        return checker.report("0705", f"the index {value} is outside of `{shown(subject)}`", node.indices[0].span, hint=hint)
    reached = turns.outside(node.indices[0], scope, checker.body.turns, size) if value is None else None
    if reached is not None:
        hint = f"indices go from 0 to {size - 1}" if size is not None else "indices begin with 0"
        message = f"the index {reached[0]} is outside of `{shown(subject)}`"
        return checker.report("0705", message, node.indices[0].span, label=f"where {reached[1]}", hint=hint)
    return subject.elements[0]


@infers(nodes.TupleLiteral)
def tuple_literal(checker: QuantChecker, node: nodes.TupleLiteral, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    if not node.elements:
        return UNIT
    wanted = (
        expected.elements
        if isinstance(expected, TupleType) and len(expected.elements) == len(node.elements)
        else (None,) * len(node.elements)
    )
    found = [checker.infer(element, scope, want) for element, want in zip(node.elements, wanted, strict=True)]
    return TupleType(tuple(one if want is not None and fits(one, want) else settled(one) for one, want in zip(found, wanted, strict=True)))


@infers(nodes.ListLiteral)
def list_literal(checker: QuantChecker, node: nodes.ListLiteral, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    """An array of as many elements as are written, or a list where one is wanted."""
    listed = heap.list_literal(checker, node, scope, expected)
    if listed is not None:
        return listed
    element = expected.elements[0] if isinstance(expected, qt.Container) and expected.kind == "array" else None
    found: Type | None = element
    for value in node.elements:
        one = checker.infer(value, scope, found)
        if found is None:
            found = settled(one)
        else:
            require(checker, one, found, value.span, "an element of this array")
    if found is None:
        hint = "write the type: `let xs: list<f64> = []`; a ring or table begins empty: `var xs: ring<f64, 8>`"
        return checker.report("0203", "an array without elements has no type", node.span, hint=hint)
    return qt.Container("array", (found,), qt.Size(len(node.elements)))


@infers(nodes.Repeat)
def repeat(checker: QuantChecker, node: nodes.Repeat, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    wanted = expected.elements[0] if isinstance(expected, qt.Container) and expected.kind == "array" else None
    element = checker.infer(node.element, scope, wanted)
    count = constant_int(node.count, scope)
    if not (isinstance(node.count, nodes.Name) and node.count.name in checker.body.parameters):
        checker.infer(node.count, scope)
    inside = wanted if wanted is not None and fits(element, wanted) else settled(element)
    if count is None:
        if isinstance(node.count, nodes.Name) and node.count.name in checker.body.parameters:
            return qt.Container("array", (inside,), qt.TypeVariable(node.count.name))
        variable = scope.find(node.count.name) if isinstance(node.count, nodes.Name) else None
        if variable is not None and variable.kind in ("const", "param", "const parameter"):
            return qt.Container("array", (inside,), qt.Size())
        return checker.report("0301", "the number of elements is not constant", node.count.span, hint="write a number or a `const`")
    if count < 1:
        return checker.report("0301", f"an array has at least 1 element, and this has {count}", node.count.span)
    return qt.Container("array", (inside,), qt.Size(count))


@infers(nodes.Range)
def range_(checker: QuantChecker, node: nodes.Range, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    for part in (node.low, node.high, node.step):
        if part is not None:
            require(checker, checker.infer(part, scope), I64, part.span, "a bound of the range")
    return RANGE


@infers(nodes.RecordLiteral)
def record(checker: QuantChecker, node: nodes.RecordLiteral, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    """`Quote { bid: b }` or a case with named values."""
    written = (
        node.struct.name if isinstance(node.struct, nodes.Name) else node.struct.segments[-1] if isinstance(node.struct, nodes.Path) else ""
    )
    case = checker.world.cases.get(written)
    given: dict[int, Type] = {}
    if written in checker.world.structs:
        struct = checker.world.structs[written]
        arguments = node.struct.arguments if isinstance(node.struct, nodes.Path) else ()
        found: Type = qt.StructType(written, tuple(resolve(checker, a, scope) for a in arguments))
        if len(arguments) != len(struct.type_parameters):
            place = place_of(expected)
            if isinstance(place, qt.StructType) and place.name == written:
                found = place
            else:
                found, given = _by_fields(checker, node, struct, scope)
        if not isinstance(found, qt.StructType):
            return ERROR
        fields = dict(fields_of(checker, found))
        optional = {f.name for f in struct.fields if f.default is not None}
    elif case is not None:
        found = qt.EnumType(case[0][0].name)
        fields, optional = dict((cases_of(checker, found) or {})[written]), set()
    else:
        _values(checker, node, scope)
        return checker.report("0201", f"there is no struct `{written}`", node.span, hint=did_you_mean(written, checker.world.structs))
    for value in node.fields:
        wanted = fields.get(value.name)
        one = given[id(value)] if id(value) in given else checker.infer(value.value, scope, wanted)
        if wanted is None:
            checker.report("0202", f"`{written}` has no field `{value.name}`", value.span, hint=did_you_mean(value.name, fields))
        else:
            require(checker, one, wanted, value.value.span, f"the field `{value.name}`")
    missing = [name for name in fields if name not in optional and name not in {value.name for value in node.fields}]
    if node.base is not None:
        require(checker, checker.infer(node.base, scope, found), found, node.base.span, "the base")
    elif missing:
        checker.report("0204", f"`{written}` needs {', '.join(f'`{name}`' for name in missing)}", node.span)
    return found


def _by_fields(checker: QuantChecker, node: nodes.RecordLiteral, struct: nodes.Struct, scope: CheckScope) -> tuple[Type, dict[int, Type]]:
    """The struct with the type arguments that its fields determine, and the types of the fields that were looked at."""
    names = {parameter.name for parameter in struct.type_parameters}
    open_ = qt.StructType(struct.name, tuple(qt.TypeVariable(parameter.name) for parameter in struct.type_parameters))
    fields, bound, given = dict(fields_of(checker, open_)), dict[str, Type](), dict[int, Type]()
    for value in node.fields:
        place = substituted(fields.get(value.name, ERROR), bound, names)
        given[id(value)] = checker.infer(value.value, scope, None if is_open(place, names) else place)
        unify(place, given[id(value)], bound, names)
    if names <= set(bound) and qt.Size() not in bound.values():
        return qt.StructType(struct.name, tuple(bound[parameter.name] for parameter in struct.type_parameters)), given
    if ERROR in bound.values():
        return ERROR, given
    hint = f"write `{struct.name}<{', '.join(sorted(names))}> {{ ... }}`, each with what it stands for"
    return checker.report("0204", f"`{struct.name}` needs its type arguments: its fields don't say them", node.span, hint=hint), given


def _values(checker: QuantChecker, node: nodes.RecordLiteral, scope: CheckScope) -> None:
    for value in node.fields:
        checker.infer(value.value, scope)


@infers(nodes.Cast)
def cast(checker: QuantChecker, node: nodes.Cast, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    target = resolve(checker, node.target, scope)
    found = checker.infer(node.value, scope)
    if ERROR in (target, found):
        return target
    if isinstance(found, OptionType):
        return report_optional(checker, found, node.value.span)
    number = isinstance(found, Scalar) or (isinstance(found, qt.TypeVariable) and found.bound == "Number")
    if number and isinstance(target, Scalar) and target.dtype is not DType.BOOL:
        return target
    hint = (
        "exact numbers give theirs as `.f64`, and come from floats by `to_price`, `to_qty`, `to_money`"
        if isinstance(found, qt.Exact)
        else None
    )
    return checker.report("0203", f"`as` doesn't turn a `{shown(found)}` into a `{shown(target)}`", node.span, hint=hint)


@infers(nodes.Propagate)
def propagate(checker: QuantChecker, node: nodes.Propagate, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    """`e?`: the value, or out of the function with its none or error; a handler that gives nothing ends."""
    found = checker.infer(node.value, scope)
    if found == ERROR:
        return ERROR
    if not isinstance(found, OptionType | ResultType):
        return checker.report(
            "0203", f"`?` takes a value that may be none, and this `{shown(found)}` may not", node.span, hint="remove the `?`"
        )
    body = checker.body
    ends = body.what in ("handler", "test") or (body.result == UNIT and body.what == "function")
    leaves = isinstance(body.result, OptionType) and isinstance(found, OptionType)
    fails = isinstance(body.result, ResultType) and isinstance(found, ResultType) and fits(found.error, body.result.error)
    if not (ends or leaves or fails or body.result == ERROR):
        left = "none" if isinstance(found, OptionType) else "the error"
        hint = "give a default with `e ?? d`, or make the result one that can be left with"
        return checker.report("0203", f"`?` would leave with {left}, and the result is `{shown(body.result)}`", node.span, hint=hint)
    return found.value


@infers(nodes.Block)
def block(checker: QuantChecker, node: nodes.Block, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    inner = CheckScope(scope)
    found: Type = UNIT
    last = len(node.statements) - 1
    known = tuple(checker.present)
    for number, statement in enumerate(node.statements):
        presence.before(checker, statement)
        if number == last and isinstance(statement, nodes.ExpressionStatement) and used:
            found = checker.infer(statement.value, inner, expected)
        else:
            ended = checker.statement(statement, inner)
            found = NEVER if ended == NEVER else found if number < last or found == NEVER else UNIT
        presence.behind(checker, statement)
    presence.leave(checker, known)
    return found


@infers(nodes.If)
def if_(checker: QuantChecker, node: nodes.If, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    inner = CheckScope(scope)
    if isinstance(node.condition, nodes.LetCondition):
        checker.infer(node.condition, inner)
    else:
        require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    with checker.branch():
        then = checker.infer(node.then, inner, expected, used)
        if node.otherwise is None:
            return UNIT
        otherwise = checker.infer(node.otherwise, scope, expected, used)
    return joined(checker, then, otherwise, node, expected) if used else NEVER if then == otherwise == NEVER else UNIT


def joined(checker: QuantChecker, a: Type, b: Type, node: nodes.Node, expected: Type | None) -> Type:
    """The type of a value that comes from one of two branches."""
    if ERROR in (a, b):
        return ERROR
    if expected is not None and expected != ERROR and fits(a, expected) and fits(b, expected):
        return NEVER if a == b == NEVER else expected
    if a == NEVER or b == NEVER:
        return b if a == NEVER else a
    weak_last = isinstance(b, Scalar) and b.weak
    for one, other in ((b, a), (a, b)) if weak_last else ((a, b), (b, a)):
        if fits(one, other):
            return other
        if one == qt.NONE:
            return OptionType(settled(other))
    return checker.report("0203", f"the branches give `{shown(a)}` and `{shown(b)}`", node.span, hint="all branches give one type")


@infers(nodes.LetCondition)
def let_condition(checker: QuantChecker, node: nodes.LetCondition, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    found = checker.infer(node.value, scope)
    plain = isinstance(node.pattern, nodes.BindingPattern | nodes.WildcardPattern | nodes.TuplePattern)
    if plain and found != ERROR and not isinstance(found, OptionType):
        message = f"`if let` takes out a value that may be none, and this `{shown(found)}` may not"
        found = checker.report("0203", message, node.value.span, hint="a plain `let` is enough, or write a case: `if let Ok(v) = ...`")
    bind(checker, node.pattern, found.value if plain and isinstance(found, OptionType) else found, scope)
    return BOOL


@infers(nodes.Conditional)
def conditional(checker: QuantChecker, node: nodes.Conditional, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    with checker.branch():
        then = checker.infer(node.then, scope, expected)
        otherwise = checker.infer(node.otherwise, scope, expected or then)
    return joined(checker, then, otherwise, node, expected)


@infers(nodes.Match)
def match_(checker: QuantChecker, node: nodes.Match, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    subject = checker.infer(node.subject, scope)
    rows: list[tuple[PatternShape, ...]] = []
    result: Type | None = None
    for arm in node.arms:
        covered, found = _arm(checker, arm, subject, scope, expected, used)
        rows += [(covered,)] if covered is not None else []
        if result is None:
            result = found
        else:
            result = joined(checker, result, found, arm.body, expected) if used else NEVER if result == found == NEVER else UNIT
    missing = uncovered(checker, rows, (subject,)) if subject != ERROR else None
    if missing is not None:
        message = "this `match` doesn't cover " + ("all values" if missing[0] == "_" else f"`{missing[0]}`")
        checker.report("0206", message, node.subject.span, hint=f"add an arm `{missing[0]} => ...`")
    return result if result is not None else UNIT


def _arm(
    checker: QuantChecker, arm: nodes.Arm, subject: Type, scope: CheckScope, expected: Type | None, used: bool
) -> tuple[PatternShape | None, Type]:
    """What an arm covers for certain (None: it has a condition), and the type of its value."""
    inner = CheckScope(scope)
    shape = bind(checker, arm.pattern, subject, inner)
    covered = shape if arm.guard is None else None
    with checker.branch():
        if arm.guard is not None:
            require(checker, checker.infer(arm.guard, inner, BOOL), BOOL, arm.guard.span, "the condition")
        if isinstance(arm.body, nodes.Block) or used:
            return covered, checker.infer(arm.body, inner, expected, used)
        return covered, checker.statement(nodes.ExpressionStatement(value=arm.body, span=arm.body.span), inner)


@infers(
    nodes.Lambda,
    nodes.DictLiteral,
    nodes.Comprehension,
    nodes.Try,
    nodes.Await,
    nodes.Slice,
    nodes.EllipsisIndex,
    nodes.OperatorValue,
    nodes.LaterExpression,
)
def refused(checker: QuantChecker, node: nodes.Expression, scope: CheckScope, expected: Type | None, used: bool) -> Type:
    what, instead = _REFUSED.get(type(node), ("this expression", None))
    return checker.report("0109", f"{what} is valid, but not supported yet in QuantDSL", node.span, hint=instead)


_REFUSED = {
    nodes.Lambda: ("a function without a name", "write a `fn`"),
    nodes.DictLiteral: ("a dict", "use `table<K, V, N>`"),
    nodes.Comprehension: ("a comprehension", "write a `for`"),
    nodes.Try: ("`try`", "`match` a `Result`"),
    nodes.Await: ("`await`", "use the value where it is ready"),
    nodes.Slice: ("a slice", "index one element after the other"),
}
