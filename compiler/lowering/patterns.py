"""`match` and `if let` in kernel bodies: whether a value fits a pattern, the names that the pattern binds, and whether the arms cover every
value. A value is numbers, so whether it fits can be computed for any value."""

from collections.abc import Callable, Sequence

from compiler.hir.control import If as HirIf
from compiler.hir.instruction import Region
from compiler.lowering.arithmetic import compare, comparison_facts
from compiler.lowering.body import Body, fault
from compiler.lowering.composites import alike, kind_of, numbers_of, of_numbers, tag
from compiler.lowering.conditions import as_number_of, as_truth, both, chosen
from compiler.lowering.enclosing import Truth
from compiler.lowering.numbers import Choice, Nothing, Number, Operand, Record, Tuple, literal, meet, typed, value_of
from compiler.lowering.walk import as_value, evaluate, lowers, number, value
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.exhaustiveness import ANYTHING, Cases, PatternShape, uncovered
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import DType, Type
from runtime.records import frozen

# ---- whether a value fits --------------------------------------------------------------------------------------------------


def fits(body: Body, pattern: nodes.Pattern, operand: Operand) -> Truth | None:
    """The condition under which a value fits a pattern; None: it always does."""
    match pattern:
        case nodes.WildcardPattern() | nodes.BindingPattern():
            return None
        case nodes.AlternativePattern(alternatives=alternatives):
            found = [fits(body, alternative, operand) for alternative in alternatives]
            known = [one for one in found if one is not None]
            return None if len(known) < len(found) else any_of(body, known)
        case nodes.LiteralPattern(value=written):
            return _literal(body, written, operand, pattern)
        case nodes.TuplePattern(elements=elements):
            parts = tuple_parts(operand, pattern)
            return all_of(body, [fits(body, element, part) for element, part in zip(elements, parts, strict=True)])
        case nodes.VariantPattern(path=path, arguments=arguments):
            constant = body.names.lookup(path[0]) if len(path) == 1 and not arguments else None
            if constant is not None:
                return _equal(body, operand, nodes.Name(name=path[0], span=pattern.span), pattern)
            return _case(body, path[-1], [(str(n), argument) for n, argument in enumerate(arguments)], operand, pattern)
        case nodes.StructPattern(path=path, fields=fields):
            return _case(body, path[-1], [(f.name, f.pattern) for f in fields], operand, pattern)
    raise AssertionError(f"a pattern of class {type(pattern).__name__}")


def all_of(body: Body, conditions: Sequence[Truth | None]) -> Truth | None:
    known = [condition for condition in conditions if condition is not None]
    if not known:
        return None
    result = known[0]
    for other in known[1:]:
        result = Truth(body.build.op("and", result.value, other.value), (*result.yes, *other.yes), ())
    return result


def any_of(body: Body, conditions: Sequence[Truth]) -> Truth:
    result = conditions[0]
    for other in conditions[1:]:
        result = Truth(body.build.op("or", result.value, other.value), (), (*result.no, *other.no))
    return result


def _literal(body: Body, written: nodes.Expression, operand: Operand, pattern: nodes.Pattern) -> Truth | None:
    if not isinstance(written, nodes.Range):
        return _equal(body, operand, written, pattern)
    subject = _number(operand, pattern)
    low, high = number(body, written.low), number(body, written.high)
    upper = "<=" if written.inclusive else "<"
    return all_of(body, [_compared(body, ">=", subject, low, pattern), _compared(body, upper, subject, high, pattern)])


def _equal(body: Body, operand: Operand, written: nodes.Expression, pattern: nodes.Pattern) -> Truth:
    return _compared(body, "==", _number(operand, pattern), number(body, written), pattern)


def _compared(body: Body, operator: str, left: Number, right: Number, pattern: nodes.Pattern) -> Truth:
    if (left.dtype is DType.BOOL) != (right.dtype is DType.BOOL) or (left.dtype.is_int and right.dtype.is_float):
        raise fault("0203", f"what is matched is {left.shown}, and this pattern {right.shown}", pattern.span)
    yes, no = comparison_facts(body, operator, left, right)
    return Truth(compare(body, operator, left, right), yes, no)


def _number(operand: Operand, pattern: nodes.Pattern) -> Number:
    if not isinstance(operand, Number):
        raise fault("0203", f"this pattern is a number, and what it is compared with is {kind_of(operand)}", pattern.span)
    return operand


