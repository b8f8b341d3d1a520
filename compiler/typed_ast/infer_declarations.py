"""Declarations that need a check of their own: `param`, `config`, `import`, `test`, `render`."""

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.checker import Checker, checks
from compiler.typed_ast.constants import constant
from compiler.typed_ast.conversions import Fit, fit, strong
from compiler.typed_ast.elsewhere import MODULES
from compiler.typed_ast.levels import FLOATS, PRODUCTS
from compiler.typed_ast.nodes import (
    Config,
    FieldValue,
    Function,
    Import,
    ImportForm,
    IntLiteral,
    Module,
    Node,
    Program,
    ProgramParameter,
    Range,
    Render,
    Test,
    TypeAlias,
)
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ERROR, I64, STRING, UNIT, UNKNOWN, Type

CONFIG_KEYS = ("device", "compute_device", "floats", "precision", "products", "seed")
CONFIG_WORDS = {"floats": FLOATS, "products": PRODUCTS}
"""Keys whose values are among a few words, which a compiler must know before it compiles."""


@checks(Function, TypeAlias)
def declared_before(checker: Checker, node: Node, scope: Scope) -> Type:
    return UNIT


@checks(Test)
def test_block(checker: Checker, node: Test, scope: Scope) -> Type:
    checker.infer(node.body, scope, used=False)
    return UNIT


@checks(Render)
def render(checker: Checker, node: Render, scope: Scope) -> Type:
    type_ = checker.infer(node.value, scope)
    if type_ == UNIT:
        checker.report("0203", "there is nothing to render: the value is ()", node.value.span)
    for option in node.options:
        checker.infer(option.value, scope)
    return UNIT


@checks(Config)
def config(checker: Checker, node: Config, scope: Scope) -> Type:
    seen: dict[str, Span] = {}
    for entry in node.entries:
        span = entry.span if entry.span != NOWHERE else entry.value.span
        checker.infer(entry.value, scope)
        if entry.name not in CONFIG_KEYS:
            hint = did_you_mean(entry.name, CONFIG_KEYS) or "keys are " + ", ".join(f"`{k}`" for k in CONFIG_KEYS)
            checker.report("0202", f"`config` has no key `{entry.name}`", span, hint=hint)
        elif entry.name in seen:
            checker.report("0210", f"key `{entry.name}` is given twice", span, "", (Label(seen[entry.name], "first given here"),))
        seen.setdefault(entry.name, span)
        _config_value(checker, entry)
    return UNIT


def _config_value(checker: Checker, entry: FieldValue) -> None:
    value, found = constant(entry.value), checker.type_of(entry.value)
    if entry.name == "seed":
        if fit(found, I64) is Fit.NO or isinstance(value, float):
            checker.report("0203", f"`seed` is an int, not {found}", entry.value.span, f"this is {found}")
    elif entry.name in CONFIG_WORDS:
        if value not in CONFIG_WORDS[entry.name]:
            said = " or ".join(f'"{word}"' for word in CONFIG_WORDS[entry.name])
            checker.report("0203", f"`{entry.name}` is {said}, written out", entry.value.span)
    elif entry.name in CONFIG_KEYS:
        if fit(found, STRING) is Fit.NO:
            checker.report("0203", f"`{entry.name}` is a String, not {found}", entry.value.span, f"this is {found}")
        elif entry.name != "precision" and isinstance(value, str):
            checker.resolver.device(value, entry.value.span)
        elif isinstance(value, str) and value != "f32":
            checker.later(f"precision `{value}`", entry.value.span, 'write `precision: "f32"`, and the types of tensors where they differ')


def configured(program: Program, key: str) -> str | None:
    """What the program's `config` says of `key`, one of `CONFIG_WORDS`."""
    entries = [entry for node in program.statements if isinstance(node, Config) for entry in node.entries if entry.name == key]
    value = constant(entries[0].value) if entries else None
    return value if isinstance(value, str) and value in CONFIG_WORDS[key] else None


