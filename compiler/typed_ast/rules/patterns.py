"""Patterns: the names that they bind, and the shapes by which a `match` is known to cover every value."""

from collections.abc import Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.exhaustiveness import ANYTHING, PatternShape
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ERROR, UNKNOWN, ArrayType, ListType, Size, StructType, TensorType, TupleType, Type

_CONSTANTS = (VariableKind.CONSTANT, VariableKind.PROGRAM_PARAMETER)


def bind(checker: Checker, pattern: nodes.Pattern, subject: Type, scope: Scope, kind: VariableKind = VariableKind.LET) -> PatternShape:
    """Enters a pattern's names into the scope and gives its shape."""
    match pattern:
        case nodes.WildcardPattern():
            return ANYTHING
        case nodes.BindingPattern(name=name):
            scope.add(Variable(name, subject, kind, pattern.span, frame=checker.frame))
            return ANYTHING
        case nodes.AlternativePattern(alternatives=alternatives):
            return PatternShape(either=_either(checker, alternatives, subject, scope, kind))
        case nodes.LiteralPattern(value=value):
            return _literal(checker, value, subject, scope)
        case nodes.ListPattern(elements=elements):
            part = _element(checker, pattern, len(elements), subject)
            for element in elements:
                bind(checker, element, part, scope, kind)
            return ANYTHING
        case nodes.TuplePattern(elements=elements):
            return _tuple(checker, pattern, elements, subject, scope, kind)
        case nodes.VariantPattern(path=path, arguments=arguments):
            if len(path) == 1 and not arguments and (variable := scope.variable(path[0])) and variable.kind in _CONSTANTS:
                require(checker, variable.type, subject, pattern.span, "what is matched")
                return PatternShape(exact=True)
            named = [(str(number), argument) for number, argument in enumerate(arguments)]
            return _case(checker, pattern, path, named, subject, scope, kind, whole=True)
        case nodes.StructPattern(path=path, fields=fields):
            return _case(checker, pattern, path, [(f.name, f.pattern) for f in fields], subject, scope, kind, whole=False)
    raise AssertionError(f"a pattern of class {type(pattern).__name__}")


def _either(
    checker: Checker, alternatives: tuple[nodes.Pattern, ...], subject: Type, scope: Scope, kind: VariableKind
) -> tuple[PatternShape, ...]:
    """All alternatives bind the same names, to values of one type."""
    scopes = [Scope(scope) for _ in alternatives]
    shapes = tuple(bind(checker, one, subject, own, kind) for one, own in zip(alternatives, scopes, strict=True))
    known = {variable.name: variable for own in scopes for variable in own.all_own()}
    for one, own in zip(alternatives, scopes, strict=True):
        for name, variable in known.items():
            mine = own.own(name)
            if mine is None:
                hint = "all alternatives bind the same names; `_` stands for what isn't used"
                checker.report("0201", f"`{name}` has no value in this alternative", one.span, hint=hint)
            elif mine.type != variable.type and ERROR not in (mine.type, variable.type):
                message = f"`{name}` is a `{checker.show(mine.type)}` here, and a `{checker.show(variable.type)}` in another alternative"
                checker.report("0203", message, mine.span, hint="write an arm for each")
    for variable in known.values():
        scope.add(variable)
    return shapes


def _literal(checker: Checker, value: nodes.Expression, subject: Type, scope: Scope) -> PatternShape:
    ends = (value.low, value.high) if isinstance(value, nodes.Range) else (value,)
    for end in ends:
        require(checker, checker.infer(end, scope, subject), subject, end.span, "what is matched")
    checker.findings.types[id(value)] = subject
    return PatternShape(str(value.value).lower()) if isinstance(value, nodes.BoolLiteral) else PatternShape(exact=True)


def _tuple(
    checker: Checker, pattern: nodes.Pattern, elements: Sequence[nodes.Pattern], subject: Type, scope: Scope, kind: VariableKind
) -> PatternShape:
    if not isinstance(subject, TupleType) or len(subject.elements) != len(elements):
        part: Type = ERROR
        if isinstance(subject, ListType | TensorType) or (is_silent(subject) and subject != ERROR):
            part = UNKNOWN  # how many there are is seen when they are taken apart
        elif subject != ERROR:
            message = f"this pattern has {len(elements)} parts, and what it takes apart is a `{checker.show(subject)}`"
            checker.report("0203", message, pattern.span, hint="`_` skips a part")
        for element in elements:
            bind(checker, element, part, scope, kind)
        return ANYTHING
    return PatternShape(
        "", tuple(bind(checker, element, part, scope, kind) for element, part in zip(elements, subject.elements, strict=True))
    )


def _element(checker: Checker, pattern: nodes.ListPattern, count: int, subject: Type) -> Type:
    """The type of the elements that a list pattern takes apart. How many a list has is seen then."""
    match subject:
        case ArrayType(element=element, size=Size(value=size)) if size == count:
            return element
        case ListType(element=element):
            return element
    if is_silent(subject):
        return subject
    message = f"this pattern has {count} elements, and what it takes apart is a `{checker.show(subject)}`"
    return checker.report("0203", message, pattern.span, hint="`(a, b)` takes a tuple apart" if isinstance(subject, TupleType) else None)


def _is_named(checker: Checker, path: tuple[str, ...]) -> bool:
    """Whether something has the name that a pattern gives for a case."""
    wrappers = (checker.meaning.some, checker.meaning.none, "Ok", "Err")
    return path[-1] in wrappers or path[-1] in checker.declarations.cases or path[-1] in checker.declarations.structs


def _case(
    checker: Checker,
    pattern: nodes.Pattern,
    path: tuple[str, ...],
    parts: list[tuple[str, nodes.Pattern]],
    subject: Type,
    scope: Scope,
    kind: VariableKind,
    whole: bool,
) -> PatternShape:
    if subject == UNKNOWN and (parts or _is_named(checker, path)):
        for _, inner in parts:
            bind(checker, inner, UNKNOWN, scope, kind)
        return PatternShape(exact=True)
    cases = cases_of(checker, subject)
    name = path[-1]
    if isinstance(subject, StructType) and name == subject.name:
        name = ""
    if subject == ERROR or cases is None or name not in cases or (len(path) > 1 and getattr(subject, "name", str(subject)) != path[-2]):
        if subject != ERROR:
            hint = did_you_mean(name, cases or ()) or (
                f"cases are {', '.join(f'`{case}`' for case in cases)}" if cases and "" not in cases else None
            )
            unknown = len(path) == 1 and not parts
            if unknown and not cases:
                hint = "a name with a capital is a case or a constant; one with a small letter is bound"
            code = "0201" if cases or unknown else "0203"
            checker.report(code, f"`{'::'.join(path)}` is no case of `{checker.show(subject)}`", pattern.span, hint=hint)
        for _, inner in parts:
            bind(checker, inner, ERROR, scope, kind)
        return ANYTHING
    fields = dict(cases[name])
    shown_case = name or str(subject)
    if whole and len(parts) != len(fields):
        checker.report("0204", f"`{shown_case}` has {len(fields)} parts, and the pattern {len(parts)}", pattern.span)
    shapes: dict[str, PatternShape] = {}
    for part, inner in parts:
        if part not in fields:
            if not whole:
                checker.report("0202", f"`{shown_case}` has no field `{part}`", inner.span, hint=did_you_mean(part, fields))
            bind(checker, inner, ERROR, scope, kind)
            continue
        shapes[part] = bind(checker, inner, fields[part], scope, kind)
    return PatternShape(name, tuple(shapes.get(field, ANYTHING) for field in fields))
