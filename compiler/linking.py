"""A program and the modules that it imports become one tree: each module's declarations and statements stand where it is imported first,
under names of their own (`typed_ast/module_names`). So a module's structs, functions and constants are checked and compiled as the
program's own are, natively too. Modules of the library stay programs of their own."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from compiler.diagnostics import Diagnostic, Label, Severity, ZyntaxError
from compiler.source import Source, Sources, Span, display_path
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import defined_twice
from compiler.typed_ast.elsewhere import MODULES
from compiler.typed_ast.language import SessionLanguage
from compiler.typed_ast.module_names import Meaning_, ModuleNames, Names, Renaming, not_in_module
from compiler.typed_ast.module_order import module_order
from compiler.typed_ast.scope import name_place
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve, frozen


@frozen(eq=False)
class LinkedProgram:
    """`sources`: the modules' texts; `faults`: what is wrong with imports, and with files that are no programs; `known`: modules that
    imports in `program` name and of which nothing more is said; `files`: what was looked for beside the program, by path: the text, or None
    where there was none."""

    program: nodes.Program
    sources: tuple[Source, ...] = ()
    faults: tuple[Diagnostic, ...] = ()
    known: frozenset[tuple[str, ...]] = frozenset()
    files: Mapping[str, str | None] = Factory(dict)


def link(source: Source, program: nodes.Program, language: SessionLanguage, sources: Sources) -> LinkedProgram:
    """The program with its modules. Never raises for what is wrong with them."""
    if not any(isinstance(node, nodes.Import) for node in walk(program)):
        return LinkedProgram(program)
    return _Linker(source, program, language, sources).linked()


@define(eq=False)
class _Linker:
    """`texts` and `names` by file; `broken`: files that are no programs."""

    source: Source
    program: nodes.Program
    language: SessionLanguage
    sources: Sources
    texts: dict[Path, tuple[Source, nodes.Program]] = Factory(dict)
    names: dict[Path, ModuleNames] = Factory(dict)
    broken: set[Path] = Factory(set)
    known: set[tuple[str, ...]] = Factory(set)
    faults: list[Diagnostic] = Factory(list)
    placed: set[Path] = Factory(set)
    statements: list[nodes.Statement] = Factory(list)
    cases: dict[str, dict[str, str]] = Factory(dict)
    looked_for: dict[Path, bool] = Factory(dict)

    def linked(self) -> LinkedProgram:
        own = Path(self.source.path).resolve()
        self.texts[own] = self.source, self.program
        try:
            order = module_order(own, self._imports)
        except ZyntaxError as error:
            every = frozenset(node.module for node in walk(self.program) if isinstance(node, nodes.Import))
            return LinkedProgram(self.program, faults=(*self.faults, *error.diagnostics), known=every)
        taken: set[str] = set()
        for file in (*order, own):
            if file not in self.broken:
                self._name(file, own, taken)
        self._place(own)
        files = tuple(self.texts[file][0] for file in order if file not in self.broken)
        program = evolve(self.program, statements=tuple(self.statements))
        texts = {str(file): self.texts[file.resolve()][0].text if is_there else None for file, is_there in self._looked_for()}
        return LinkedProgram(program, files, tuple(self.faults), frozenset(self.known), texts)

    # ---- files ----

    def _looked_for(self) -> Iterator[tuple[Path, bool]]:
        """Where modules were looked for, and whether one was there; but for those that aren't taken in."""
        return ((file, there) for file, there in self.looked_for.items() if not there or file.resolve() in self.texts)

    def _imports(self, file: Path) -> Iterator[tuple[Span, Path]]:
        if file in self.broken:
            return
        for node in _imports_of(self.texts[file][1]):
            found = self._file(node)
            if found is not None:
                if found not in self.texts and found not in self.broken:
                    self._read(found, node)
                yield node.span, found

    def _read(self, file: Path, node: nodes.Import) -> None:
        shown = self._beside(node)
        try:
            self.texts[file] = self.language.read_module(shown if shown is not None else file, self.sources)
        except ZyntaxError as error:
            self.broken.add(file)
            self.faults += error.diagnostics

    def _beside(self, node: nodes.Import) -> Path | None:
        folder = Path(node.span.path).parent.joinpath(*node.module)
        for file in (folder.with_suffix(ending) for ending in self.language.module_endings):
            is_there = self.looked_for[file] = file.is_file()
            if is_there:
                return file
        return None

    def _file(self, node: nodes.Import) -> Path | None:
        """The user's file that an import means; None where it is the library's, or there is none, which is reported once."""
        beside = self._beside(node)
        if beside is not None:
            root, file = Path(self.source.path).resolve().parent, beside.resolve()
            if file.is_relative_to(root):
                return file
            self._report_outside(node, beside, file)
        elif self.language.library_module(node.module) is None and ".".join(node.module) not in self.language.library.modules:
            self._report_missing(node)
        return None

    def _report_outside(self, node: nodes.Import, beside: Path, file: Path) -> None:
        self.known.add(node.module)
        message = f"module `{'.'.join(node.module)}` lies outside of the program's folder: `{display_path(beside)}` is a link to `{file}`"
        fault = Diagnostic("0202", message, node.span, hint="put the file itself beside the program")
        if fault not in self.faults:
            self.faults.append(fault)

    def _report_missing(self, node: nodes.Import) -> None:
        self.known.add(node.module)
        module = ".".join(node.module)
        hint = did_you_mean(module, [*self.language.library.modules, *self._modules_beside(node)])
        hint = hint or "a module is a program file beside this one"
        if node.module[0] in MODULES:
            hint = "leave the line out: the library's functions are always there"
        fault = Diagnostic("0202", f"there is no module `{module}`", node.span, "not found", hint=hint)
        if fault not in self.faults:
            self.faults.append(fault)

    def _modules_beside(self, node: nodes.Import) -> Iterator[str]:
        """The modules in the folder where the file was looked for."""
        folder = Path(node.span.path).parent.joinpath(*node.module[:-1])
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.suffix in self.language.module_endings and file.is_file() and file.stem.isidentifier():
                yield ".".join((*node.module[:-1], file.stem))

    # ---- names ----

    def _name(self, file: Path, own: Path, taken: set[str]) -> None:
        program = self.texts[file][1]
        module, prefix = file.stem, ""
        if file != own:
            word, number = "".join(c if c.isalnum() else "_" for c in file.stem), 1
            while (prefix := f"{word}{number if number > 1 else ''}·") in taken:
                number += 1
            taken.add(prefix)
        self.names[file] = ModuleNames.of(program, module, prefix)
        self.cases.update(self.names[file].cases)

    def _brought(self, node: nodes.Import, report: bool = True) -> Names:
        """What an import makes of names; nothing where its file is no program, or the library's."""
        file = self._file(node)
        module = None if file is None else self.names.get(file)
        if module is None:
            if file is not None:
                self.known.add(node.module)
            return self._bound(node)
        match node.form:
            case nodes.ImportForm.MODULE:
                return {node.alias or node.module[-1]: module}
            case nodes.ImportForm.EVERYTHING:
                return {**module.cases_of(module.public), **module.public}
        names: dict[str, Meaning_] = {**module.cases_of(node.names)}
        for name, bound in zip(node.names, node.bound, strict=True):
            if name not in module.names:
                if report:
                    self._add(not_in_module(module, name, node.span))
                continue
            if name.startswith("_") and report:
                self._private(module.module, name, node.span)
            names[bound] = module.names[name]
        return names

    def _bound(self, node: nodes.Import) -> Names:
        """What an import that stays in the tree binds: in a module the names have its sign."""
        file = next((one for one, (source, _) in self.texts.items() if source.path == node.span.path), None)
        prefix = "" if file is None else self.names[file].prefix
        if not prefix or self._of_library(node):
            return {}
        match node.form:
            case nodes.ImportForm.MODULE:
                names = [node.alias or node.module[-1]]
            case nodes.ImportForm.NAMES:
                names = [*node.bound]
            case nodes.ImportForm.EVERYTHING:
                library = self.language.library_module(node.module)
                names = [] if library is None else [*ModuleNames.of(self.language.read_module(library, self.sources)[1], "", "").public]
        return {name: prefix + name for name in names}

    def _of_library(self, node: nodes.Import) -> bool:
        """Whether an import is of what is always there."""
        return ".".join(node.module) in self.language.library.modules and self._file(node) is None and node.alias is None

    def _add(self, fault: Diagnostic) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def _private(self, module: str, name: str, span: Span) -> None:
        message = f"`{name}` is private to module `{module}`"
        hint = "a name that begins with `_` may change with its module: use what the module offers"
        self._add(Diagnostic("0622", message, span, hint=hint, severity=Severity.WARNING))

    def _top_names(self, file: Path) -> Names:
        """What names mean at a file's top: its own go before what an import brings with all the rest, but hide nothing that one names."""
        own = self.names[file]
        everything: dict[str, Meaning_] = {}
        named: dict[str, Meaning_] = {}
        statements = self.texts[file][1].statements
        declared = {getattr(statement, "name", ""): statement for statement in statements if isinstance(statement, nodes.Declaration)}
        for node in statements:
            if not isinstance(node, nodes.Import):
                continue
            brought = self._brought(node)
            if node.form is nodes.ImportForm.EVERYTHING:
                everything |= brought
                continue
            for name, meaning in brought.items():
                if name in own.names and name in declared and (name in node.bound or node.form is nodes.ImportForm.MODULE):
                    twice = defined_twice(f"`{name}`", name_place(declared[name]), node.span)
                    self._add(evolve(twice, others=(Label(node.span, "imported here"),)))
                named[name] = meaning
        names = {**everything, **named, **own.cases_of(own.names), **own.names}
        return {name: meaning for name, meaning in names.items() if meaning != name}

    # ---- the tree ----

    def _place(self, file: Path) -> None:
        """The statements of a file, behind those of the modules that it imports."""
        self.placed.add(file)
        program = self.texts[file][1]
        names = self._top_names(file)
        is_own = program is self.program
        renaming = Renaming(self.names[file], self.cases, self._brought, self._keeps, self._add, self._private)
        for statement in program.statements:
            for node in _imports_of(statement):
                found = self._file(node)
                if found is not None and found not in self.placed and found in self.names:
                    self._place(found)
            if isinstance(statement, nodes.Import) and (not self._keeps(statement) or (not is_own and self._of_library(statement))):
                continue
            if is_own or not isinstance(statement, nodes.Test):
                self.statements.append(renaming.top(statement, names))

    def _keeps(self, node: nodes.Import) -> bool:
        """Whether an import stays in the tree: its module is the library's, or nothing is known of it."""
        file = self._file(node)
        return file is None or file not in self.names


def _imports_of(node: nodes.Node) -> Iterator[nodes.Import]:
    return (found for found in walk(node) if isinstance(found, nodes.Import))
