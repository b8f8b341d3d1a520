"""Functions that take functions, for calls that name theirs: `integrate(x => x * x, 0.0, 1.0)` calls a copy of `integrate` that calls a
function made of the lambda. What the lambda captures are further arguments. A copy that is native runs without Python."""

from collections.abc import Callable

from compiler.typed_ast import nodes
from compiler.typed_ast.bound_names import bindings, bound_names
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_annotations import CRITICAL, LATENCIES
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.substitution import mapped
from compiler.typed_ast.types import Scalar
from compiler.typed_ast.walk import walk
from runtime.records import evolve, frozen

SIGN = "·"
"""In the names of copies, and in none of a program's."""
_OF_LAMBDAS = (
    nodes.Name, nodes.IntLiteral, nodes.FloatLiteral, nodes.BoolLiteral, nodes.Binary, nodes.Unary, nodes.Conditional, nodes.Call,
    nodes.Argument, nodes.Cast, nodes.TypeSyntax, nodes.ExpressionStatement,
)  # fmt: skip


@frozen
class _Closure:
    """What a call gives for a parameter: a function of the program, or one made of a lambda with what that captures."""

    callee: str
    made: nodes.Function | None = None
    captured: tuple[nodes.Name, ...] = ()


def specialised(program: nodes.Program, checker_of: Callable[[nodes.Program], Checker]) -> nodes.Program:
    """The program with copies of its functions that are native, and with calls of these. `program` has its types, and no errors."""
    copies = _SpecialCopies(program)
    if not copies.takers:
        return program
    wanted = copies.of(None)
    if not copies.made:
        return program
    found = effects(checker_of(wanted), wanted, has_native_code).functions
    native = frozenset(name for name in copies.made if name in found and found[name].is_static)
    return _SpecialCopies(program).of(native) if native else program


class _SpecialCopies:
    """The copies of one program. `takers`: its functions that may have some; `made`: their copies by name."""

    def __init__(self, program: nodes.Program) -> None:
        self.program = program
        self.made: dict[str, tuple[nodes.Function, ...]] = {}
        top = [s for s in program.statements if isinstance(s, nodes.Function)]
        self.functions = {f.name: f for f in top if not any(p.name == "self" for p in f.parameters)}
        self.bound = bound_names(program)
        self.takers = {name: f for name, f in self.functions.items() if _may_be_copied(f)}

    def of(self, allowed: frozenset[str] | None) -> nodes.Program:
        """The program with its copies, those that are `allowed`, None: all."""
        self.made = {}
        statements = tuple(self._changed(s, allowed) for s in self.program.statements)
        extra = tuple(function for functions in self.made.values() for function in functions)
        return evolve(self.program, statements=(*extra, *statements))

    def _changed(self, node: nodes.Statement, allowed: frozenset[str] | None) -> nodes.Statement:
        def change(found: nodes.Node) -> nodes.Node:
            return self._call(found, allowed) if isinstance(found, nodes.Call) else found

        return mapped(node, change)

    def _call(self, call: nodes.Call, allowed: frozenset[str] | None) -> nodes.Node:
        taker = self.takers.get(call.callee)
        if taker is None or not isinstance(call.function, nodes.Name) or any(a.name is not None for a in call.arguments):
            return call
        if len(call.arguments) != len(taker.parameters):
            return call
        number = len(self.made) + 1
        name = f"{taker.name}{SIGN}{number}"
        given: dict[str, _Closure] = {}
        rest: list[nodes.Argument] = []
        for parameter, argument in zip(taker.parameters, call.arguments, strict=True):
            if not isinstance(parameter.annotation, nodes.FunctionTypeSyntax):
                rest.append(argument)
                continue
            closure = self._closure(argument.value, parameter.annotation, f"{name}{SIGN}{parameter.name}")
            if closure is None:
                return call
            given[parameter.name] = closure
        self.made[name] = (*(c.made for c in given.values() if c.made is not None), _copy(taker, name, given))
        if allowed is not None and name not in allowed:
            self.made[name] = ()
            return call
        captured = [nodes.Argument(value=one, span=one.span) for closure in given.values() for one in closure.captured]
        return evolve(call, function=evolve(call.function, name=name), callee=name, arguments=(*rest, *captured))

    def _closure(self, value: nodes.Expression, wanted: nodes.FunctionTypeSyntax, name: str) -> _Closure | None:
        match value:
            case nodes.Name(name=function) if function in self.functions and function not in self.bound:
                return _Closure(function)
            case nodes.Lambda(parameters=parameters, body=body) if len(parameters) == len(wanted.parameters):
                return self._of_lambda(parameters, body, wanted, name)
        return None

    def _of_lambda(
        self, parameters: tuple[nodes.Parameter, ...], body: nodes.Expression, wanted: nodes.FunctionTypeSyntax, name: str
    ) -> _Closure | None:
        inside = list(walk(body))
        if not all(isinstance(node, _OF_LAMBDAS) for node in inside) or any(p.default is not None for p in parameters):
            return None
        called = [node.function for node in inside if isinstance(node, nodes.Call)]
        if not all(isinstance(one, nodes.Name) and one.name not in self.bound for one in called):
            return None
        own = {p.name for p in parameters}
        calls = {id(one) for one in called}
        free = {n.name: n for n in inside if isinstance(n, nodes.Name) and id(n) not in calls and n.name not in own}
        if not all(isinstance(n.type, Scalar) for n in free.values()):
            return None
        typed = tuple(evolve(p, annotation=p.annotation or t) for p, t in zip(parameters, wanted.parameters, strict=True))
        span = body.span
        block = nodes.Block(statements=(nodes.ExpressionStatement(value=body, span=span),), span=span, type=body.type)
        all_ = (*typed, *map(_parameter, free.values()))
        function = nodes.Function(name=name, name_span=span, parameters=all_, result=wanted.result, body=block, span=span)
        return _Closure(name, function, tuple(free.values()))


