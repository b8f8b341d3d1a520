"""Functions and closures to Python functions: parameters with their conversions, defaults and sizes; what closures capture."""

import ast
from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest

from compiler.backends.host.destination import DISCARD, Destination
from compiler.backends.host.emit import load
from compiler.backends.host.hot_loops import HotLoops
from compiler.backends.host.naming import MARK, DeclaredFunction, LibraryName, PythonFrame, PythonScope, PythonVariable
from compiler.backends.host.operators import inferred, needs_no_check
from compiler.backends.host.positions import Positions
from compiler.backends.host.value_ranges import ValueRanges
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.function_annotations import REMEMBERS, lifetime
from compiler.typed_ast.library import Library
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.types import (
    BOOL,
    F64,
    I64,
    STRING,
    UNIT,
    UNKNOWN,
    DictType,
    EnumType,
    ListType,
    Scalar,
    SetType,
    StructType,
    TensorType,
    Type,
    UnknownType,
)
from compiler.typed_ast.walk import walk

_CLASSES: dict[Type, type] = {I64: int, F64: float, BOOL: bool, STRING: str}
"""Types whose values are all of a class of Python's."""


class Functions(HotLoops):
    """`def`, lambdas, and the frames that they are."""

    def __init__(self, program: nodes.Program, library: Library, positions: Positions) -> None:
        super().__init__(program, library, positions)
        self.functions: list[DeclaredFunction] = []
        self.runs_beside = False
        """Whether code of the program may run beside other code of it."""
        self.closure_names = _closure_names(program)
        at_top = [statement for statement in program.statements if not isinstance(statement, nodes.Function | nodes.Impl)]
        self.outer_names = frozenset(name for statement in at_top for name in _bound_in(statement))
        self.kept_names = self.closure_names | _changed_names(program)
        """A parameter of such a name may change in its parts, or be kept: arrays in it are copied when the function begins."""

    def announce(self, node: nodes.Function) -> DeclaredFunction:
        """The function's name, from here on."""
        frame = self.frame
        declared = DeclaredFunction(node.name, frame.python_name(node.name), frame, node, frame.loop, is_global=frame.is_module)
        if frame.is_module and self._takes_containers(node):
            declared.trusting = frame.python_name(f"{MARK}trusting {node.name}")
        method = self.method_names.get(id(node))
        if method is not None:
            self.methods[method] = declared
        of_type = id(node) in self.declared.impl_of or changes_receiver(node) or node.name in self.scope.names
        if method is None or not of_type:
            self.enter(node.name, declared)
        return declared

    def define(self, declared: DeclaredFunction, node: nodes.Function) -> None:
        """Writes the function."""
        if node.body is None:
            self._define_extern(node)
            return
        body = node.body
        result = self.resolve(node.result)
        outermost = self.ranges is None
        if outermost:
            self.ranges = ValueRanges(node, self.outer_names)
        if declared.is_global and self.scope.find(node.name) is declared:
            self.functions.append(declared)
        if node.is_async:
            self.runs_beside = True
            self._define(declared.python, node.parameters, UNKNOWN, lambda to: self._beside(node, body, result, to), node.span, declared)
        else:
            self._define(declared.python, node.parameters, result, lambda to: self.block_into(body, to), node.span, declared)
        if declared.trusting:
            self._write_looking(declared)
        if outermost:
            self.ranges = None
        kept = next((annotation for annotation in node.annotations if annotation.name in REMEMBERS), None)
        if kept is not None:
            names = self.constant(tuple(parameter.name for parameter in node.parameters))
            made = self.help("remembered", node.span, load(declared.python), names, ast.Constant(lifetime(kept)))
            self.assign(declared.python, made, node.span)

    def _takes_containers(self, node: nodes.Function) -> bool:
        """Whether a call looks at all that lists or maps hold, and that is all there is to do before the body."""
        if node.body is None or node.is_async or node.annotations or changes_receiver(node):
            return False
        types = [self.resolve(p.annotation) for p in node.parameters]
        if any(p.default is not None for p in node.parameters) or any(isinstance(t, TensorType) for t in types):
            return False
        looks_inside = any(isinstance(t, ListType | DictType | SetType) and not needs_no_check(t) for t in types)
        return looks_inside and not any(map(self.layouts.holds_arrays, types))

    def _write_looking(self, declared: DeclaredFunction) -> None:
        """The function for all other callers: makes the arguments what is declared, and calls the one that was written."""
        node = declared.node
        self.assign(declared.trusting, load(declared.python), node.span)

        def call(to: Destination) -> None:
            values = [self._value(p) for p in node.parameters]
            self.write(ast.Return(ast.Call(load(declared.trusting), list(values), [])), node.span)

        self._define(declared.python, node.parameters, UNKNOWN, call, node.span, declared, looks=True)

    def _beside(self, node: nodes.Function, body: nodes.Block, result: Type, to: Destination) -> None:
        """The body of an `async` function: what it does is a function of its own, which runs beside its caller."""
        python = self.frame.temporary()
        self._define(python, (), result, lambda inner: self.block_into(body, inner), node.span)
        self.deliver(self.help("beside", node.span, load(python)), node.span, to)

    def both_at_once(self, sides: list[nodes.Expression], span: Span) -> ast.expr:
        """The values of expressions that run at once, each in a function of its own."""
        self.runs_beside = True
        names = [self.frame.temporary() for _ in sides]
        for name, side in zip(names, sides, strict=True):
            self._define(name, (), inferred(side.type), partial(self._into_caller, side), side.span)
        known = any(not isinstance(side.type, UnknownType | Scalar) for side in sides)
        return self.help("both" if known else "both or bits", span, *map(load, names))

    def _into_caller(self, side: nodes.Expression, to: Destination) -> None:
        self.into(side, to if to.to_caller else Destination(to_caller=True))

    def _define_extern(self, node: nodes.Function) -> None:
        entry = self.library.functions.get(node.name)
        if entry is None:
            raise ZyntaxError(Diagnostic("0201", f"there is no runtime function `{node.name}`", node.span))
        self.enter(node.name, LibraryName(node.name, entry))

    def define_body(self, python: str, write: Callable[[], None], span: Span) -> None:
        """A function without parameters, for what is no function in the program."""
        self._define(python, (), UNIT, lambda to: write(), span)

    def lambda_(self, node: nodes.Lambda) -> ast.expr:
        python = self.frame.temporary()
        self._define(python, node.parameters, UNKNOWN, lambda to: self.into(node.body, to), node.span)
        return load(python)

    def changing_call(self, node: nodes.Call, declared: DeclaredFunction, receiver: nodes.Expression) -> ast.expr:
        """The receiver goes in a box, and what is in there when the method has returned is stored where the receiver was read."""
        place = self.place(receiver) if isinstance(receiver, nodes.Field | nodes.Index) else None
        value = self.read_part(place) if place is not None else self.expression(receiver)
        box = self.keep(ast.List([value], ast.Load()), node.span)
        self.note_use(declared)
        types = {p.name: self.resolve(p.annotation) for p in declared.node.parameters[1:]}
        function = self.at(load(declared.python), node.function.span)
        result = self.keep(self.plain_call(node, function, types, (box,)), node.span)
        left = ast.Subscript(box, ast.Constant(0), ast.Load())
        if place is not None:
            self.store_part(place, left)
        elif isinstance(receiver, nodes.Name):
            self.store(self.assigned_variable(receiver.name, receiver.span), left, node.span)
        return result

    def parameter_types(self, node: nodes.Function) -> Mapping[str, Type]:
        return {p.name: self.resolve(p.annotation) for p in node.parameters}

    # ---- one function ------------------------------------------------------------------------------------------------

    def _define(
        self,
        python: str,
        parameters: tuple[nodes.Parameter, ...],
        result: Type,
        write: Callable[[Destination], None],
        span: Span,
        declared: DeclaredFunction | None = None,
        looks: bool = False,
    ) -> None:
        defaults = [self._default(p, python) for p in parameters]
        outer_frame, outer_scope = self.frame, self.scope
        self.frame = PythonFrame(parent=outer_frame, result=result)
        self.scope = PythonScope(outer_scope)
        try:
            with self.collected() as body:
                names = self._parameters(parameters, defaults, declared is not None and changes_receiver(declared.node))
                if looks or declared is None or not declared.trusting:
                    self._checks(parameters)
                write(DISCARD if result == UNIT else Destination(to_caller=True, to=result))
            frame = self.frame
        finally:
            self.frame, self.scope = outer_frame, outer_scope
        head: list[ast.stmt] = []
        if frame.globals:
            head.append(ast.Global(sorted(frame.globals)))
        if frame.nonlocals:
            head.append(ast.Nonlocal(sorted(frame.nonlocals)))
        definition = function_definition(python, names, [*head, *body] or [ast.Pass()], _optional(defaults))
        self._write_closure(self.at(definition, span), frame, declared)

    def _write_closure(self, definition: ast.FunctionDef, frame: PythonFrame, declared: DeclaredFunction | None) -> None:
        """A closure over variables of a loop is made by a factory, so that each iteration has its own. What is captured from
        further out than this frame's parent is already bound there."""
        captured = sorted(n for n, b in frame.captured.items() if b is not declared and n not in frame.nonlocals)
        position = (definition.lineno, definition.col_offset, definition.end_lineno, definition.end_col_offset)
        if not captured:
            self.body.append(definition)
            return
        factory = self.frame.temporary()
        back = ast.Return(load(definition.name))
        factory_definition = function_definition(factory, captured, [definition, back])
        call = ast.Call(load(factory), [load(name) for name in captured], [])
        binding = ast.Assign([ast.Name(definition.name, ast.Store())], call)
        for statement in (factory_definition, back, binding):
            statement.lineno, statement.col_offset, statement.end_lineno, statement.end_col_offset = position
        self.body += [factory_definition, binding]

    def _default(self, parameter: nodes.Parameter, python: str) -> str | None:
        """A default is evaluated at each call that needs it, among the names of the definition: a function of its own."""
        if parameter.default is None:
            return None
        default = parameter.default
        name = self.frame.python_name(f"{MARK}default {python} {parameter.name}")
        self._define(name, (), self.resolve(parameter.annotation), lambda to: self.into(default, to), default.span)
        return name

    def _parameters(self, parameters: tuple[nodes.Parameter, ...], defaults: list[str | None], changing: bool) -> list[str]:
        """Parameters keep their names; what arrives is converted to the declared type. The receiver of a method that is `changing` it comes
        in a box, in which the caller finds it."""
        names = []
        for parameter, default in zip(parameters, defaults, strict=True):
            type_ = self.resolve(parameter.annotation)
            python = self.frame.parameter_name(parameter.name)
            boxed = changing and parameter is parameters[0]
            self.scope.names[parameter.name] = PythonVariable(parameter.name, python, self.frame, type_, parameter.mutable, boxed=boxed)
            names.append(python)
            if default is not None:
                self._note_default(default)
                test = ast.Compare(load(python), [ast.Is()], [load(f"{MARK}missing")])
                given = self.at(ast.Assign([ast.Name(python, ast.Store())], ast.Call(load(default), [], [])), parameter.span)
                self.write(ast.If(test, [given], []), parameter.span)
        return names

    def _checks(self, parameters: tuple[nodes.Parameter, ...]) -> None:
        """What arrives is converted to the declared types, and tells the sizes that the signature names, which are ints in the body. Where
        that left tensors and numbers as they were, their like passes at once from then on, and the sizes are known."""
        checked = [p for p in parameters if not needs_no_check(self.resolve(p.annotation))]
        if not checked:
            return
        span = parameters[0].span.to(parameters[-1].span)
        types = [self.resolve(p.annotation) for p in checked]
        equations, names = self._equations(checked)
        solved = self.frame.temporary()
        with self.collected() as looking:
            for parameter, type_ in zip(checked, types, strict=True):
                self._converted_here(parameter, type_)
            if equations:
                sizes = self.help("sizes", span, ast.Tuple(equations, ast.Load()), self.constant(names))
                self.assign(solved, sizes, span)
        if all(map(_is_told_by_layout, types)) and any(isinstance(type_, TensorType) for type_ in types):
            looking = self._unless_seen(checked, looking, solved, bool(equations), span)
        self.body.extend(looking)
        for parameter, type_ in zip(checked, types, strict=True):
            if self.layouts.holds_arrays(type_) and parameter.name in self.kept_names:
                self.store(self._variable(parameter), self.help("copied", parameter.span, self._value(parameter)), parameter.span)
        if names:
            targets: list[ast.expr] = [ast.Name(self.declare(name, I64).python, ast.Store()) for name in names]
            self.write(ast.Assign([ast.Tuple(targets, ast.Store())], load(solved)), span)

    def _converted_here(self, parameter: nodes.Parameter, type_: Type) -> None:
        """Makes a parameter's value one of its type; where its class says that it is, nothing."""
        span = parameter.span
        cases = (self.layouts.cases(type_) or {}) if isinstance(type_, StructType | EnumType) and not type_.arguments else {}
        with self.collected() as converting:
            self.store(self._variable(parameter), self.help("convert", span, self._value(parameter), self.constant(type_)), span)
        if not cases:
            plain = _CLASSES.get(type_)
            if plain is not None:
                other = ast.Compare(ast.Attribute(self._value(parameter), "__class__", ast.Load()), [ast.IsNot()], [self.constant(plain)])
                converting = [self.at(ast.If(other, converting, []), span)]
            self.body.extend(converting)
            return
        classes = self.constant(tuple(case.values for case in cases.values()))
        of = ast.Call(load(f"{MARK}type!"), [self._value(parameter)], [])
        self.write(ast.If(ast.Compare(of, [ast.NotIn()], [classes]), converting, []), span)

    def _unless_seen(
        self, parameters: list[nodes.Parameter], looking: list[ast.stmt], solved: str, has_sizes: bool, span: Span
    ) -> list[ast.stmt]:
        """Looking at the values of parameters, but not at the like of what passed unchanged before."""
        seen, before = self.constant({}), self.frame.temporary()

        def values() -> ast.expr:
            return ast.Tuple([self._value(p) for p in parameters], ast.Load())

        with self.collected() as written:
            like = ast.Tuple([self.help("like", span, self._value(p)) for p in parameters], ast.Load())
            self.assign(solved, ast.Call(ast.Attribute(seen, "get", ast.Load()), [like], []), span)
            with self.collected() as first:
                self.assign(before, values(), span)
                self.body.extend(looking)
                if not has_sizes:
                    self.assign(solved, ast.Tuple([], ast.Load()), span)
                self.write(ast.Expr(self.help("passed", span, seen, load(before), values(), load(solved))), span)
            self.write(ast.If(ast.Compare(load(solved), [ast.Is()], [ast.Constant(None)]), first, []), span)
        return written

    def _equations(self, parameters: list[nodes.Parameter]) -> tuple[list[ast.expr], tuple[str, ...]]:
        """The dims of parameters that name sizes or have a bound, for `bind_sizes`, and the sizes that are new here."""
        equations: list[ast.expr] = []
        names: dict[str, None] = {}
        for parameter in parameters:
            type_ = self.resolve(parameter.annotation)
            dims = dims_of(type_.shape) if isinstance(type_, TensorType) else None
            bounds = _bounds(parameter.annotation)
            if not dims or (not any(bounds) and all(d is None or d.value is not None for d in dims)):
                continue
            forms = tuple(bound if d is None else d for d, bound in zip_longest(dims, bounds))
            names |= {n: None for d in dims if d is not None for n in d.names}
            equations.append(ast.Tuple([ast.Constant(parameter.name), self._value(parameter), self.constant(forms)], ast.Load()))
        return equations, tuple(n for n in names if n not in self.scope.names)

    def _variable(self, parameter: nodes.Parameter) -> PythonVariable:
        variable = self.scope.names[parameter.name]
        assert isinstance(variable, PythonVariable)
        return variable

    def _value(self, parameter: nodes.Parameter) -> ast.expr:
        return self.variable(self._variable(parameter), parameter.span)

    def _note_default(self, default: str) -> None:
        """The function of a default, made in a loop, is that iteration's too."""
        outer = self.frame.parent
        if outer is not None and outer.loop > 0:
            self.frame.captured[default] = PythonVariable(default, default, outer, loop=outer.loop)


