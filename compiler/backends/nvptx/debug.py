"""Line information: which line of which source file an instruction comes from, as LLVM's metadata. Directives only (`.loc`,
`.file`): anything more would mark the PTX as debug code, which isn't optimised."""

from compiler.backends.llvm.writer import FunctionWriter, ModuleWriter
from compiler.source import Sources, Span
from runtime.records import Factory, define


@define
class Debug:
    """The locations of one module. Without sources there are none."""

    module: ModuleWriter
    sources: Sources | None
    _unit: str = ""
    _scope: str = ""
    _files: dict[str, str] = Factory(dict)
    _scopes: dict[str, str] = Factory(dict)
    _main: str = ""
    _locations: dict[tuple[str, int, int], str] = Factory(dict)

    def begin(self, w: FunctionWriter, span: Span | None) -> None:
        """Start a kernel that stands at `span`; what has no span of its own lies there."""
        self._scopes, self._scope, self._locations = {}, "", {}
        position = self._place(span)
        if position is None:
            return
        path, line, _ = position
        if not self._unit:
            text = f'!DICompileUnit(language: DW_LANG_C, file: {self._file(path)}, producer: "zyntax", isOptimized: true, '
            self._unit = self.module.metadata(text + "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)", distinct=True)
            self.module.named("llvm.dbg.cu", self._unit)
            self.module.named("llvm.module.flags", self.module.metadata('!{i32 2, !"Debug Info Version", i32 3}'))
        self._main = path
        kind = self.module.metadata("!DISubroutineType(types: !{})")
        text = f'!DISubprogram(name: "{w.name}", scope: {self._file(path)}, file: {self._file(path)}, line: {line}, '
        text += f"type: {kind}, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        self._scope = self.module.metadata(text, distinct=True)
        w.attributes = f"{w.attributes} !dbg {self._scope}".strip()
        w.location = self.location(span, "")

    def location(self, span: Span | None, before: str) -> str:
        """What lines of an instruction at `span` carry; `before` when that is nowhere."""
        position = self._place(span)
        if not self._scope or position is None:
            return before
        if position not in self._locations:
            path, line, column = position
            text = f"!DILocation(line: {line}, column: {column}, scope: {self._scope_of(path)})"
            self._locations[position] = f", !dbg {self.module.metadata(text)}"
        return self._locations[position]

    def _place(self, span: Span | None) -> tuple[str, int, int] | None:
        source = self.sources.get(span.path) if self.sources is not None and span is not None else None
        if source is None or span is None:
            return None
        return (span.path, *source.line_and_column(span.start))

    def _file(self, path: str) -> str:
        if path not in self._files:
            name = "".join(f"\\{ord(c):02X}" if c in '"\\' else c for c in path)
            self._files[path] = self.module.metadata(f'!DIFile(filename: "{name}", directory: "")')
        return self._files[path]

    def _scope_of(self, path: str) -> str:
        """The kernel, or a block of it that lies in another file."""
        if path == self._main:
            return self._scope
        if path not in self._scopes:
            text = f"!DILexicalBlockFile(scope: {self._scope}, file: {self._file(path)}, discriminator: 0)"
            self._scopes[path] = self.module.metadata(text)
        return self._scopes[path]