def _parameter(captured: nodes.Name) -> nodes.Parameter:
    type_ = strong(captured.type)
    assert isinstance(type_, Scalar)
    return nodes.Parameter(name=captured.name, annotation=nodes.NamedTypeSyntax(name=type_.dtype.value), span=captured.span)


def _copy(taker: nodes.Function, name: str, given: dict[str, _Closure]) -> nodes.Function:
    """The function with its calls of parameters made calls of what stands for these."""
    hidden = {(key, one.name): f"{one.name}{SIGN}{key}" for key, closure in given.items() for one in closure.captured}

    def change(found: nodes.Node) -> nodes.Node:
        if not (isinstance(found, nodes.Call) and isinstance(found.function, nodes.Name) and found.function.name in given):
            return found
        key = found.function.name
        closure = given[key]
        captured = [evolve(one, name=hidden[key, one.name], type=strong(one.type)) for one in closure.captured]
        arguments = (*found.arguments, *(nodes.Argument(value=one, span=one.span) for one in captured))
        return evolve(found, function=evolve(found.function, name=closure.callee), callee=closure.callee, arguments=arguments)

    kept = [p for p in taker.parameters if p.name not in given]
    more = [evolve(_parameter(one), name=hidden[key, one.name]) for key, closure in given.items() for one in closure.captured]
    assert taker.body is not None
    return evolve(taker, name=name, parameters=(*kept, *more), body=mapped(taker.body, change))


def _are_of_code(function: nodes.Function) -> bool:
    """Whether its annotations hold of a copy as of itself."""
    return all(annotation.name in (CRITICAL, *LATENCIES) for annotation in function.annotations)


def _may_be_copied(function: nodes.Function) -> bool:
    """Whether what it takes is known by its types, and the functions among that are only called."""
    taken = {p.name for p in function.parameters if isinstance(p.annotation, nodes.FunctionTypeSyntax)}
    good = all(p.annotation is not None and p.default is None for p in function.parameters) and not function.is_async
    if not taken or not good or function.body is None or function.type_parameters or not _are_of_code(function):
        return False
    inside = list(walk(function.body))
    if any(isinstance(node, nodes.Lambda | nodes.Function | nodes.Compute) for node in inside) or taken & set(bindings(inside)):
        return False
    called = {id(n.function) for n in inside if isinstance(n, nodes.Call) and all(a.name is None for a in n.arguments)}
    return all(id(n) in called for n in inside if isinstance(n, nodes.Name) and n.name in taken)
