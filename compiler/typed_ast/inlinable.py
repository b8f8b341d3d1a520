"""Functions whose calls may become what stands in them: a straight body of compute blocks, of calls of such functions, and of values that
only look at what they are given. `inline.py` copies these bodies."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from compiler.typed_ast import nodes
from compiler.typed_ast.bound_names import bindings, bound_names
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.handed_on import QUIET_CALLS, stands_alone
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.types import UNKNOWN, Scalar, ShapeExpr, TensorType, Type
from compiler.typed_ast.walk import parts, walk
from runtime.records import define, field, frozen

Resolve: TypeAlias = Callable[[nodes.TypeSyntax | None], Type]
"""The type that is written; Unknown for none."""

HARMLESS = frozenset({"inline", "inline_always", "deprecated", "pipeline"})
"""Annotations of functions that leave a call what it is."""

_QUIET = (
    nodes.Name, nodes.IntLiteral, nodes.FloatLiteral, nodes.BoolLiteral, nodes.Binary, nodes.Unary, nodes.Conditional, nodes.Cast,
    nodes.Argument, nodes.TypeSyntax,
)  # fmt: skip


@frozen(eq=False)
class InlinableFunction:
    """A function, with the types that its parameters and its result declare."""

    function: nodes.Function
    parameters: Mapping[str, Type]
    result: Type
    statements: tuple[nodes.Statement, ...]

    @property
    def value(self) -> nodes.Expression:
        """That of its last statement."""
        last = self.statements[-1]
        assert isinstance(last, nodes.Return | nodes.ExpressionStatement) and last.value is not None
        return last.value


def is_pipeline(function: nodes.Function) -> bool:
    return any(annotation.name == "pipeline" for annotation in function.annotations)


def is_tensor_valued(block: nodes.Compute) -> bool:
    """Whether the block's value is one tensor, whatever its inputs are."""
    return len(block.results) < 2 and not any(isinstance(node, nodes.Yield) for node in walk(block.body))


