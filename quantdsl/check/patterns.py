"""Patterns: what they bind, and whether a `match` covers every value."""

from collections.abc import Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import BOOL, ERROR, OptionType, ResultType, TupleType, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import require, shown
from quantdsl.check.resolve import resolve
from quantdsl.check.scope import CheckedVariable, CheckScope
from runtime.records import frozen


def cases_of(checker: QuantChecker, subject: Type) -> dict[str, tuple[tuple[str, Type], ...]] | None:
    """The cases of a type with their parts (name, type); None where a type has no cases to list. The one case of a tuple is ""."""
    match subject:
        case qt.EnumType(name=name):
            return {variant.name: _parts(checker, variant) for variant in checker.world.enums[name].variants}
        case OptionType(value=value):
            return {"some": (("0", value),), "none": ()}
        case ResultType(value=value, error=error):
            return {"Ok": (("0", value),), "Err": (("0", error),)}
        case TupleType(elements=elements):
            return {"": tuple((str(number), element) for number, element in enumerate(elements))}
        case qt.StructType():
            return {"": fields_of(checker, subject)}
    if subject == BOOL:
        return {"true": (), "false": ()}
    return None


def _parts(checker: QuantChecker, variant: nodes.Variant) -> tuple[tuple[str, Type], ...]:
    scope = checker.top
    numbered = tuple((str(number), resolve(checker, element, scope)) for number, element in enumerate(variant.elements))
    return numbered or tuple((f.name, resolve(checker, f.annotation, scope)) for f in variant.fields if f.annotation is not None)


def fields_of(checker: QuantChecker, struct: qt.StructType) -> tuple[tuple[str, Type], ...]:
    """A struct's fields with their types, its type parameters filled in."""
    declared = checker.world.structs[struct.name]
    bound = {parameter.name: found for parameter, found in zip(declared.type_parameters, struct.arguments, strict=True)}
    return tuple((f.name, resolve(checker, f.annotation, checker.top, bound)) for f in declared.fields if f.annotation is not None)


@frozen
class PatternShape:
    """A pattern without names: a case with the shapes of its parts. `case` None: anything, or one value of a type without cases
    (`exact`), which covers nothing whole; or one of several (`either`)."""

    case: str | None = None
    parts: "tuple[PatternShape, ...]" = ()
    exact: bool = False
    either: "tuple[PatternShape, ...]" = ()


ANYTHING = PatternShape()


def bind(checker: QuantChecker, pattern: nodes.Pattern, subject: Type, scope: CheckScope, kind: str = "let") -> PatternShape:
    """Enters a pattern's names into the scope and gives its shape."""
    match pattern:
        case nodes.WildcardPattern():
            return ANYTHING
        case nodes.BindingPattern(name=name):
            scope.add(CheckedVariable(name, subject, kind, pattern.span))
            return ANYTHING
        case nodes.AlternativePattern(alternatives=alternatives):
            return PatternShape(either=_either(checker, alternatives, subject, scope, kind))
        case nodes.LiteralPattern(value=value):
            return _literal(checker, value, subject, scope)
        case nodes.TuplePattern(elements=elements):
            return _tuple(checker, pattern, elements, subject, scope, kind)
        case nodes.VariantPattern(path=path, arguments=arguments):
            if len(path) == 1 and not arguments and (variable := scope.find(path[0])) is not None and variable.kind in ("const", "param"):
                require(checker, variable.type, subject, pattern.span, "what is matched")
                return PatternShape(exact=True)
            named = [(str(number), argument) for number, argument in enumerate(arguments)]
            return _case(checker, pattern, path, named, subject, scope, kind, whole=True)
        case nodes.StructPattern(path=path, fields=fields):
            return _case(checker, pattern, path, [(f.name, f.pattern) for f in fields], subject, scope, kind, whole=False)
    raise AssertionError(f"a pattern of class {type(pattern).__name__}")


def _either(
    checker: QuantChecker, alternatives: tuple[nodes.Pattern, ...], subject: Type, scope: CheckScope, kind: str
) -> tuple[PatternShape, ...]:
    """All alternatives bind the same names, to values of one type."""
    scopes = [CheckScope(scope) for _ in alternatives]
    shapes = tuple(bind(checker, one, subject, own, kind) for one, own in zip(alternatives, scopes, strict=True))
    known = {name: variable for own in scopes for name, variable in own.variables.items()}
    for one, own in zip(alternatives, scopes, strict=True):
        for name, variable in known.items():
            mine = own.find(name) if name in own.variables else None
            if mine is None:
                hint = "all alternatives bind the same names; `_` stands for what isn't used"
                checker.report("0201", f"`{name}` has no value in this alternative", one.span, hint=hint)
            elif mine.type != variable.type and ERROR not in (mine.type, variable.type):
                message = f"`{name}` is a `{shown(mine.type)}` here, and a `{shown(variable.type)}` in another alternative"
                checker.report("0203", message, mine.span, hint="write an arm for each")
    for variable in known.values():
        scope.add(variable)
    return shapes