def tuple_parts(operand: Operand, pattern: nodes.TuplePattern) -> tuple[Operand, ...]:
    """The elements that a pattern takes apart."""
    if not isinstance(operand, Tuple) or len(operand.elements) != len(pattern.elements):
        message = f"this pattern has {len(pattern.elements)} parts, and what it takes apart is {kind_of(operand)}"
        raise fault("0203", message, pattern.span, hint="`_` skips a part")
    return operand.elements


def _case(body: Body, name: str, patterns: list[tuple[str, nodes.Pattern]], operand: Operand, pattern: nodes.Pattern) -> Truth | None:
    parts = case_parts(name, operand, pattern, [part for part, _ in patterns])
    conditions: list[Truth | None] = []
    if isinstance(operand, Choice) and len(operand.cases) > 1:
        wanted = tag(operand.cases.index(name))
        conditions.append(Truth(compare(body, "==", operand.tag, wanted)))
    return all_of(body, [*conditions, *(fits(body, inner, parts[part]) for part, inner in patterns)])


def case_parts(name: str, operand: Operand, pattern: nodes.Pattern, wanted: Sequence[str]) -> dict[str, Operand]:
    """The parts of a value that is of a case, those that a pattern asks for among them."""
    whole = isinstance(pattern, nodes.VariantPattern)
    if isinstance(operand, Record) and name == operand.name:
        found = dict(operand.fields)
        if whole:
            found = {str(number): part for number, part in enumerate(found.values())}
    elif isinstance(operand, Choice) and name in operand.cases:
        known = operand.parts.get(name)
        # of a case that the value surely isn't, nothing may be known
        found = dict(known) if known is not None else {part: Nothing() for part in wanted}
    else:
        cases = operand.cases if isinstance(operand, Choice) else ()
        hint = did_you_mean(name, cases) or (f"cases are {', '.join(f'`{case}`' for case in cases)}" if cases else None)
        raise fault("0201" if cases else "0203", f"`{name}` is no case of {kind_of(operand)}", pattern.span, hint=hint)
    if whole and len(wanted) != len(found):
        raise fault("0204", f"`{name}` has {len(found)} parts, and the pattern {len(wanted)}", pattern.span)
    unknown = next((part for part in wanted if part not in found), None)
    if unknown is not None:
        raise fault("0202", f"`{name}` has no field `{unknown}`", pattern.span, hint=did_you_mean(unknown, found))
    return found


# ---- names -----------------------------------------------------------------------------------------------------------------


def bind(body: Body, pattern: nodes.Pattern, operand: Operand) -> None:
    """Enters the names of a pattern that a value fits."""
    for name, (value_, span) in _bound(body, pattern, operand).items():
        body.names.bind(name, value_, span, "a name of a pattern")


def _bound(body: Body, pattern: nodes.Pattern, operand: Operand) -> "dict[str, tuple[Operand, Span]]":
    match pattern:
        case nodes.BindingPattern(name=name):
            return {} if name == "_" else {name: (operand, pattern.span)}
        case nodes.AlternativePattern(alternatives=alternatives):
            return _of_one(body, alternatives, operand)
        case nodes.TuplePattern(elements=elements):
            pairs = zip(elements, tuple_parts(operand, pattern), strict=True)
            return {name: found for element, part in pairs for name, found in _bound(body, element, part).items()}
        case nodes.VariantPattern(path=path, arguments=arguments) if arguments:
            parts = case_parts(path[-1], operand, pattern, [str(n) for n, _ in enumerate(arguments)])
            inner = [(argument, parts[str(n)]) for n, argument in enumerate(arguments)]
            return {name: found for argument, part in inner for name, found in _bound(body, argument, part).items()}
        case nodes.StructPattern(path=path, fields=fields):
            parts = case_parts(path[-1], operand, pattern, [f.name for f in fields])
            return {name: found for f in fields for name, found in _bound(body, f.pattern, parts[f.name]).items()}
    return {}


def _of_one(body: Body, alternatives: Sequence[nodes.Pattern], operand: Operand) -> "dict[str, tuple[Operand, Span]]":
    """Names that all alternatives bind get theirs from the first one that fits."""
    *others, last = alternatives
    found = _bound(body, last, operand)
    for alternative in reversed(others):
        own = _bound(body, alternative, operand)
        if own.keys() != found.keys():
            name = min(own.keys() ^ found.keys())
            hint = "all alternatives bind the same names; `_` stands for what isn't used"
            raise fault("0201", f"`{name}` has no value in each of these alternatives", alternative.span, hint=hint)
        if own:
            condition = fits(body, alternative, operand)
            if condition is None:
                found = own
            else:
                found = {name: (_select(body, condition, own[name][0], found[name][0], last), own[name][1]) for name in own}
    return found


