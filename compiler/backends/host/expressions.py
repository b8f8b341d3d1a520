"""Expressions to Python expressions. What is a statement in Python (blocks, `if` with statements, comprehensions, lambdas) is
written before, into the statements of the moment."""

import ast
from collections.abc import Callable
from typing import NoReturn

from compiler.backends.host import direct
from compiler.backends.host.emit import load, not_supported
from compiler.backends.host.intervals import loop, marked, within
from compiler.backends.host.naming import (
    MARK,
    DeclaredFunction,
    ImportedModule,
    LibraryModule,
    LibraryName,
    ModuleMember,
    PythonVariable,
)
from compiler.backends.host.operators import inferred
from compiler.backends.host.records import Records
from compiler.backends.host.untouched import leaves_maps
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel_words import is_kernel_word
from compiler.typed_ast.library import LibraryFunction
from compiler.typed_ast.types import (
    I64,
    STRING,
    UNKNOWN,
    ArrayType,
    DictType,
    DType,
    ListType,
    RangeType,
    Scalar,
    SetType,
    StringType,
    StructType,
    TupleType,
    Type,
)

_LATER = {
    nodes.UnitNumber: ("a number with a unit", "write the plain number"),
    nodes.OperatorValue: ("an operator as a value", "write a lambda: `def(a, b): a + b`"),
}


