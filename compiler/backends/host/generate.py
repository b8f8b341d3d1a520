"""A whole program to a Python module: functions first, then the top-level statements as one function. Also compute blocks,
imports and the other declarations."""

import ast
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from compiler.backends.host.destination import DISCARD
from compiler.backends.host.emit import load, not_supported
from compiler.backends.host.functions import Functions, function_definition
from compiler.backends.host.naming import (
    MARK,
    DeclaredFunction,
    ImportedModule,
    LibraryModule,
    LibraryName,
    ModuleMember,
    PythonFrame,
    PythonScope,
    PythonVariable,
)
from compiler.backends.host.positions import Positions
from compiler.backends.host.runtime import HostRuntime
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.free_names import captured_names
from compiler.typed_ast.handed_on import deferred_blocks
from compiler.typed_ast.hot_loops import HotLoop
from compiler.typed_ast.library import Library
from compiler.typed_ast.types import UNKNOWN, Type
from compiler.typed_ast.walk import walk

TOP = f"{MARK}top"
NO_LOOPS: Mapping[int, HotLoop] = MappingProxyType({})

class Generator(Functions):
    """Makes the module of one program."""

    def __init__(
        self,
        program: nodes.Program,
        library: Library,
        positions: Positions,
        runtime: HostRuntime,
        alone: bool = True,
        hot_loops: Mapping[int, HotLoop] = NO_LOOPS,
        eager: bool = False,
    ) -> None:
        """`alone`: no other file reads the variables of the program's top. `hot_loops`: those that may go on natively, by their nodes'
        identities; `eager`: after their first turn."""
        super().__init__(program, library, positions)
        self.hot_loops, self.eager, self.heats = hot_loops, eager, {}
        self.runtime = runtime
        self.tests: list[tuple[str, str]] = []
        self.compute_sites: list[nodes.Compute] = []
        self._module_frame = self.frame
        self._top = PythonFrame(parent=self.frame, is_top=True)
        self._ahead = self.scope
        self._globals: set[str] = set()
        self._waiting, self._readers = deferred_blocks(program, alone)

    # ---- the module ------------------------------------------------------------------------------------------------

    def module(self) -> ast.Module:
        """`_ahead` is the outermost scope: functions, and variables for those who mention them before their place."""
        for statement in self.program.statements:
            for function in _functions(statement):
                self.announce(function)
        for name, type_ in _top_level_names(self.program):
            if name not in self._ahead.names:
                self._ahead.names[name] = self._global(name, type_)
        self.scope = PythonScope(self._ahead)
        definitions: list[ast.stmt] = []
        with self.collected() as statements:
            for statement in self.program.statements:
                with self.collected() as written:
                    self._top_level(statement)
                (definitions if isinstance(statement, (nodes.Function, nodes.Impl, nodes.Test)) else statements).extend(written)
        head: list[ast.stmt] = [ast.Global(sorted(self._globals))] if self._globals else []
        definitions.append(function_definition(TOP, [], [*head, *statements] or [ast.Pass()]))
        return ast.Module(definitions, [])

    def _top_level(self, statement: nodes.Statement) -> None:
        match statement:
            case nodes.Function() | nodes.Impl():
                for function in _functions(statement):
                    declared = self.methods.get(self.method_names.get(id(function), "")) or self._ahead.names[function.name]
                    if isinstance(declared, DeclaredFunction):
                        self.define(declared, function)
            case nodes.Test(name=name, body=body):
                python = self.frame.python_name(f"{MARK}test {len(self.tests)}")
                self.tests.append((name, python))
                self.define_body(python, lambda: self.block_into(body, DISCARD), statement.span)
            case _:
                self.frame = self._top
                self.statement(statement)
                self.frame = self._module_frame

    def declare(self, name: str, type_: Type = UNKNOWN, mutable: bool = False, boxed: bool = False) -> PythonVariable:
        """Variables of the top level itself are globals of the module; the first of a name is the one that was announced."""
        if self.frame is not self._top or self.scope.parent is not self._ahead:
            return super().declare(name, type_, mutable, boxed)
        announced = self._ahead.names.get(name)
        first = name not in self.scope.names
        variable = announced if first and isinstance(announced, PythonVariable) else self._global(name, type_)
        variable.type, variable.mutable = type_, mutable
        self.scope.names[name] = variable
        return variable

    def _global(self, name: str, type_: Type) -> PythonVariable:
        variable = PythonVariable(name, self._module_frame.python_name(name), self._module_frame, type_, is_global=True)
        self._globals.add(variable.python)
        return variable

    def exports(self) -> dict[str, str]:
        """Names that importers see, and their keys among the globals."""
        ahead = {n: b.python for n, b in self._ahead.names.items() if isinstance(b, (PythonVariable, DeclaredFunction))}
        return ahead | {n: b.python for n, b in self.scope.names.items() if isinstance(b, PythonVariable)}

    def native_names(self) -> dict[str, str]:
        """The names of functions and methods among the globals, by those that they are called by."""
        plain = {function.name: function.python for function in self.functions if id(function.node) not in self.method_names}
        return plain | {name: method.python for name, method in self.methods.items()}

    def runtime_functions(self) -> dict[str, Callable[..., object]]:
        return dict(self.runtime.functions)

    # ---- compute ---------------------------------------------------------------------------------------------------

    def compute(self, node: nodes.Compute) -> ast.expr:
        """Inputs are evaluated as written; then every outer variable that the block mentions, by its name."""
        site = len(self.compute_sites)
        self.compute_sites.append(node)
        values = self.in_order([self._taken(i.value, node) for i in node.inputs], node.span)
        names = [i.name for i in node.inputs]
        for name in captured_names(node):
            if name not in names and isinstance(self._declared_above(name), (PythonVariable, ModuleMember)):
                names.append(name)
                values.append(self._waiting_for(name, node) or self.name(name, node.span))
        table = ast.Dict([ast.Constant(name) for name in names], list(values))
        arguments: list[ast.expr] = [self.constant(site), table]
        helper = "compute_chain" if id(node) in self._readers else "compute"
        if id(node) in self._waiting:
            helper = "compute_later"
            arguments.append(ast.Constant(self._waiting[id(node)]))
        return self.made(ast.Call(load(f"{MARK}{helper}"), arguments, []), node.span, *values)

    def _declared_above(self, name: str) -> object:
        """What a name means, but for variables of the top whose declaration is still to come: in a block they are sizes."""
        scope: PythonScope | None = self.scope if self.frame is self._top else None
        while scope is not None and scope is not self._ahead and name not in scope.names:
            scope = scope.parent
        return None if scope is self._ahead and isinstance(scope.find(name), PythonVariable) else self.scope.find(name)

    def _taken(self, value: nodes.Expression, reader: nodes.Compute) -> Callable[[], ast.expr]:
        """How an input of a block is made."""
        waiting = self._waiting_for(value.name, reader) if isinstance(value, nodes.Name) else None
        return self.maker(value) if waiting is None else lambda: waiting

    def _waiting_for(self, name: str, reader: nodes.Compute) -> ast.expr | None:
        """The block that waits, under this name, for one that takes it as it is; None for other values and readers."""
        variable = self.scope.find(name)
        if id(reader) not in self._readers or not isinstance(variable, PythonVariable) or not variable.waits:
            return None
        self.note_use(variable)
        return self.at(load(variable.python), reader.span)

    def let(self, node: nodes.Let) -> None:
        super().let(node)
        if isinstance(node.value, nodes.Compute) and id(node.value) in self._waiting and isinstance(node.pattern, nodes.BindingPattern):
            variable = self.scope.find(node.pattern.name)
            assert isinstance(variable, PythonVariable)
            variable.waits = True

    # ---- declarations ----------------------------------------------------------------------------------------------

    def declaration(self, node: nodes.Declaration) -> None:
        match node:
            case nodes.Function():
                self.define(self.announce(node), node)
            case nodes.ProgramParameter():
                self._program_parameter(node)
            case nodes.Config(entries=entries):
                values = self.in_order([self.maker(e.value) for e in entries], node.span)
                table = ast.Dict([ast.Constant(e.name) for e in entries], list(values))
                call = ast.Call(load(f"{MARK}configure"), [table, self.constant(node.span)], [])
                self.write(ast.Expr(self.made(call, node.span, *values)), node.span)
            case nodes.Import():
                self._import(node)
            case nodes.Module() | nodes.TypeAlias() | nodes.Struct() | nodes.EnumDeclaration():
                pass
            case nodes.LaterDeclaration(feature=feature):
                raise not_supported(feature, node.span, "leave it out")
            case _:
                raise AssertionError(f"a declaration of class {type(node).__name__}")

    def _program_parameter(self, node: nodes.ProgramParameter) -> None:
        declared = self.resolve(node.annotation)
        type_ = declared if declared != UNKNOWN else strong(node.default.type)
        parts: list[Callable[[], ast.expr]] = [lambda: self.converted(node.default, type_)]
        bounds: ast.expr = ast.Constant(None)
        if isinstance(node.range, nodes.Range):
            parts += [self.maker(node.range.low, type_), self.maker(node.range.high, type_)]
        values = self.in_order(parts, node.span)
        if isinstance(node.range, nodes.Range):
            bounds = self.help("bounds", node.range.span, values[1], values[2], ast.Constant(node.range.inclusive))
        call = ast.Call(load(f"{MARK}parameter"), [ast.Constant(node.name), values[0], bounds, self.constant(node.span)], [])
        given = self.convert(self.made(call, node.span, *values), UNKNOWN, type_, node.span)
        self.bind_name(node.name, given, type_, False, node.span)

    def _import(self, node: nodes.Import) -> None:
        """A module's namespace is at hand when code is made; its statements run where the import stands."""
        program = self.runtime.module(node.module, node.span)
        dotted = ".".join(node.module)
        if program is None:
            if node.form is nodes.ImportForm.NAMES:
                self._import_from_library(node)
            elif node.form is nodes.ImportForm.MODULE and node.alias is not None:
                self.enter(node.prefix + node.alias, LibraryModule(dotted))
            return
        python = f"{MARK}module·{dotted}"
        self.constants[python] = program.namespace
        self.constants[f"{MARK}start·{dotted}"] = program.start
        self.write(ast.Expr(ast.Call(load(f"{MARK}start·{dotted}"), [], [])), node.span)
        module = ImportedModule(dotted, python, program.names)
        match node.form:
            case nodes.ImportForm.MODULE:
                self.enter(node.prefix + (node.alias or node.module[-1]), module)
            case nodes.ImportForm.NAMES:
                for name, bound in zip(node.names, node.bound, strict=True):
                    if name not in module.names:
                        raise ZyntaxError(Diagnostic("0202", f"module `{dotted}` has no `{name}`", node.span))
                    self._enter_member(ModuleMember(name, module), node.prefix + bound)
            case nodes.ImportForm.EVERYTHING:
                for name in module.names:
                    if not name.startswith("_"):
                        self._enter_member(ModuleMember(name, module), node.prefix + name)

    def _enter_member(self, member: ModuleMember, name: str) -> None:
        """Functions above the import may use what it brings, too."""
        self.enter(name, member)
        if self.scope.parent is self._ahead:
            self._ahead.names.setdefault(name, member)

    def _import_from_library(self, node: nodes.Import) -> None:
        for name, bound in zip(node.names, node.bound, strict=True):
            candidates = (name, "::".join((*node.module, name)), f"{node.module[-1]}::{name}")
            entry = next((self.library.functions[c] for c in candidates if c in self.library.functions), None)
            if entry is not None:
                self.enter(node.prefix + bound, LibraryName(name, entry))
            elif name not in self.library.constants:
                raise ZyntaxError(Diagnostic("0202", f"module `{'.'.join(node.module)}` has no `{name}`", node.span))


def _functions(statement: nodes.Statement) -> list[nodes.Function]:
    members = statement.members if isinstance(statement, nodes.Impl) else (statement,)
    return [member for member in members if isinstance(member, nodes.Function)]


def _top_level_names(program: nodes.Program) -> Iterator[tuple[str, Type]]:
    for statement in program.statements:
        for written in statement.written if isinstance(statement, nodes.Inlined) else (statement,):
            yield from _names_of(written)


def _names_of(statement: nodes.Statement) -> Iterator[tuple[str, Type]]:
    match statement:
        case nodes.Let(pattern=pattern):
            for name in _pattern_names(pattern):
                yield name, UNKNOWN
        case nodes.ProgramParameter(name=name):
            yield name, UNKNOWN


def _pattern_names(pattern: nodes.Pattern) -> Iterator[str]:
    return (node.name for node in walk(pattern) if isinstance(node, nodes.BindingPattern))
