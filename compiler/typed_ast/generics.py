"""Generic functions: for the types that its type parameters stand for in a call, a function has a copy, in which they are written. Copies
are checked and compiled as what else the program declares."""

from collections.abc import Iterator, Mapping

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.scope import Findings, UserFunction
from compiler.typed_ast.substitution import ANYTHING, mapped, with_types
from compiler.typed_ast.type_heads import syntax_of
from compiler.typed_ast.types import UNKNOWN, Type
from compiler.typed_ast.walk import walk
from runtime.records import evolve

MAX_COPIES = 1000
MAX_DEPTH = 40
MAX_SHOWN = 200
"""How long the types of a copy may be in words."""
MAX_WORDS = 60


def copy_of(checker: Checker, function: UserFunction, bound: Mapping[str, Type], called: Span | None) -> UserFunction | None:
    """The copy of a generic function for these types; those that aren't known stay open. None where a function makes more and more of
    them, which is reported."""
    node = function.node
    types = tuple(bound.get(parameter.name, UNKNOWN) for parameter in node.type_parameters)
    found = checker.copies.get((function, types))
    if found is not None:
        return found
    shown = ", ".join(f"{p.name} = {checker.show(t)}" for p, t in zip(node.type_parameters, types, strict=True))
    words = shown if len(shown) <= MAX_WORDS else f"{shown[:MAX_WORDS]}..."
    calls = checker.findings.calls
    if called is not None:
        if len(calls) >= MAX_DEPTH or len(checker.copies) >= MAX_COPIES or len(shown) > MAX_SHOWN:
            message = f"`{node.name}` calls itself with other types over and over, and each makes a function of its own"
            checker.report("0109", message, called, hint="call it with values of the same types")
            return None
        calls = (*calls, Label(called, f"called here with {words}"))
    written = {p.name: ANYTHING if t == UNKNOWN else syntax_of(t, p.span) for p, t in zip(node.type_parameters, types, strict=True)}
    written |= checker.meaning.rules.calls.associated(checker, node, bound)
    copy = with_types(evolve(node, type_parameters=()), written)
    variant = "" if set(types) <= {UNKNOWN} else f"<{', '.join(map(str, types))}>"
    key = checker.key_of_function(function)
    copy = evolve(copy, variant=node.variant + variant) if is_method(node) else evolve(copy, name=f"{key}{variant}")
    made = UserFunction(copy, function.scope, Findings(calls=calls))
    checker.copies[function, types] = made
    checker.copies_of.setdefault(id(node), []).append(made)
    return made


def key_of_copy(checker: Checker, copy: UserFunction) -> str:
    """The name under which back ends find a copy."""
    return next(iter(checker.declarations.by_name((copy.node,))))


def reached(checker: Checker, program: nodes.Program) -> frozenset[int]:
    """The copies, by their identity, that the program calls or names, or may call by the value of a receiver alone; and those that
    importers and Python call, in which type parameters stand for anything."""
    keys = {key_of_copy(checker, copy): copy for copies in checker.copies_of.values() for copy in copies}
    by_method: dict[str, list[UserFunction]] = {}
    for copy in keys.values():
        if is_method(copy.node):
            by_method.setdefault(copy.node.name, []).append(copy)

    def closure(start: list[tuple[nodes.Node, Findings]]) -> dict[int, UserFunction]:
        found: dict[int, UserFunction] = {}
        waiting = start
        while waiting:
            node, findings = waiting.pop()
            for copy in _named_in(node, findings, keys, by_method):
                if id(copy) not in found:
                    found[id(copy)] = copy
                    waiting.append((copy.node, copy.findings))
        return found

    wanted = closure([(one, checker.findings) for one in _not_generic(program.statements)])
    for copy in by_method.get("to_string", ()):  # of values inside of others, which tell only when they are shown
        wanted |= {id(copy): copy, **closure([(copy.node, copy.findings)])}
    for statement in program.statements:
        if isinstance(statement, nodes.Function) and statement.type_parameters:
            for copy in checker.copies_of.get(id(statement), ()):
                inside = {id(copy): copy, **closure([(copy.node, copy.findings)])}
                if copy.node.name == statement.name and all(_runs_open(checker, one) for one in inside.values()):
                    wanted |= inside
    return frozenset(wanted)


def _runs_open(checker: Checker, copy: UserFunction) -> bool:
    """Whether a function can run where some of its types aren't known: what it does must show by its values."""
    for node in walk(copy.node):
        match node:
            case nodes.Path(segments=("any", *_)):
                return False
            case nodes.Call(function=nodes.Field(name=name)) if id(node) not in copy.findings.callees:
                if checker.declarations.may_change(name):
                    return False
    return True


def _named_in(
    node: nodes.Node, findings: Findings, keys: Mapping[str, UserFunction], by_method: Mapping[str, list[UserFunction]]
) -> Iterator[UserFunction]:
    waiting = [node]
    resolved: set[int] = set()
    while waiting:
        for found in walk(waiting.pop()):
            rewritten = findings.rewrites.get(id(found))
            if rewritten is not None:
                waiting.append(rewritten)
            match found:
                case nodes.Call(function=target) if id(found) in findings.callees:
                    resolved.add(id(target))
                    callee = findings.callees[id(found)]
                    if callee in keys:
                        yield keys[callee]
                case nodes.Call(function=nodes.Field(value=receiver, name=name)) if is_silent(findings.types.get(id(receiver), UNKNOWN)):
                    yield from by_method.get(name, ())
                case nodes.Name(name=name) if name in keys and id(found) not in resolved:
                    yield keys[name]


def _not_generic(statements: tuple[nodes.Statement, ...]) -> Iterator[nodes.Statement]:
    for statement in statements:
        members = statement.members if isinstance(statement, nodes.Impl) else (statement,)
        yield from (m for m in members if not (isinstance(m, nodes.Trait) or (isinstance(m, nodes.Function) and m.type_parameters)))


def without_generics(program: nodes.Program) -> nodes.Program:
    """The program as it is compiled: with copies of generic functions and without these, and without traits."""

    def kept(statement: nodes.Node) -> bool:
        return not (isinstance(statement, nodes.Trait) or (isinstance(statement, nodes.Function) and bool(statement.type_parameters)))

    def inner(node: nodes.Node) -> nodes.Node:
        match node:
            case nodes.Block(statements=statements) if not all(map(kept, statements)):
                return evolve(node, statements=tuple(filter(kept, statements)))
            case nodes.Impl(members=members) if not all(isinstance(m, nodes.Function) and kept(m) for m in members):
                return evolve(node, members=tuple(m for m in members if isinstance(m, nodes.Function) and kept(m)))
        return node

    return mapped(evolve(program, statements=tuple(filter(kept, program.statements))), inner)


def without_unused_open_copies(program: nodes.Program) -> nodes.Program:
    """The program without the copies that only importers and Python call. `program` has its generic functions."""
    generic = {one.name for one in program.statements if isinstance(one, nodes.Function) and one.type_parameters}
    copies = {one.name: one for one in program.statements if isinstance(one, nodes.Function) and not one.type_parameters}
    others = [one for one in program.statements if getattr(one, "name", "") not in generic]
    calls = [node for one in others for node in walk(one) if isinstance(node, nodes.Call | nodes.Name)]
    used = {node.callee if isinstance(node, nodes.Call) else node.name for node in calls}
    dropped = {id(copies[name]) for name in generic & set(copies) - used}
    return evolve(program, statements=tuple(one for one in program.statements if id(one) not in dropped))
