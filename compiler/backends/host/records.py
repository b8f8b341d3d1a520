"""Structs, cases of enums, optionals, results and arrays `[T; N]`, written out; `??` and `?`. Their values are immutable tuples, except for
arrays: what reads one out of a variable or a part gets a copy."""

import ast
from collections.abc import Callable, Sequence

from compiler.backends.host.emit import load
from compiler.backends.host.layouts import CaseLayout
from compiler.backends.host.naming import PythonVariable
from compiler.backends.host.operators import inferred
from compiler.backends.host.record_values import PLAIN_DTYPES
from compiler.backends.host.streams import Streams
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import (
    UNIT,
    UNKNOWN,
    ArrayType,
    EnumType,
    ErrorType,
    NeverType,
    NoneType,
    OptionType,
    ResultType,
    Scalar,
    StructType,
    Type,
    UnknownType,
)
from runtime.values import NONE, Some

WRAPPERS = ("Some", "Ok", "Err")
"""The cases of optionals and results that hold a value."""


class Records(Streams):
    """One method a kind of node."""

    closure_names: frozenset[str] = frozenset()
    """Names that some lambda or inner function mentions."""

    def value_of_block(self, node: nodes.Expression, to: Type | None = None) -> ast.expr:
        raise AssertionError("defined by the generator")

    # ---- conversion ------------------------------------------------------------------------------------------------

    def converted(self, node: nodes.Expression, to: Type) -> ast.expr:
        """The expression as the declared type has it, with arrays of its own."""
        if isinstance(node, nodes.If | nodes.Block | nodes.Match | nodes.Try) and not isinstance(to, UnknownType | ErrorType):
            return self.value_of_block(node, to)
        match node, to:
            case _, OptionType(value=inner) if self._is_there(node):
                return self._wrapped(Some, [lambda: self.converted(node, inner)], node.span)
            case nodes.Call(function=nodes.Name(name=name)), OptionType() | ResultType() if self.is_wrapper(name):
                return self.wrapper(node, name, to)
            case nodes.ListLiteral(elements=elements), ArrayType(element=element):
                return self.help("array", node.span, self.list_of(elements, (element,) * len(elements), node.span), self.constant(element))
            case nodes.Repeat(), ArrayType(element=element):
                return self.repeat(node, element)
        value = super().converted(node, to)
        silent = isinstance(node.type, UnknownType | ErrorType)
        aliased = _is_place(node) and self.layouts.holds_arrays(node.type)
        return self.help("copied", node.span, value) if aliased or (silent and self.layouts.holds_arrays(to)) else value

    def _is_there(self, node: nodes.Expression) -> bool:
        """Whether the expression certainly gives a value that is no optional: where one is wanted, it is put into one."""
        return not isinstance(node.type, OptionType | NoneType | UnknownType | ErrorType | NeverType)

    def is_lent(self, node: nodes.Expression, to: Type) -> bool:
        """Whether a value with arrays can be given to a parameter of the type `to` as it is: nothing changes it before the function is
        over, which copies what it keeps or changes."""
        root = node
        while isinstance(root, nodes.Field):
            root = root.value
        variable = self.scope.find(root.name) if isinstance(root, nodes.Name) else None
        own = isinstance(variable, PythonVariable) and variable.frame is self.frame and not variable.is_global
        return own and root.name not in self.closure_names and self.layouts.holds_arrays(to) and strong(node.type) == strong(to)  # type: ignore[attr-defined]

    # ---- structs and cases -----------------------------------------------------------------------------------------

    def record(self, node: nodes.RecordLiteral) -> ast.expr:
        """`Point { x: 1.0, ..p }`: fields as they are written, then the base, then the defaults of what is missing."""
        case, defaults = self._written(node)
        places = {name: place for place, (name, _) in enumerate(case.parts)}
        types = dict(case.parts)
        given = [places[value.name] for value in node.fields]
        makers = [self.maker(value.value, types[value.name]) for value in node.fields]
        missing = [place for name, place in places.items() if place not in given]
        base = node.base
        if base is not None:
            makers.append(lambda: self.keep(self.converted(base, inferred(node.type)), base.span))
        else:
            makers += [self._default_of(defaults[case.parts[place][0]], case.parts[place][1]) for place in missing]
        values = self.in_order(makers, node.span)
        order = given if base is not None else [*given, *missing]
        if order != sorted(order):
            values = [self.keep(value, node.span) for value in values]
        parts = dict(zip(order, values, strict=False))
        if base is not None:
            parts |= {place: ast.Subscript(values[-1], ast.Constant(place), ast.Load()) for place in missing}
        return self._made(case.values, [parts[place] for place in range(len(places))], node.span)

    def _written(self, node: nodes.RecordLiteral) -> tuple[CaseLayout, dict[str, nodes.Expression]]:
        """The struct or case of a literal, and the defaults of its fields."""
        written = node.struct
        name = written.name if isinstance(written, nodes.Name) else written.segments[-1] if isinstance(written, nodes.Path) else ""
        found: CaseLayout | None = None
        defaults: dict[str, nodes.Expression] = {}
        if name in self.declared.structs:
            of = node.type if isinstance(node.type, StructType) else StructType(name)
            found = (self.layouts.cases(of) or {}).get(name)
            defaults = {f.name: f.default for f in self.declared.structs[name].fields if f.default is not None}
        elif name in self.declared.cases:
            found = self._case(name, node.type, written.segments[0] if isinstance(written, nodes.Path) else None)
        if found is None:
            raise ZyntaxError(Diagnostic("0201", f"there is no struct `{name}`", node.span))
        known = {part for part, _ in found.parts}
        unknown = next((value.name for value in node.fields if value.name not in known), None)
        missing = known - {value.name for value in node.fields} - set(defaults)
        if unknown is not None:
            raise ZyntaxError(Diagnostic("0202", f"`{name}` has no field `{unknown}`", node.span))
        if missing and node.base is None:
            raise ZyntaxError(Diagnostic("0204", f"`{name}` needs {', '.join(f'`{part}`' for part in sorted(missing))}", node.span))
        return found, defaults

    def _default_of(self, default: nodes.Expression, to: Type) -> Callable[[], ast.expr]:
        """A default is computed where it is needed, among the names of the program's top."""

        def make() -> ast.expr:
            scope = self.scope
            while self.scope.parent is not None:
                self.scope = self.scope.parent
            try:
                return self.converted(default, to)
            finally:
                self.scope = scope

        return make

    def _case(self, name: str, type_: Type, enum: str | None = None) -> CaseLayout:
        """A case of the enum that is written or that the checker took; of the first one that has it where neither says."""
        inside = type_.value if isinstance(type_, OptionType) else type_
        if enum is None:
            enum = inside.name if isinstance(inside, EnumType) else self.declared.cases[name][0][0].name
        known = inside if isinstance(inside, EnumType) and inside.name == enum else EnumType(enum)
        case = (self.layouts.cases(known) or {}).get(name)
        if case is None:
            raise ZyntaxError(Diagnostic("0201", f"`{enum}` has no case `{name}`"))
        return case

    def is_case(self, name: str) -> bool:
        """Whether a name that no variable, function or constant has is a case of an enum."""
        own = self.scope.find(name) is None and name not in self.library.functions and name not in self.library.constants
        return own and name in self.declared.cases

    def bare_case(self, node: nodes.Name) -> ast.expr | None:
        """`None`, or a case without values; None for other names."""
        if self.scope.find(node.name) is not None or node.name in self.library.functions or node.name in self.library.constants:
            return None
        if node.name == "None":
            return self.constant(NONE)
        if node.name not in self.declared.cases:
            return None
        return self._without_values(self._case(node.name, node.type), node.span)

    def narrowed(self, node: nodes.Name, value: ast.expr) -> ast.expr:
        """An optional variable that is known to have a value stands for that value where one is wanted."""
        variable = self.scope.find(node.name)
        optional = isinstance(variable, PythonVariable) and isinstance(variable.type, OptionType)
        return ast.Subscript(value, ast.Constant(0), ast.Load()) if optional and self._is_there(node) else value

    def case_of_path(self, node: nodes.Path) -> ast.expr | None:
        """`Shape::Empty`; None for other paths."""
        if len(node.segments) != 2 or node.segments[0] not in self.declared.enums:
            return None
        return self._without_values(self._case(node.segments[1], node.type, node.segments[0]), node.span)

    def _without_values(self, case: CaseLayout, span: Span) -> ast.expr:
        if case.parts:
            raise ZyntaxError(Diagnostic("0204", f"the case `{case.values.__record__.name}` has values", span))
        return self.constant(self.layouts.value(case))

    def called_case(self, node: nodes.Call, name: str, enum: str | None = None) -> ast.expr:
        """`Circle(2.0)`."""
        case = self._case(name, node.type, enum)
        if len(case.parts) != len(node.arguments):
            message = f"`{name}` has {len(case.parts)} parts, and {len(node.arguments)} are given"
            raise ZyntaxError(Diagnostic("0204", message, node.span))
        makers = [self.maker(a.value, type_) for a, (_, type_) in zip(node.arguments, case.parts, strict=True)]
        return self._wrapped(case.values, makers, node.span)

    def is_wrapper(self, name: str) -> bool:
        return name in WRAPPERS and self.scope.find(name) is None and name not in self.library.functions

    def wrapper(self, node: nodes.Call, name: str, to: Type) -> ast.expr:
        """`Some(v)`, `Ok(v)`, `Err(e)` as an optional or result of the type `to`."""
        case = (self.layouts.cases(to) or {}).get(name) or self.layouts.named(name)[0]
        if len(node.arguments) != 1:
            raise ZyntaxError(Diagnostic("0204", f"`{name}` takes one value", node.span))
        [(_, inner)] = case.parts
        return self._wrapped(case.values, [self.maker(node.arguments[0].value, inferred(inner))], node.span)

    def _wrapped(self, values: type, makers: Sequence[Callable[[], ast.expr]], span: Span) -> ast.expr:
        return self._made(values, self.in_order(makers, span), span)

    def _made(self, values: type, parts: list[ast.expr], span: Span) -> ast.expr:
        """A value of a class from its parts, which are evaluated in this order."""
        inside = ast.Tuple(list(parts), ast.Load())
        return self.made(ast.Call(self.constant(values), [inside], []), span, *parts)

    # ---- arrays ----------------------------------------------------------------------------------------------------

    def repeat(self, node: nodes.Repeat, element: Type | None = None) -> ast.expr:
        """`[e; n]`."""
        if element is None:
            element = inferred(node.type.element) if isinstance(node.type, ArrayType) else UNKNOWN
        value, count = self.in_order([self.maker(node.element, element), self.maker(node.count)], node.span)
        return self.help("filled", node.span, value, count, self.constant(element))

    def element(self, array: ArrayType, value: ast.expr, index: ast.expr, span: Span) -> ast.expr:
        """`a[i]`."""
        plain = isinstance(array.element, Scalar) and array.element.dtype in PLAIN_DTYPES
        return self.help("plain element" if plain else "element", span, value, index)

    # ---- `??` and `?` ----------------------------------------------------------------------------------------------

    def otherwise(self, node: nodes.Binary) -> ast.expr:
        """`e ?? d`: `d` is computed where there is no value."""
        have = node.left.type
        kept = self.keep(self.expression(node.left), node.left.span)
        whole = isinstance(have, OptionType) and isinstance(node.type, OptionType) and not isinstance(have.value, OptionType)
        value: ast.expr = kept if whole else ast.Subscript(kept, ast.Constant(0), ast.Load())
        to = inferred(node.type)
        with self.collected() as first:
            value = self.convert(value, have if whole else _inside(have), to, node.left.span)
        with self.collected() as second:
            default = self.converted(node.right, to)
        test = self.test_of_value(kept, have, "`??`", node.left.span)
        if not first and not second:
            return self.made(ast.IfExp(test, value, default), node.span, value, default)
        name = self.frame.temporary()
        first.append(self.at(ast.Assign([ast.Name(name, ast.Store())], value), node.left.span))
        second.append(self.at(ast.Assign([ast.Name(name, ast.Store())], default), node.right.span))
        self.write(ast.If(test, first, second), node.span)
        return load(name)

    def propagate(self, node: nodes.Propagate) -> ast.expr:
        """`e?`: the value, or out of the function with the none or the error."""
        have, result = node.value.type, self.frame.result
        if self.frame.is_top:
            raise ZyntaxError(Diagnostic("0203", "`?` stands outside of a function", node.span))
        kept = self.keep(self.expression(node.value), node.value.span)
        with self.collected() as leaving:
            left = ast.Constant(None) if result == UNIT else self.convert(kept, have if have == result else UNKNOWN, result, node.span)
            self.write(ast.Return(left), node.span)
        test = self.test_of_value(kept, have, "`?`", node.span)
        self.write(ast.If(ast.UnaryOp(ast.Not(), test), leaving, []), node.span)
        return ast.Subscript(kept, ast.Constant(0), ast.Load())

    def test_of_value(self, kept: ast.expr, have: Type, word: str, span: Span) -> ast.expr:
        """Whether an optional or result holds what is wanted."""
        if isinstance(have, OptionType | ResultType):
            return tag_test(kept, 1)
        return self.help("has value", span, kept, ast.Constant(word))


def tag_test(value: ast.expr, tag: int) -> ast.expr:
    return ast.Compare(ast.Attribute(value, "__tag__", ast.Load()), [ast.Eq()], [ast.Constant(tag)])


def _inside(have: Type) -> Type:
    return have.value if isinstance(have, OptionType | ResultType) else UNKNOWN


def _is_place(node: nodes.Expression) -> bool:
    """Whether the value may lie in a variable, or in what a method's receiver holds."""
    match node:
        case nodes.Call(function=function):
            return isinstance(function, nodes.Field)
        case nodes.Propagate():
            return True
        case nodes.Binary(operator=operator):
            return operator == "??"
    return isinstance(node, nodes.Name | nodes.Field | nodes.Index)
