"""`match` and `if let`: each pattern becomes tests, in the order of its parts, and the names that it binds; an arm's guard comes after
both. Arms are tried one after the other."""

import ast

from compiler.backends.host.calls import Calls
from compiler.backends.host.destination import Destination
from compiler.backends.host.emit import load, not_supported
from compiler.backends.host.naming import PythonVariable
from compiler.backends.host.records import tag_test
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import (
    UNKNOWN,
    EnumType,
    ErrorType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    StructType,
    TupleType,
    Type,
    UnknownType,
)
from runtime.records import frozen
from runtime.values import CaseValue


@frozen
class PatternMatch:
    """What a pattern does: `tests` that all hold of what it takes, and the values and types of the names that it binds."""

    tests: list[ast.expr]
    names: dict[str, tuple[ast.expr, Type]]


class Patterns(Calls):
    """One method a kind of pattern."""

    def into(self, node: nodes.Expression, destination: Destination) -> None:
        raise AssertionError("defined by the generator")

    def block_into(self, node: nodes.Block, destination: Destination) -> None:
        raise AssertionError("defined by the generator")

    def bind_name(self, name: str, value: ast.expr, type_: Type, mutable: bool, span: Span) -> None:
        raise AssertionError("defined by the generator")

    # ---- match -----------------------------------------------------------------------------------------------------

    def match_into(self, node: nodes.Match, destination: Destination) -> None:
        """The arms nest, each in what runs when those before it don't take the value; a match may have many."""
        subject = self.keep(self.expression(node.subject), node.subject.span)
        body, takes_all = self.body, False
        for arm in node.arms:
            missed: str | None = None
            with self.block(), self.collected() as inside:
                taken = self.pattern(arm.pattern, subject, node.subject.type)
                self._bind(taken, arm.pattern.span)
                if arm.guard is None:
                    self.into(arm.body, destination)
                else:
                    missed = self._guarded(arm, arm.guard, destination)
            if missed is not None:
                self.assign(missed, ast.Constant(True), arm.span)
            takes_all = missed is None and not taken.tests
            rest: list[ast.stmt] = []
            if not taken.tests:
                self.body.extend(inside)
            else:
                orelse = rest if missed is None else []
                self.write(ast.If(_all_of(taken.tests), inside or [self.at(ast.Pass(), arm.span)], orelse), arm.span)
            if takes_all:
                break
            if missed is not None:
                self.write(ast.If(load(missed), rest, []), arm.span)
            self.body = rest
        if not takes_all:
            self.write(ast.Expr(self.help("unmatched", node.subject.span, subject)), node.subject.span)
        self.body = body

    def _guarded(self, arm: nodes.Arm, guard: nodes.Expression, destination: Destination) -> str:
        """Writes the guard and the arm behind it; gives the variable that stays true when the guard doesn't hold."""
        missed = self.frame.temporary()
        test = self.condition(guard)
        with self.collected() as inside:
            self.assign(missed, ast.Constant(False), arm.span)
            self.into(arm.body, destination)
        self.write(ast.If(test, inside, []), guard.span)
        return missed

    def let_condition(self, condition: nodes.LetCondition, then: nodes.Block, destination: Destination) -> tuple[ast.expr, list[ast.stmt]]:
        """The test of `if let p = e { }`, and the block with the names bound. A plain pattern takes the value out of an optional."""
        subject = self.keep(self.expression(condition.value), condition.value.span)
        have = condition.value.type
        tests: list[ast.expr] = []
        if isinstance(condition.pattern, nodes.BindingPattern | nodes.WildcardPattern | nodes.TuplePattern):
            tests.append(self.test_of_value(subject, have, "`if let`", condition.value.span))
            subject = _part(subject, 0)
            have = have.value if isinstance(have, OptionType) else UNKNOWN
        with self.block(), self.collected() as inside:
            taken = self.pattern(condition.pattern, subject, have)
            self._bind(taken, condition.pattern.span)
            self.block_into(then, destination)
        return _all_of([*tests, *taken.tests]) if tests or taken.tests else ast.Constant(True), inside

    def bind_parts(self, pattern: nodes.Pattern, value: ast.expr, type_: Type, mutable: bool) -> None:
        """The pattern of a `let`: every value of its type fits; one whose type isn't known is looked at."""
        taken = self.pattern(pattern, value, type_)
        if taken.tests:
            misfit = ast.Expr(self.help("misfit", pattern.span, value))
            self.write(ast.If(ast.UnaryOp(ast.Not(), _all_of(taken.tests)), [self.at(misfit, pattern.span)], []), pattern.span)
        self._bind(taken, pattern.span, mutable)

    def _bind(self, taken: PatternMatch, span: Span, mutable: bool = False) -> None:
        for name, (value, type_) in taken.names.items():
            type_ = UNKNOWN if isinstance(type_, ErrorType) else strong(type_)
            own = self.help("copied", span, value) if self.layouts.holds_arrays(type_) else value
            self.bind_name(name, own, type_, mutable, span)

    # ---- patterns --------------------------------------------------------------------------------------------------

    def pattern(self, pattern: nodes.Pattern, value: ast.expr, type_: Type) -> PatternMatch:
        """`value` can be read any number of times."""
        match pattern:
            case nodes.WildcardPattern():
                return PatternMatch([], {})
            case nodes.BindingPattern(name=name):
                return PatternMatch([], {name: (value, type_)})
            case nodes.AlternativePattern(alternatives=alternatives):
                return _any_of([self.pattern(alternative, value, type_) for alternative in alternatives])
            case nodes.LiteralPattern(value=literal):
                return PatternMatch(self._literal(literal, value, type_), {})
            case nodes.TuplePattern(elements=elements):
                return self._tuple(pattern, elements, value, type_)
            case nodes.VariantPattern(path=path, arguments=arguments):
                constant = self.scope.find(path[0]) if len(path) == 1 and not arguments else None
                if isinstance(constant, PythonVariable):
                    return PatternMatch([self._equal(nodes.Name(name=path[0], type=constant.type, span=pattern.span), value, type_)], {})
                return self._case_pattern(pattern, path, [(str(n), p) for n, p in enumerate(arguments)], value, type_)
            case nodes.StructPattern(path=path, fields=fields):
                return self._case_pattern(pattern, path, [(f.name, f.pattern) for f in fields], value, type_)
        raise not_supported("this pattern", pattern.span, "take the parts by name")

    def _parts(self, parts: list[tuple[nodes.Pattern, int, Type]], tests: list[ast.expr], value: ast.expr) -> PatternMatch:
        names: dict[str, tuple[ast.expr, Type]] = {}
        for inner, place, type_ in parts:
            taken = self.pattern(inner, _part(value, place), type_)
            tests += taken.tests
            names |= taken.names
        return PatternMatch(tests, names)

    def _tuple(self, pattern: nodes.Pattern, elements: tuple[nodes.Pattern, ...], value: ast.expr, type_: Type) -> PatternMatch:
        known = isinstance(type_, TupleType) and len(type_.elements) == len(elements)
        types = type_.elements if isinstance(type_, TupleType) and known else (UNKNOWN,) * len(elements)
        tests = [] if known else [self.help("is tuple", pattern.span, value, ast.Constant(len(elements)))]
        return self._parts([(inner, place, types[place]) for place, inner in enumerate(elements)], tests, value)

    def _case_pattern(
        self, pattern: nodes.Pattern, path: tuple[str, ...], parts: list[tuple[str, nodes.Pattern]], value: ast.expr, type_: Type
    ) -> PatternMatch:
        """A case or a struct; one of all that have the name where the type isn't known."""
        found = (self.layouts.cases(type_) or {}).get(path[-1])
        candidates = (found,) if found is not None else self.layouts.named(path[-1], path[-2] if len(path) > 1 else None)
        if not candidates:
            raise not_supported(f"the pattern `{'::'.join(path)}`", pattern.span, "write a case of an enum")
        case = candidates[0]
        tests: list[ast.expr] = []
        if not isinstance(type_, StructType | EnumType | OptionType | ResultType):
            tests = [self.help("is one of", pattern.span, value, *(self.constant(candidate.values) for candidate in candidates))]
        elif issubclass(case.values, CaseValue):
            tests = [tag_test(value, case.values.__tag__)]
        places = {name: place for place, (name, _) in enumerate(case.parts)}
        known = len(candidates) == 1
        inner = [(p, places[name], case.parts[places[name]][1] if known else UNKNOWN) for name, p in parts if name in places]
        return self._parts(inner, tests, value)

    def _literal(self, literal: nodes.Expression, value: ast.expr, type_: Type) -> list[ast.expr]:
        if not isinstance(literal, nodes.Range):
            return [self._equal(literal, value, type_)]
        upper = "<=" if literal.inclusive else "<"
        if isinstance(type_, Scalar):
            low, high = self.converted(literal.low, type_), self.converted(literal.high, type_)
            return [
                self.operate(">=", value, low, type_, type_, False, False, literal.span),
                self.operate(upper, value, high, type_, type_, False, False, literal.span),
            ]
        low, high = self.expression(literal.low), self.expression(literal.high)
        return [self.help("lies in", literal.span, value, low, high, ast.Constant(literal.inclusive))]

    def _equal(self, literal: nodes.Expression, value: ast.expr, type_: Type) -> ast.expr:
        if isinstance(type_, Scalar | StringType):
            return self.operate("==", value, self.converted(literal, type_), type_, type_, False, False, literal.span)
        return self.help("matches", literal.span, value, self.expression(literal))


def _part(value: ast.expr, place: int) -> ast.expr:
    return ast.Subscript(value, ast.Constant(place), ast.Load())


def _all_of(tests: list[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)


def _any_of(alternatives: list[PatternMatch]) -> PatternMatch:
    """The first alternative whose tests hold binds the names."""
    names = dict(alternatives[-1].names)
    for one in reversed(alternatives[:-1]):
        for name, (value, type_) in one.names.items():
            instead, known = names.get(name, (value, type_))
            joined = type_ if type_ == known or isinstance(known, UnknownType) else UNKNOWN
            names[name] = (ast.IfExp(_all_of(one.tests), value, instead) if one.tests else value, joined)
    if any(not one.tests for one in alternatives):
        return PatternMatch([], names)
    return PatternMatch([ast.BoolOp(ast.Or(), [_all_of(one.tests) for one in alternatives])], names)
