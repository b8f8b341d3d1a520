"""Infers the effects of a program's functions over their calls: which are compiled natively, and why the others aren't."""

from compiler.typed_ast import nodes
from compiler.typed_ast.body_effects import BodyEffects
from compiler.typed_ast.body_scopes import NativeCall
from compiler.typed_ast.callees_first import callees_first
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.constants import constant
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.function_effects import FunctionEffects, ProgramEffects
from compiler.typed_ast.types import Scalar
from compiler.typed_ast.walk import walk


def effects(checker: Checker, program: nodes.Program, native_call: NativeCall) -> ProgramEffects:
    """Of the typed tree of a program without errors. `checker` knows its types."""
    found = ProgramEffects(constants=_constants(program))
    for statement in program.statements:
        for name, function in checker.declarations.by_name((statement,)).items():
            if "::" in name or not is_method(function):
                found.functions[name] = FunctionEffects(name, function)
    for own in found.functions.values():
        BodyEffects(checker, found, own, native_call).look()
    for name in _circular(found):
        found.functions[name].loops = True
    found.spread()
    return found


def _constants(program: nodes.Program) -> dict[str, nodes.Let]:
    """Top-level variables that never change and whose numbers are written out, so far as nothing that runs before them could read them."""
    count: dict[str, int] = {}
    for statement in program.statements:
        for name in _names_of(statement):
            count[name] = count.get(name, 0) + 1
    found: dict[str, nodes.Let] = {}
    for statement in program.statements:
        match statement:
            case nodes.Function() | nodes.Struct() | nodes.EnumDeclaration() | nodes.TypeAlias() | nodes.Test():
                continue
            case nodes.Let(pattern=nodes.BindingPattern(name=name), mutable=False, value=nodes.Expression() as value):
                plain = isinstance(constant(value), int | float) and isinstance(value.type, Scalar)
                if plain and count[name] == 1:
                    found[name] = statement
                    continue
        if any(isinstance(node, nodes.Call) for node in walk(statement)):
            break
    return found


def _names_of(statement: nodes.Statement) -> list[str]:
    match statement:
        case nodes.Let(pattern=pattern):
            return [node.name for node in walk(pattern) if isinstance(node, nodes.BindingPattern)]
        case nodes.ProgramParameter(name=name) | nodes.Function(name=name):
            return [name]
    return []


def _circular(program: ProgramEffects) -> list[str]:
    """The functions that call themselves, by however many steps."""
    ends: set[str] = set()
    """Those that can't, since nothing that they lead to does."""
    open: list[str] = []
    for name in callees_first(program.functions, lambda name: program.functions[name].calls):
        if program.functions[name].calls.keys() <= ends:
            ends.add(name)
        else:
            open.append(name)
    return [name for name in open if _comes_back(program, name)]


def _comes_back(program: ProgramEffects, name: str) -> bool:
    """Whether a function calls itself, by however many steps."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        more = program.functions[waiting.pop()].calls.keys() - reached
        reached |= more
        waiting += more
    return name in reached