@checks(ProgramParameter)
def program_parameter(checker: Checker, node: ProgramParameter, scope: Scope) -> Type:
    before = scope.entries.get(node.name)
    if isinstance(before, Variable) and before.kind is VariableKind.PROGRAM_PARAMETER:
        checker.report("0210", f"`param {node.name}` is defined twice", node.span, "", (Label(before.span, "first defined here"),))
    type_: Type
    if node.annotation is not None:
        type_ = checker.resolver.resolve(node.annotation)
        reason = Label(node.annotation.span, "the type is declared here")
        placed(checker, node.default, scope, type_, f"the parameter `{node.name}`", reason)
    else:
        type_ = strong(checker.infer(node.default, scope))
    if node.range is not None:
        _check_default(checker, node, scope)
    scope.entries[node.name] = Variable(node.name, type_, VariableKind.PROGRAM_PARAMETER, node.span, declared=True, frame=checker.frame)
    return UNIT


def _check_default(checker: Checker, node: ProgramParameter, scope: Scope) -> None:
    assert node.range is not None
    if not isinstance(node.range, Range):
        checker.infer(node.range, scope)
        return
    low, high, value = constant(node.range.low), constant(node.range.high), constant(node.default)
    for bound in (node.range.low, node.range.high):
        checker.infer(bound, scope)
    if not (isinstance(low, (int, float)) and isinstance(high, (int, float)) and isinstance(value, (int, float))):
        return
    if value < low or value > high or (value == high and not node.range.inclusive and isinstance(node.default, IntLiteral)):
        checker.report(
            "0305",
            f"the default {value} is outside the range of `{node.name}`",
            node.default.span,
            "",
            (Label(node.range.span, "the range"),),
        )


@checks(Module)
def module_name(checker: Checker, node: Module, scope: Scope) -> Type:
    """`module shapes` names the file that it begins."""
    first = checker.program.statements[0] if checker.program is not None and checker.program.statements else node
    if checker.program is not None and node.span.path == checker.program.path and first is not node:
        others = (Label(first.span, "the first one"),)
        checker.report("0101", "`module` is the first statement of a file", node.span, "", others, hint="move the line to the top")
    return UNIT


@checks(Import)
def import_statement(checker: Checker, node: Import, scope: Scope) -> Type:
    module = ".".join(node.module)
    here = checker.find_module is not None and checker.find_module(node.module)
    known = module in checker.library.modules
    own = node.alias or node.module[-1]
    names = zip(node.names, node.bound, strict=True) if node.form is ImportForm.NAMES else ((own, own),)
    found: Type = UNKNOWN
    if checker.find_module is not None and not here and not known:
        hint = did_you_mean(module, checker.library.modules) or "a module is a program file beside this one"
        if node.module[0] in MODULES:
            hint = "leave the line out: the library's functions are always there"
        found = checker.report("0202", f"there is no module `{module}`", node.span, "not found", hint=hint)
    if node.form is ImportForm.EVERYTHING:
        checker.open_names = checker.open_names or not known
        return UNIT
    for name, called in names:
        bound = node.prefix + called
        if known and not here:
            is_there = node.form is not ImportForm.NAMES or _import_name(checker, node, module, name, scope)
            if is_there and (called != name or node.alias is not None):
                scope.entries[bound] = Variable(bound, UNKNOWN, VariableKind.LET, node.span, frame=checker.frame)
        else:
            scope.entries[bound] = Variable(bound, found, VariableKind.LET, node.span, frame=checker.frame)
    return UNIT


def _import_name(checker: Checker, node: Import, module: str, name: str, scope: Scope) -> bool:
    """Whether a module of the library has the name."""
    functions = checker.library.functions
    if name in functions or name in checker.library.constants or f"{module}::{name}" in functions or not checker.library.functions:
        return True
    hint = did_you_mean(name, functions)
    checker.report("0202", f"module `{module}` has no `{name}`", node.span, hint=hint)
    scope.entries[name] = Variable(name, ERROR, VariableKind.LET, node.span, frame=checker.frame)
    return False
