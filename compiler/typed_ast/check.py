"""The checker: a program's names, types and shapes. Reports every error of a file, one for each cause, and returns the tree anew
with its types filled in. It does not look into compute bodies: the rule that it is given does."""

from compiler.diagnostics import Diagnostics
from compiler.source import Span
from compiler.typed_ast import (
    infer_await,
    infer_calls,
    infer_compute,
    infer_declarations,
    infer_functions,
    infer_index,
    infer_values,
    later,
)
from compiler.typed_ast.checker import ZYNML_RULES, Checker, CheckerOf, ComputeOutcome, ComputeRule, FindModule, Frame, unknown_compute
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.elsewhere import NAMES, OF_MODULES
from compiler.typed_ast.error_types import error_types
from compiler.typed_ast.function_annotations import deprecated_uses, kept_promises
from compiler.typed_ast.generics import reached
from compiler.typed_ast.library import Library
from compiler.typed_ast.meaning import LanguageSettings, Meaning
from compiler.typed_ast.nodes import (
    BindingPattern,
    EnumDeclaration,
    Impl,
    LaterDeclaration,
    Let,
    Pattern,
    Program,
    ProgramParameter,
    Statement,
    Struct,
    Test,
    Trait,
    Try,
    TypeAlias,
)
from compiler.typed_ast.operator_traits import TRAITS
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.record_structs import with_record_structs
from compiler.typed_ast.resolve_types import top_numbers
from compiler.typed_ast.rules import CORE
from compiler.typed_ast.rules.control import statements
from compiler.typed_ast.rules.declared_types import check_declared
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.shadowed import shadowed
from compiler.typed_ast.trait_impls import with_whole_impls
from compiler.typed_ast.types import UNKNOWN
from compiler.typed_ast.unawaited import unawaited
from compiler.typed_ast.walk import walk
from runtime.records import frozen

RULE_FILES = (
    infer_await,
    infer_calls,
    infer_compute,
    infer_declarations,
    infer_functions,
    infer_index,
    infer_values,
    later,
)
"""Importing them fills the table of rules."""
ZYNML = Meaning(
    CORE.extended(ZYNML_RULES),
    LanguageSettings(parameters_change=True, untyped_parameters=True, result_inferred=True, both_at_once=True, written_type_arguments=True),
    at_top=frozenset((EnumDeclaration, Impl, ProgramParameter, Struct, Test, Trait, TypeAlias)),
    elsewhere=NAMES | OF_MODULES,
)


@frozen
class CheckedProgram:
    """The program with types, and what was found. Errors make the types of what they touch ErrorType."""

    program: Program
    diagnostics: Diagnostics


def check(
    program: Program,
    library: Library,
    compute_rule: ComputeRule = unknown_compute,
    find_module: FindModule | None = None,
    meaning: Meaning = ZYNML,
) -> CheckedProgram:
    """Checks one file against a library, by a language's rules. Never raises for what is wrong with the program. `find_module` says whether
    an imported module has a file; without it any import is believed."""
    program = with_whole_impls(with_record_structs(program))
    checker = checker_of(program, library, compute_rule, find_module, meaning)
    checker.top = _top_scope(program, checker)
    for statement in program.statements:
        if isinstance(statement, Struct | EnumDeclaration):
            check_declared(checker, statement)
    statements(checker, program.statements, checker.top)
    checker.analyse_blocks()
    wanted = reached(checker, program)
    typed = rebuild(program, checker.findings, lambda one: [copy for copy in checker.copies_of.get(id(one), ()) if id(copy) in wanted])
    for warning in (*unawaited(typed), *deprecated_uses(typed)):
        checker.add(warning)
    if not checker.diagnostics.errors:
        for fault in kept_promises(checker, typed):
            checker.add(fault)
    if library.warns_of_shadowing:
        for warning in shadowed(program, library):
            checker.add(warning)
    return CheckedProgram(typed, checker.diagnostics)


_TYPES = (TypeAlias, Struct, EnumDeclaration, Trait, Impl)


def checker_of(
    program: Program,
    library: Library,
    compute_rule: ComputeRule = unknown_compute,
    find_module: FindModule | None = None,
    meaning: Meaning = ZYNML,
) -> Checker:
    """A checker that knows the types that a program declares, and has looked at nothing yet."""
    checker: Checker = CheckerOf(
        meaning,
        Frame(top=True),
        None,
        library=library,
        compute_rule=compute_rule,
        check_function=infer_functions.generic_result,
        find_module=find_module,
        program=program,
    )
    checker.resolver.numbers = top_numbers(program)
    if Try not in meaning.refuses:
        checker.declarations.declare_all(error_types(program.statements), own=False)
    checker.declarations.declare_all(TRAITS.values(), own=False)
    _declare_types(checker, program)
    return checker


def _declare_types(checker: Checker, program: Program) -> None:
    """Tells of the program's types and methods before anything uses them."""
    for statement in program.statements:
        if isinstance(statement, LaterDeclaration):
            checker.open_names = checker.resolver.open_names = True
    declared = (s for s in program.statements if isinstance(s, _TYPES) or is_method(s))
    for fault in checker.declarations.declare_all(declared):
        checker.add(fault)
    for alias in checker.declarations.aliases.values():
        checker.resolver.within({parameter.name: UNKNOWN for parameter in alias.type_parameters}).resolve(alias.target)


def _top_scope(program: Program, checker: Checker) -> Scope:
    """The program's scope. A function runs later than it is declared: it sees the names of later lines too, but not their types;
    nor does it know which one is meant where a name is declared twice."""
    count: dict[str, int] = {}
    places: dict[str, Span] = {}
    for statement in program.statements:
        for name, span in _declared(statement):
            count[name] = count.get(name, 0) + 1
            places.setdefault(name, span)

    def unknown(name: str) -> Variable:
        return Variable(name, UNKNOWN, VariableKind.MUTABLE, places[name], declared=True, frame=checker.frame)

    checker.top_names = places
    top = Scope()
    beyond = Scope(entries={name: unknown(name) for name in count})
    declared = Scope(beyond, top.entries, top.ended)
    top.for_functions = Scope(declared, {name: unknown(name) for name, times in count.items() if times > 1})
    return top


def _declared(statement: Statement) -> list[tuple[str, Span]]:
    match statement:
        case Let(pattern=pattern):
            return _pattern_names(pattern)
        case ProgramParameter(name=name, span=span):
            return [(name, span)]
    return []


def _pattern_names(pattern: Pattern) -> list[tuple[str, Span]]:
    return [(node.name, node.span) for node in walk(pattern) if isinstance(node, BindingPattern)]


__all__ = ["CheckedProgram", "ComputeOutcome", "ComputeRule", "check", "checker_of", "unknown_compute"]