def _literal(checker: QuantChecker, value: nodes.Expression, subject: Type, scope: CheckScope) -> PatternShape:
    ends = (value.low, value.high) if isinstance(value, nodes.Range) else (value,)
    for end in ends:
        require(checker, checker.infer(end, scope, subject), subject, end.span, "what is matched")
    checker.types[id(value)] = subject
    return PatternShape(str(value.value).lower()) if isinstance(value, nodes.BoolLiteral) else PatternShape(exact=True)


def _tuple(
    checker: QuantChecker, pattern: nodes.Pattern, elements: Sequence[nodes.Pattern], subject: Type, scope: CheckScope, kind: str
) -> PatternShape:
    if subject == ERROR or not isinstance(subject, TupleType) or len(subject.elements) != len(elements):
        if subject != ERROR:
            message = f"this pattern has {len(elements)} parts, and what it takes apart is a `{shown(subject)}`"
            checker.report("0203", message, pattern.span)
        for element in elements:
            bind(checker, element, ERROR, scope, kind)
        return ANYTHING
    return PatternShape(
        "", tuple(bind(checker, element, part, scope, kind) for element, part in zip(elements, subject.elements, strict=True))
    )


def _case(
    checker: QuantChecker,
    pattern: nodes.Pattern,
    path: tuple[str, ...],
    parts: list[tuple[str, nodes.Pattern]],
    subject: Type,
    scope: CheckScope,
    kind: str,
    whole: bool,
) -> PatternShape:
    cases = cases_of(checker, subject)
    name = path[-1]
    if isinstance(subject, qt.StructType) and name == subject.name:
        name = ""
    if subject == ERROR or cases is None or name not in cases or (len(path) > 1 and str(subject) != path[-2]):
        if subject != ERROR:
            hint = did_you_mean(name, cases or ()) or (
                f"cases are {', '.join(f'`{case}`' for case in cases)}" if cases and "" not in cases else None
            )
            code = "0201" if cases else "0203"
            checker.report(code, f"`{'::'.join(path)}` is no case of `{shown(subject)}`", pattern.span, hint=hint)
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


# ---- exhaustiveness: what a row of patterns is uncovered by the rows above it (Maranget, "Warnings for pattern matching", 2007) ------


def uncovered(checker: QuantChecker, rows: list[tuple[PatternShape, ...]], subjects: tuple[Type, ...]) -> tuple[str, ...] | None:
    """An example of values, one a subject, that no row covers; None when the rows cover all."""
    if not subjects:
        return None if rows else ()
    first, rest = subjects[0], subjects[1:]
    rows = [(one, *row[1:]) for row in rows for one in _alternatives(row[0])]
    cases = cases_of(checker, first)
    present = {row[0].case for row in rows if row[0].case is not None}
    if cases is None or not present:
        below = uncovered(checker, [row[1:] for row in rows if row[0] == ANYTHING], rest)
        if below is None:
            return None
        missing = "_" if cases is None or "" in cases or not rows else next(iter(cases))
        return (_example(missing, cases[missing]) if cases and missing in cases else "_", *below)
    tried: list[tuple[object, object]] = []
    for case, parts in cases.items():
        within = _specialised(rows, case, len(parts))
        if (within, [part for _, part in parts]) in tried:
            continue  # Covered as another case was.
        tried.append((within, [part for _, part in parts]))
        below = uncovered(checker, within, (*(part for _, part in parts), *rest))
        if below is not None:
            return (_with_parts(case, parts, below[: len(parts)]), *below[len(parts) :])
    return None


def _alternatives(shape: PatternShape) -> list[PatternShape]:
    return [inner for one in shape.either for inner in _alternatives(one)] if shape.either else [shape]


def _specialised(rows: list[tuple[PatternShape, ...]], case: str, count: int) -> list[tuple[PatternShape, ...]]:
    found: list[tuple[PatternShape, ...]] = []
    for row in rows:
        if row[0].case == case:
            found.append((*row[0].parts, *row[1:]))
        elif row[0] == ANYTHING:
            found.append((*(ANYTHING,) * count, *row[1:]))
    return found


def _example(case: str, parts: tuple[tuple[str, Type], ...]) -> str:
    return _with_parts(case, parts, ("_",) * len(parts))


def _with_parts(case: str, parts: tuple[tuple[str, Type], ...], values: Sequence[str]) -> str:
    if not parts:
        return case
    if parts[0][0].isdigit():
        return f"{case}({', '.join(values)})"
    return f"{case} {{ {', '.join(f'{name}: {value}' for (name, _), value in zip(parts, values, strict=True))} }}".strip()