def _bounds(annotation: nodes.TypeSyntax | None) -> tuple[int | None, ...]:
    """How many elements there may be along each axis, where the type says so: `?<=4096`."""
    return tuple(dim.bound for dim in annotation.dims or ()) if isinstance(annotation, nodes.TensorTypeSyntax) else ()


def function_definition(name: str, parameters: list[str], body: list[ast.stmt], optional: int = 0) -> ast.FunctionDef:
    """A Python function; its last `optional` parameters may be left out."""
    arguments = ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, [load(f"{MARK}missing") for _ in range(optional)])
    return ast.FunctionDef(name, arguments, body, [], None)


def _is_told_by_layout(type_: Type) -> bool:
    """Whether it depends on a value's layout or class alone if the type takes it as it is. Where a type names a device, tensors are told
    so."""
    if isinstance(type_, StructType | EnumType):
        return not type_.arguments
    return isinstance(type_, Scalar) or (isinstance(type_, TensorType) and type_.device is None)


def _optional(defaults: list[str | None]) -> int:
    """How many parameters stand from the first default on."""
    return next((len(defaults) - i for i, d in enumerate(defaults) if d is not None), 0)


def _closure_names(program: nodes.Program) -> frozenset[str]:
    """Names that lambdas and inner functions mention: a variable of a loop that is among them and changes lives in a box."""
    names: set[str] = set()
    for statement in program.statements:
        inner = statement.body if isinstance(statement, nodes.Function) else statement
        if inner is None:
            continue
        for node in walk(inner):
            if isinstance(node, (nodes.Lambda, nodes.Function)):
                names.update(_mentioned(node))
    return frozenset(names)


def _changed_names(program: nodes.Program) -> set[str]:
    """Names of variables that get other parts."""
    names: set[str] = set()
    for node in walk(program):
        if isinstance(node, nodes.Assign):
            targets = node.target.elements if isinstance(node.target, nodes.TupleLiteral) else (node.target,)
            for target in targets:
                while isinstance(target, nodes.Field | nodes.Index):
                    target = target.value
                if isinstance(target, nodes.Name):
                    names.add(target.name)
    return names


def _bound_in(statement: nodes.Statement) -> set[str]:
    return {node.name for node in walk(statement) if isinstance(node, nodes.BindingPattern | nodes.ProgramParameter | nodes.Parameter)}


def _mentioned(closure: nodes.Node) -> set[str]:
    return {node.name for node in walk(closure) if isinstance(node, nodes.Name)}