class Expressions(Records):
    """One method a kind of node that needs more than a line."""

    def lambda_(self, node: nodes.Lambda) -> ast.expr:
        raise AssertionError("defined by the generator")

    def compute(self, node: nodes.Compute) -> ast.expr:
        raise AssertionError("defined by the generator")

    def call(self, node: nodes.Call) -> ast.expr:
        raise AssertionError("defined by the generator")

    def expression(self, node: nodes.Expression) -> ast.expr:
        """An expression to be evaluated exactly once, after the statements written so far and in the order of its parts."""
        made = self._expression(node)
        known = isinstance(node, nodes.Name | nodes.Index | nodes.Call | nodes.If | nodes.Conditional) and direct.is_int(node.type)
        return within(made, self.range_of(node)) if known else made

    def _expression(self, node: nodes.Expression) -> ast.expr:
        match node:
            case nodes.IntLiteral() | nodes.FloatLiteral():
                return self.number(node)
            case nodes.BoolLiteral(value=value):
                return ast.Constant(value)
            case nodes.StringLiteral(value=text):
                return ast.Constant(text)
            case nodes.FString():
                return self.f_string(node)
            case nodes.Name(name=name):
                return self.bare_case(node) or self.narrowed(node, self.name(name, node.span))
            case nodes.Path():
                return self.path(node)
            case nodes.RecordLiteral():
                return self.record(node)
            case nodes.Repeat():
                return self.repeat(node)
            case nodes.Propagate():
                return self.propagate(node)
            case nodes.LetCondition():
                raise ZyntaxError(Diagnostic("0901", "`let` as a condition stands outside of an `if`", node.span))
            case nodes.Binary():
                return self.binary(node)
            case nodes.Unary():
                return self.unary(node)
            case nodes.Await():
                return self.await_(node)
            case nodes.Stream():
                return self.stream(node)
            case nodes.Call():
                return self.call(node)
            case nodes.Index():
                return self.index(node)
            case nodes.Field():
                return self.field(node)
            case nodes.TupleLiteral(elements=elements):
                if not elements:
                    return ast.Constant(None)
                types = node.type.elements if isinstance(node.type, TupleType) else (UNKNOWN,) * len(elements)
                return self.tuple_of(elements, tuple(map(inferred, types)), node.span)
            case nodes.ListLiteral() if isinstance(node.type, ArrayType):
                return self.converted(node, node.type)
            case nodes.ListLiteral(elements=elements):
                element = inferred(node.type.element) if isinstance(node.type, ListType) else UNKNOWN
                return self.list_of(elements, (element,) * len(elements), node.span)
            case nodes.DictLiteral():
                return self.map_of(node)
            case nodes.Range():
                return self.range_(node)
            case nodes.Cast(value=value, target=target):
                return self.cast(node, value, self.resolve(target))
            case nodes.Conditional():
                return self.conditional(node)
            case nodes.Lambda():
                return self.lambda_(node)
            case nodes.Comprehension():
                return self.comprehension(node)
            case nodes.Compute():
                return self.compute(node)
            case nodes.If() | nodes.Block() | nodes.Match() | nodes.Try():
                return self.value_of_block(node)
            case nodes.LaterExpression(feature=feature):
                raise not_supported(feature, node.span, "see the list of what this version runs")
        later = _LATER.get(type(node))
        if later is not None:
            raise not_supported(later[0], node.span, later[1])
        raise ZyntaxError(Diagnostic("0901", f"tier 0 does not know the node {type(node).__name__}", node.span))

    # ---- names ---------------------------------------------------------------------------------------------------

    def name(self, name: str, span: Span) -> ast.expr:
        match self.scope.find(name):
            case PythonVariable() as variable:
                return self.variable(variable, span)
            case DeclaredFunction(python=python) as function:
                self.note_use(function)
                return self.at(load(python), span)
            case ModuleMember() as member:
                return self.member(member, span)
            case LibraryName(function=function):
                return self.library_value(function)
            case ImportedModule() | LibraryModule():
                raise ZyntaxError(Diagnostic("0203", f"`{name}` is a module, not a value", span, hint=f"name a part of it: `{name}.f`"))
        if name in self.library.constants:
            return self.constant(self.library.constants[name][1])
        if name in self.library.functions:
            return self.library_value(self.library.functions[name])
        if is_kernel_word(name):
            return self.constant(_only_in_kernels(name, span))
        raise ZyntaxError(Diagnostic("0201", f"there is no `{name}` here", span))

    def variable(self, variable: PythonVariable, span: Span) -> ast.expr:
        """A read. A variable of an enclosing function's loop is noted: the closure has to bind this iteration's."""
        self.note_use(variable)
        value = self.at(load(variable.python), span)
        if variable.waits:
            return ast.Call(load(f"{MARK}settled"), [value], [])
        if variable.interval is not None:
            return marked(value, variable.interval)
        return ast.Subscript(value, ast.Constant(0), ast.Load()) if variable.boxed else value

    def note_use(self, binding: PythonVariable | DeclaredFunction) -> None:
        frame = self.frame
        while frame is not binding.frame and frame.parent is not None:
            if binding.loop > 0 and not binding.is_global:
                frame.captured[binding.python] = binding
            frame = frame.parent

    def member(self, member: ModuleMember, span: Span) -> ast.expr:
        return self.at(ast.Subscript(load(member.module.python), ast.Constant(member.key), ast.Load()), span)

    def library_value(self, function: LibraryFunction) -> ast.expr:
        """A library function as a value: a callable that binds its arguments."""
        from compiler.backends.host.support import call_library

        name = f"{MARK}as value·{function.name}"
        self.constants.setdefault(name, lambda *values, **named: call_library(function, values, named))
        return load(name)

    def path(self, node: nodes.Path) -> ast.expr:
        member = self.module_member(node.segments)
        if member is not None:
            return self.member(member, node.span)
        full = "::".join(node.segments)
        if full in self.library.functions:
            return self.library_value(self.library.functions[full])
        if full in self.library.constants:
            return self.constant(self.library.constants[full][1])
        if len(node.segments) == 1:
            return self.name(node.segments[0], node.span)
        case = self.case_of_path(node)
        if case is not None:
            return case
        raise ZyntaxError(Diagnostic("0201", f"there is no `{'::'.join(node.segments)}`", node.span))

    def module_member(self, segments: tuple[str, ...]) -> ModuleMember | None:
        if len(segments) == 2:
            module = self.scope.find(segments[0])
            if isinstance(module, ImportedModule) and segments[1] in module.names:
                return ModuleMember(segments[1], module)
        return None

    def library_member(self, value: nodes.Expression, name: str) -> LibraryFunction | None:
        """`tensor.zeros`, where `tensor` is a module of the library."""
        if not isinstance(value, nodes.Name):
            return None
        bound = self.scope.find(value.name)
        if isinstance(bound, LibraryModule):
            module = bound.name
        elif bound is None and value.name in self.library.modules:
            module = value.name
        else:
            return None
        functions = self.library.functions
        return functions.get(f"{module}::{name}") or functions.get(name)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def field(self, node: nodes.Field) -> ast.expr:
        if isinstance(node.value, nodes.Name):
            module = self.scope.find(node.value.name)
            if isinstance(module, ImportedModule):
                if node.name not in module.names:
                    raise ZyntaxError(Diagnostic("0202", f"module `{module.name}` has no `{node.name}`", node.span))
                return self.member(ModuleMember(node.name, module), node.span)
        entry = self.library_member(node.value, node.name)
        if entry is not None:
            return self.library_value(entry)
        return self.field_of(node, self.expression(node.value))

    def field_of(self, node: nodes.Field, value: ast.expr) -> ast.expr:
        """`value.name`."""
        of = node.value.type
        if isinstance(of, ArrayType) and node.name == "len":
            return self.made(ast.Call(load(f"{MARK}len!"), [value], []), node.span, value)
        if isinstance(of, StructType) or (isinstance(of, TupleType) and node.name.isdecimal()):
            return self.made(ast.Subscript(value, ast.Constant(self.place_of_field(node)), ast.Load()), node.span, value)
        return self.help("field", node.span, value, ast.Constant(node.name))

    def place_of_field(self, node: nodes.Field) -> int:
        """Where a field lies in its struct or tuple."""
        if not isinstance(node.value.type, StructType):
            return int(node.name)
        return [name for name, _ in self.layouts.fields(node.value.type)].index(node.name)

    def index(self, node: nodes.Index) -> ast.expr:
        parts = [lambda: self.expression(node.value), *[self._index_maker(i) for i in node.indices]]
        if isinstance(node.value.type, ArrayType) and len(node.indices) == 1:
            value, index = self.in_order(parts, node.span)
            return self.element(node.value.type, value, index, node.span)
        if len(node.indices) == 1 and direct.looks_up(node.value.type, node.indices[0].type):
            value, index = self.in_order(parts, node.span)
            return direct.element(self, value, index, node.span)
        return self.help("get", node.span, *self.in_order(parts, node.span))

    def _index_maker(self, node: nodes.Expression) -> Callable[[], ast.expr]:
        return lambda: self.index_part(node)

    def index_part(self, node: nodes.Expression) -> ast.expr:
        """One index: an int, a slice, `...`."""
        match node:
            case nodes.EllipsisIndex():
                return ast.Constant(...)
            case nodes.Slice():
                given = [(part, self._index_maker(part)) for part in (node.low, node.high, node.step) if part is not None]
                written = iter(self.in_order([maker for _, maker in given], node.span))
                parts = [ast.Constant(None) if p is None else next(written) for p in (node.low, node.high, node.step)]
                return self.made(ast.Call(load(f"{MARK}slice!"), parts, []), node.span, *parts)
        return self.expression(node)

    def range_(self, node: nodes.Range) -> ast.expr:
        """Ints that are known as such go straight to Python's `range`."""
        given = [node.low, node.high] if node.step is None else [node.low, node.high, node.step]
        values = self.in_order([self.maker(e) for e in given], node.span)
        if all(e.type in (I64, Scalar(DType.I64, weak=True)) for e in given) and node.step is None:
            handed_out = loop(values[0], values[1], node.inclusive)
            if not node.inclusive:
                return marked(self.made(ast.Call(load(f"{MARK}range!"), values, []), node.span, *values), handed_out)
            end = self.made(ast.BinOp(values[1], ast.Add(), ast.Constant(1)), node.span, values[1])
            return marked(self.made(ast.Call(load(f"{MARK}range!"), [values[0], end], []), node.span, values[0], end), handed_out)
        step = values[2] if node.step is not None else ast.Constant(1)
        return self.help("range", node.span, values[0], values[1], step, ast.Constant(node.inclusive))

    def cast(self, node: nodes.Cast, value: nodes.Expression, to: Type) -> ast.expr:
        if isinstance(to, Scalar) and to.dtype is not DType.BOOL:
            literal = self.weak_literal(value)
            if literal is not None and (to.dtype.is_float or literal[1].is_int):
                return self._scalar(*literal, to.dtype, node.span)
        self.target = (value, to)
        operand = self.expression(value)
        self.target = None
        match value.type, to:
            case Scalar(dtype=have), Scalar(dtype=want) if have is want:
                return operand
            case Scalar(dtype=DType.I64), Scalar(dtype=DType.F64):
                return self.made(ast.Call(load(f"{MARK}float!"), [operand], []), node.span, operand)
        return self.help("cast", node.span, operand, self.constant(to))

    def f_string(self, node: nodes.FString) -> ast.expr:
        pieces = [p for p in node.parts if p.value is not None or p.text]
        values = self.in_order([self._piece(p) for p in pieces], node.span)
        if all(isinstance(v, ast.Constant) for v in values):
            return ast.Constant("".join(str(v.value) for v in values if isinstance(v, ast.Constant)))
        shown: list[ast.expr] = [
            ast.Constant(str(v.value)) if isinstance(v, ast.Constant) else self.at(ast.FormattedValue(v, -1, None), node.span)
            for v in values
        ]
        return self.made(ast.JoinedStr(shown), node.span, *values)

    def _piece(self, part: nodes.FStringPart) -> Callable[[], ast.expr]:
        value = part.value
        if value is None:
            return lambda: ast.Constant(part.text)
        if part.format:
            return lambda: self.help("format", value.span, self.expression(value), ast.Constant(part.format))
        if value.type == STRING or direct.is_int(value.type):
            return lambda: self.expression(value)
        return lambda: self.help("text", value.span, self.expression(value))

    # ---- choices and loops -----------------------------------------------------------------------------------------

    def conditional(self, node: nodes.Conditional) -> ast.expr:
        test = self.condition(node.condition)
        with self.collected() as first:
            then = self.converted(node.then, inferred(node.type))
        with self.collected() as second:
            otherwise = self.converted(node.otherwise, inferred(node.type))
        if not first and not second:
            return self.made(ast.IfExp(test, then, otherwise), node.span, test, then, otherwise)
        name = self.frame.temporary()
        first.append(self.at(ast.Assign([ast.Name(name, ast.Store())], then), node.then.span))
        second.append(self.at(ast.Assign([ast.Name(name, ast.Store())], otherwise), node.otherwise.span))
        self.write(ast.If(test, first, second), node.span)
        return load(name)

    def comprehension(self, node: nodes.Comprehension) -> ast.expr:
        """A loop that appends: its variables are new in each iteration, as a loop's are."""
        result = self.frame.temporary()
        source = self.iterated(node.source, len(node.names), node.key, node.element, node.condition)
        self.assign(result, ast.List([], ast.Load()) if node.key is None else ast.Dict([], []), node.span)
        self.frame.loop += 1
        with self.block(), self.collected() as body:
            target = self.loop_target(node.names, node.source, node.source.span, source)
            if node.condition is not None:
                test = self.condition(node.condition)
                self.write(ast.If(ast.UnaryOp(ast.Not(), test), [self.at(ast.Continue(), node.span)], []), node.condition.span)
            if node.key is not None:
                self._add_entry(node, node.key, result)
            else:
                self._append_element(node, result)
        self.frame.loop -= 1
        self.write(ast.For(target, source, body, []), node.span)
        return load(result)

    def _add_entry(self, node: nodes.Comprehension, key: nodes.Expression, result: str) -> None:
        known = node.type if isinstance(node.type, DictType) else DictType(UNKNOWN, UNKNOWN)
        parts = [lambda: self.converted(key, inferred(known.key)), lambda: self.converted(node.element, inferred(known.value))]
        name, value = self.in_order(parts, node.span)
        if direct.same_plain(known.key, key.type):
            direct.store(self, load(result), name, value, node.element.span)
            return
        self.write(ast.Expr(self.help("set", node.span, load(result), name, value)), node.element.span)

    def _append_element(self, node: nodes.Comprehension, result: str) -> None:
        element = inferred(node.type.element) if isinstance(node.type, ListType) else UNKNOWN
        value = self.converted(node.element, element)
        append = ast.Attribute(load(result), "append", ast.Load())
        self.write(ast.Expr(self.at(ast.Call(append, [value], []), node.element.span)), node.element.span)

    def map_of(self, node: nodes.DictLiteral) -> ast.expr:
        """Keys and values in written order; the last value of a key counts."""
        if isinstance(node.type, SetType):
            return self.help("new set", node.span)
        known = node.type if isinstance(node.type, DictType) else DictType(UNKNOWN, UNKNOWN)
        makers: list[Callable[[], ast.expr]] = []
        for entry in node.entries:
            makers.append(self._part_maker(entry.key, known.key))
            makers.append(self._part_maker(entry.value, known.value))
        parts = self.in_order(makers, node.span)
        if all(isinstance(known.key, Scalar | StringType) for _ in parts):
            return self.made(ast.Dict(list(parts[::2]), list(parts[1::2])), node.span, *parts)
        return self.help("new map", node.span, *parts)

    def _part_maker(self, node: nodes.Expression, to: Type) -> Callable[[], ast.expr]:
        return lambda: self.converted(node, inferred(to))

    def iterated(self, source: nodes.Expression, names: int = 1, *body: nodes.Node | None) -> ast.expr:
        """What a `for` with so many names runs over. A map or set doesn't change the loop's way when it is changed in its `body`."""
        value = self.expression(source)
        if isinstance(source.type, DictType | SetType):
            if body and all(part is None or leaves_maps(part, self._is_library_function) for part in body):
                entries = names == 2 and isinstance(source.type, DictType)
                return self.made(ast.Call(ast.Attribute(value, "items", ast.Load()), [], []), source.span, value) if entries else value
            return self.help("entries" if names == 2 and isinstance(source.type, DictType) else "keys", source.span, value)
        if isinstance(source.type, (ListType, RangeType, StringType)) or isinstance(source, nodes.Range):
            return value
        if isinstance(source.type, ArrayType):
            own = self.layouts.holds_arrays(source.type.element)
            return self.help("elements", source.span, self.help("copied", source.span, value) if own else value)
        return self.help("iterate", source.span, value)

    def _is_library_function(self, name: str) -> bool:
        return name in self.library.functions and self.scope.find(name) is None

    def loop_target(self, names: tuple[str, ...], source: nodes.Expression, span: Span, iterated: ast.expr | None = None) -> ast.expr:
        """Declares a loop's variables; several take the element apart at the start of the body."""
        element = _element_type(source.type)
        if isinstance(source.type, DictType) and len(names) == 2:
            element = TupleType((source.type.key, source.type.value))
        if len(names) == 1:
            target = self._loop_variable(names[0], element)
            variable = self.scope.find(names[0])
            if isinstance(source, nodes.Range) and isinstance(variable, PythonVariable):
                variable.interval = getattr(iterated, "interval", None)
            if isinstance(source.type, ListType) and self.layouts.holds_arrays(element):
                # The list may change while the loop has its element.
                self.assign(target.id, self.help("copied", span, load(target.id)), span)
            return target
        types = element.elements if isinstance(element, TupleType) and len(element.elements) == len(names) else None
        targets = [self._loop_variable(n, types[i] if types else UNKNOWN) for i, n in enumerate(names)]
        if types:
            for made, type_ in zip(targets, types, strict=True):
                if self.layouts.holds_arrays(type_):
                    self.assign(made.id, self.help("copied", span, load(made.id)), span)
            return ast.Tuple(list(targets), ast.Store())
        whole = self.frame.temporary()
        parts = self.help("unpack", span, load(whole), ast.Constant(len(names)))
        self.write(ast.Assign([ast.Tuple(list(targets), ast.Store())], parts), span)
        return ast.Name(whole, ast.Store())

    def _loop_variable(self, name: str, type_: Type) -> ast.Name:
        if name == "_":
            return ast.Name(self.frame.temporary(), ast.Store())
        return ast.Name(self.declare(name, type_).python, ast.Store())


def _element_type(source: Type) -> Type:
    match source:
        case ListType(element=element) | ArrayType(element=element) | SetType(element=element) | DictType(key=element):
            return element
        case RangeType():
            return I64
        case StringType():
            return STRING
    return UNKNOWN


def _only_in_kernels(name: str, span: Span) -> Callable[..., NoReturn]:
    """Stands for a kernel's function in a function that kernels call; host code that calls it has got lost."""

    def refuse(*_values: object, **_named: object) -> NoReturn:
        hint = "call this function from a compute block of the kind `custom` or `fused`"
        raise ZyntaxError(Diagnostic("0413", f"`{name}` is called outside of a compute block", span, hint=hint))

    return refuse