def _select(body: Body, condition: Truth, first: Operand, second: Operand, node: nodes.Node) -> Operand:
    first, second = alike(first, second, node.span)
    numbers = []
    for a, b in zip(numbers_of(first, node.span), numbers_of(second, node.span), strict=True):
        dtype, weak, origin = meet(a, b)
        chosen_ = body.build.select(condition.value, value_of(body.build, a, dtype), value_of(body.build, b, dtype))
        numbers.append(typed(chosen_, dtype, origin, weak))
    return of_numbers(first, numbers)


# ---- whether the arms cover every value --------------------------------------------------------------------------------------


@frozen(eq=False)
class _Subject(Type):
    """What is matched, in the place of its type."""

    operand: Operand


def _cases_of(subject: Type) -> Cases | None:
    assert isinstance(subject, _Subject)
    match subject.operand:
        case Number(dtype=DType.BOOL):
            return {"true": (), "false": ()}
        case Tuple(elements=elements):
            return {"": tuple((str(number), _Subject(element)) for number, element in enumerate(elements))}
        case Record(fields=fields):
            return {"": tuple((name, _Subject(part)) for name, part in fields.items())}
        case Choice(cases=cases, parts=parts):
            return {case: tuple((name, _Subject(part)) for name, part in _parts_of(case, parts.get(case)).items()) for case in cases}
    return None


def _parts_of(case: str, known: object) -> dict[str, Operand]:
    if isinstance(known, dict):
        return known
    return {"0": Nothing()} if case in ("Some", "Ok", "Err") else {}


def _shape(body: Body, pattern: nodes.Pattern, operand: Operand) -> PatternShape:
    match pattern:
        case nodes.AlternativePattern(alternatives=alternatives):
            return PatternShape(either=tuple(_shape(body, alternative, operand) for alternative in alternatives))
        case nodes.LiteralPattern(value=nodes.BoolLiteral(value=value_)):
            return PatternShape(str(value_).lower())
        case nodes.LiteralPattern():
            return PatternShape(exact=True)
        case nodes.TuplePattern(elements=elements):
            return PatternShape("", tuple(_shape(body, e, part) for e, part in zip(elements, tuple_parts(operand, pattern), strict=True)))
        case nodes.VariantPattern(path=path, arguments=arguments):
            if len(path) == 1 and not arguments and body.names.lookup(path[0]) is not None:
                return PatternShape(exact=True)
            inner = [(str(n), argument) for n, argument in enumerate(arguments)]
            return _case_shape(body, path[-1], inner, operand, pattern)
        case nodes.StructPattern(path=path, fields=fields):
            return _case_shape(body, path[-1], [(f.name, f.pattern) for f in fields], operand, pattern)
    return ANYTHING


def _case_shape(
    body: Body, name: str, patterns: list[tuple[str, nodes.Pattern]], operand: Operand, pattern: nodes.Pattern
) -> PatternShape:
    parts = case_parts(name, operand, pattern, [part for part, _ in patterns])
    shapes = {part: _shape(body, inner, parts[part]) for part, inner in patterns}
    return PatternShape("" if isinstance(operand, Record) else name, tuple(shapes.get(part, ANYTHING) for part in parts))


def _require_cover(body: Body, node: nodes.Match, subject: Operand) -> None:
    rows: list[tuple[PatternShape, ...]] = [(_shape(body, arm.pattern, subject),) for arm in node.arms if arm.guard is None]
    missing = uncovered(_cases_of, rows, (_Subject(subject),))
    if missing is not None:
        message = "this `match` doesn't cover " + ("all values" if missing[0] == "_" else f"`{missing[0]}`")
        raise fault("0206", message, node.subject.span, hint=f"add an arm `{missing[0]} => ...`")


# ---- where patterns stand ----------------------------------------------------------------------------------------------------