def inlinable_functions(program: nodes.Program, resolve: Resolve) -> dict[str, InlinableFunction]:
    """By name. `program` has its types, and no errors."""
    judge = _Judge(program, resolve)
    found: dict[str, InlinableFunction] = {}
    for function in judge.functions.values():
        one = judge.inlinable(function)
        if one is not None:
            found[function.name] = one
    calls = {name: set(judge.called(one)) for name, one in found.items()}
    while lost := {name for name, called in calls.items() if not called <= calls.keys() or name in _reached(name, calls)}:
        calls = {name: called for name, called in calls.items() if name not in lost}
    return {name: found[name] for name in calls}


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """The functions that a call of this one calls, by way of others, too."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        new = calls.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


@define(eq=False)
class _Judge:
    program: nodes.Program
    resolve: Resolve
    bound: frozenset[str] = field(init=False)
    """Names that mean something else somewhere than they do at the program's top."""
    top: frozenset[str] = field(init=False)
    """Variables of the program's top."""
    functions: dict[str, nodes.Function] = field(init=False)

    def __attrs_post_init__(self) -> None:
        statements = self.program.statements
        self.bound = bound_names(self.program)
        outer = (s for s in statements if isinstance(s, nodes.Let | nodes.Import))
        named = (s.name for s in statements if isinstance(s, nodes.ProgramParameter | nodes.Constant))
        self.top = frozenset((*named, *(name for s in outer for name in bindings(walk(s)))))
        self.functions = {s.name: s for s in statements if isinstance(s, nodes.Function)}

    def inlinable(self, function: nodes.Function) -> InlinableFunction | None:
        body = function.body
        if body is None or function.is_async or function.is_extern or function.type_parameters or function.name in self.bound:
            return None
        if any(annotation.name not in HARMLESS for annotation in function.annotations):
            return None
        parameters = {p.name: self.resolve(p.annotation) for p in function.parameters}
        good = all(p.name != "self" and not p.mutable and _is_simple(p.default) for p in function.parameters)
        if not good or not all(type_ == UNKNOWN or _is_plain(type_) for type_ in parameters.values()):
            return None
        own = set(parameters)
        for statement in body.statements[:-1]:
            match statement:
                case nodes.Let(pattern=nodes.BindingPattern(name=name), annotation=None, mutable=False, value=nodes.Expression() as value):
                    if name in own or not self._value(value, own, parameters):
                        return None
                    own.add(name)
                case _:
                    return None
        match body.statements[-1:]:
            case (nodes.Return(value=nodes.Expression() as value) | nodes.ExpressionStatement(value=value),):
                makes = isinstance(value, nodes.Compute) or (isinstance(value, nodes.Call) and self._is_call(value))
                if not makes or not self._value(value, own, parameters):
                    return None
            case _:
                return None
        found = InlinableFunction(function, parameters, self.resolve(function.result), body.statements)
        return found if _sizes_are_checked(found) else None

    def called(self, one: InlinableFunction) -> Iterator[str]:
        """The functions of the program that its host code calls."""
        waiting: list[nodes.Node] = list(one.statements)
        while waiting:
            node = waiting.pop()
            if isinstance(node, nodes.Call) and self._is_call(node):
                yield node.callee
            waiting += [entry.value for entry in node.inputs] if isinstance(node, nodes.Compute) else parts(node)

    def _is_call(self, call: nodes.Call) -> bool:
        return isinstance(call.function, nodes.Name) and call.callee in self.functions

    def _value(self, value: nodes.Expression, own: set[str], parameters: Mapping[str, Type]) -> bool:
        """`own` are the names that the function has given so far."""
        match value:
            case nodes.Compute():
                return self._block(value, own, parameters)
            case nodes.Call(arguments=arguments) if self._is_call(value):
                return all(self._value(a.value, own, parameters) for a in arguments)
        return all(self._is_quiet(node, own) for node in walk(value))

    def _is_quiet(self, node: nodes.Node, own: set[str]) -> bool:
        match node:
            case nodes.Name(name=name):
                return name in own or (name not in self.bound and name not in self.functions)
            case nodes.Call(function=nodes.Name(name=name)):
                return name in QUIET_CALLS and name not in own and name not in self.functions and name not in self.bound
            case nodes.Binary(operator="&"):
                return False
        return isinstance(node, _QUIET)

    def _block(self, block: nodes.Compute, own: set[str], parameters: Mapping[str, Type]) -> bool:
        """Whether the block means the same where all that it takes are inputs, and other names in it are sizes."""
        if not stands_alone(block) or not all(self._value(entry.value, own, parameters) for entry in block.inputs):
            return False
        called = {node.function.name for node in walk(block.body) if isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name)}
        sizes = {name for type_ in parameters.values() for dim in _dims(type_) if dim is not None for name in dim.names}
        known = {name for entry in block.inputs for dim in _dims(entry.value.type) if dim is not None and (name := dim.name)}
        taken = {entry.name for entry in block.inputs}
        for name in free_names(block):
            if name in own:
                if name in called or name in taken:
                    return False
            elif name in self.top or (name in sizes and name not in known):
                return False
        return True


def _sizes_are_checked(one: InlinableFunction) -> bool:
    """Whether blocks check what a call of the function checks of its arguments' sizes."""
    blocks = [node for statement in one.statements for node in walk(statement) if isinstance(node, nodes.Compute)]
    places: dict[str, list[str]] = {}
    for parameter, type_ in one.parameters.items():
        for dim in _dims(type_):
            name = dim.name if dim is not None else None
            if name is not None:
                places.setdefault(name, []).append(parameter)
            elif dim is not None and dim.terms:
                return False
    for named in places.values():
        inputs = [{entry.value.name for entry in block.inputs if isinstance(entry.value, nodes.Name)} for block in blocks]
        if len(named) > 1 and not any(set(named) <= taken for taken in inputs):
            return False
    return True


def _is_plain(type_: Type) -> bool:
    return isinstance(type_, Scalar) or (isinstance(type_, TensorType) and type_.device is None)


def _is_simple(default: nodes.Expression | None) -> bool:
    return default is None or isinstance(default, nodes.IntLiteral | nodes.FloatLiteral | nodes.BoolLiteral)


def _dims(type_: Type) -> tuple[ShapeExpr | None, ...]:
    return (dims_of(type_.shape) or ()) if isinstance(type_, TensorType) else ()