@lowers(nodes.LetCondition)
def _let_condition(body: Body, node: nodes.LetCondition, into: DType | None) -> Operand:
    """Whether a value fits; the names are entered into the scope around."""
    operand = value(body, node.value)
    pattern, condition = node.pattern, None
    if isinstance(pattern, nodes.BindingPattern | nodes.WildcardPattern | nodes.TuplePattern):
        if not (isinstance(operand, Choice) and operand.name == "Option"):
            message = f"`if let` takes out a value that may be none, and this is {kind_of(operand)}"
            raise fault("0203", message, node.value.span, hint="a plain `let` is enough")
        condition = Truth(compare(body, "==", operand.tag, tag(1)))
        operand = operand.parts.get("Some", {}).get("0", Nothing())
    condition = all_of(body, [condition, fits(body, pattern, operand)])
    bind(body, pattern, operand)
    return as_number_of(body, condition) if condition is not None else literal(True)


def defaulted(body: Body, node: nodes.Binary, into: DType | None) -> Operand:
    """`e ?? d`: the value in an optional or a result, or the default, which is computed only then."""
    operand = value(body, node.left)
    if not (isinstance(operand, Choice) and operand.name in ("Option", "Result")):
        message = f"`??` gives a default for a value that may be none, and this is {kind_of(operand)}"
        raise fault("0203", message, node.left.span, hint="leave the default out")
    case = "Some" if operand.name == "Option" else "Ok"
    pattern = nodes.VariantPattern(path=(case,), arguments=(nodes.WildcardPattern(span=node.left.span),), span=node.left.span)
    condition = fits(body, pattern, operand)
    held = case_parts(case, operand, pattern, ["0"])["0"]
    if condition is None:
        return held
    return chosen(body, condition, lambda: held, lambda: as_value(body, evaluate(body, node.right, into), node.right), node)


def arms(body: Body, node: nodes.Match, choose: "Choose") -> Operand:
    """The value of the first arm that fits; `choose` makes the branches."""
    subject = value(body, node.subject)
    _require_cover(body, node, subject)
    return _arms(body, node, subject, 0, choose)


Choose = Callable[[Truth | None, nodes.Arm, Operand, "Callable[[], Operand] | None"], Operand]
"""`(condition, arm, subject, others)`: the arm where the condition holds, the others where it doesn't."""


def _arms(body: Body, node: nodes.Match, subject: Operand, position: int, choose: Choose) -> Operand:
    arm = node.arms[position]
    last = position + 1 == len(node.arms)
    condition = fits(body, arm.pattern, subject)
    if arm.guard is not None:
        guard = arm.guard

        def guarded() -> Truth:
            with body.names.scope():
                bind(body, arm.pattern, subject)
                return as_truth(body, number(body, guard), guard)

        condition = guarded() if condition is None else both(body, "and", condition, guarded)
    if last:
        condition = None  # the arms cover every value
    return choose(condition, arm, subject, None if condition is None else lambda: _arms(body, node, subject, position + 1, choose))


@lowers(nodes.Match)
def _match(body: Body, node: nodes.Match, into: DType | None) -> Operand:
    """`match` as a value."""
    return match_of(body, node, lambda arm: as_value(body, evaluate(body, arm.body, into), arm.body))


def match_of(body: Body, node: nodes.Match, value_of_arm: Callable[[nodes.Arm], Operand]) -> Operand:
    def choose(condition: Truth | None, arm: nodes.Arm, subject: Operand, others: Callable[[], Operand] | None) -> Operand:
        def inside() -> Operand:
            with body.names.scope():
                bind(body, arm.pattern, subject)
                return value_of_arm(arm)

        return inside() if condition is None or others is None else chosen(body, condition, inside, others, node)

    return arms(body, node, choose)


def match_statement(body: Body, node: nodes.Match, run: Callable[[nodes.Expression], None]) -> None:
    """`match` for the effects of its arms, which `run` runs."""

    def choose(condition: Truth | None, arm: nodes.Arm, subject: Operand, others: Callable[[], Operand] | None) -> Operand:
        def inside() -> None:
            with body.names.scope():
                bind(body, arm.pattern, subject)
                run(arm.body)

        if condition is None or others is None:
            inside()
            return Nothing()
        construct = body.construct()
        op = HirIf(condition=condition.value, otherwise=Region())
        depth = len(body.here.ranges)
        assert op.otherwise is not None
        for branch, (region, assumed, part) in enumerate(((op.then, condition.yes, inside), (op.otherwise, condition.no, others))):
            with body.at(body.build.child(region)), body.here.branch(construct, branch, assumed):
                part()
            del body.here.ranges[depth:]
        body.build.emit(op)
        return Nothing()

    arms(body, node, choose)
