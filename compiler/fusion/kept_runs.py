"""Runs of programs that the user's cache keeps: the host code of a program that was run before, and what machine code launches for it.
Where the text, the files that it imports, the options, the compiler and the machine are the same, a run begins without parser, checker and
LLVM. What isn't known from there makes the program's session, which goes on as if there were no cache."""

from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from compiler.backends.host.kept import PYTHON, layouts_in_words, loaded
from compiler.backends.host.loaded import HostCode
from compiler.backends.host.positions import DirectLookup, Positions
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion.host_runtime import ProgramRuntime
from compiler.fusion.kept_launches import KeptLaunches
from compiler.launch.cache import RUNS
from compiler.launch.kept_programs import as_diagnostic
from compiler.options import CompileOptions, origin, tier_of
from compiler.source import NOWHERE, Source, Sources, Span, display_path
from compiler.syntax.read import read_source
from runtime.cache.store import store
from runtime.cpu import detect
from runtime.device import present_devices
from runtime.records import Factory, as_plain, define, evolve
from runtime.unawaited import Unawaited

if TYPE_CHECKING:
    from compiler.backends.host.loaded import HostProgram
    from compiler.devices.placement import PlacedBlock
    from compiler.launch.native_calls.learn import BlocksFunction
    from compiler.linking import LinkedProgram
    from compiler.typed_ast import nodes
    from compiler.typed_ast.check import CheckedProgram
    from compiler.typed_ast.language import SessionLanguage

CPU = ("cpu",)


def _unheard(warning: Diagnostic) -> None:
    """Warnings about the library are no business of its users."""


class CompiledSession(Protocol):
    """A program that was compiled as if there were no cache, or will be once it is asked for something."""

    source: Source
    options: CompileOptions
    unawaited: Unawaited
    warned_at_launch: bool
    is_library: bool

    @property
    def linked(self) -> "LinkedProgram": ...

    @property
    def checked(self) -> "CheckedProgram": ...

    @property
    def host(self) -> "HostProgram": ...

    def already_said(self, warnings: Iterable[Diagnostic]) -> None: ...

    def same_blocks(self) -> list[int]: ...

    def compute_site(self, number: int) -> "nodes.Compute": ...

    def block(self, compute: "nodes.Compute") -> "PlacedBlock": ...

    def blocks_function(self, name: str) -> "BlocksFunction | None": ...

    def module(self, path: tuple[str, ...], span: Span) -> "HostProgram | None": ...

    def library_program(self, source: Source, program: "nodes.Program") -> "HostProgram": ...

    def opened(self, file: Path) -> "CompiledSession": ...


def _origin(source: Source, options: CompileOptions, is_library: bool = False) -> tuple[str, ...] | None:
    """All that a run is made of besides the compiler and what the program imports; None for one that isn't kept."""
    heard = options.explain, options.explain_tiers, options.launched
    if store() is None or options.sanitize or options.dry or options.device not in (None, *CPU) or any(one is not None for one in heard):
        return None
    machine = detect.processor(), str(detect.threads()), *present_devices()
    return *origin(source, options), options.native, tier_of(options), "library" if is_library else "program", *machine


def launches_of(session: CompiledSession) -> KeptLaunches | None:
    """Of a program that is run for the first time; None where it isn't kept."""
    made_of = _origin(session.source, session.options, session.is_library)
    return None if made_of is None else KeptLaunches(made_of, session.unawaited.futures, lambda: not session.warned_at_launch)


def keep(session: CompiledSession, launches: KeptLaunches) -> None:
    """Puts a run that went well into the cache. One that warned at a launch isn't there: another run has to warn, too."""
    if session.host.portable is None or session.warned_at_launch:
        return
    head = {
        "host": session.host.portable.head,
        "layouts": layouts_in_words(session.host.layouts),
        "same": session.same_blocks(),
        "files": {path: None if text is None else _hash(text) for path, text in session.linked.files.items()},
        "others": [source.path for source in session.linked.sources],
        "warnings": [as_plain(warning) for warning in session.checked.diagnostics.warnings],
    }
    _put(launches, head, session.host.portable.code)


def _put(launches: KeptLaunches, head: dict[str, Any], code: bytes) -> None:
    RUNS.keep(lambda: _name(launches.origin), {**head, "blocks": launches.blocks, "chains": launches.chains}, code)


def _name(made_of: tuple[str, ...]) -> str:
    return RUNS.name(*made_of, PYTHON)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def found(
    source: Source, options: CompileOptions, language: "SessionLanguage", sources: Sources, warn: Callable[[Diagnostic], None],
    open_session: Callable[[], CompiledSession],
) -> "KeptRun | None":  # fmt: skip
    """The run of this program that another process kept, ready to begin. `open_session` makes the session, should it be needed. Raises
    ZyntaxError."""
    return _found(source, options, language, sources, warn, open_session)


def _found(
    source: Source, options: CompileOptions, language: "SessionLanguage", sources: Sources, warn: Callable[[Diagnostic], None],
    open_session: Callable[[], CompiledSession], importing: "KeptRun | None" = None,
) -> "KeptRun | None":  # fmt: skip
    """`importing`: the program that takes in this one, which is the library's."""
    made_of = _origin(source, options, importing is not None)
    if made_of is None:
        return None

    def revived(head: dict[str, Any], code: bytes) -> "KeptRun | None":
        run = KeptRun(source, options, language, sources, warn, open_session, head, code, made_of)
        if importing is not None:
            run.is_library, run.modules, run.unawaited = True, importing.modules, importing.unawaited
        return _ready(run)

    return RUNS.find(lambda: _name(made_of), revived)


def _ready(run: "KeptRun") -> "KeptRun | None":
    if not all(_is_still(path, digest) for path, digest in run.head["files"].items()):
        return None
    run.host  # noqa: B018 (raises what `RUNS.find` takes for an entry that means nothing)
    return run


def _is_still(path: str, digest: str | None) -> bool:
    """Whether a file that was looked for has the same text, or still isn't there."""
    if digest is None:
        return not Path(path).is_file()
    try:
        return _hash(read_source(path).text) == digest
    except ZyntaxError:
        return False


@define(eq=False)
class KeptRun:
    """A program that is run from the cache: what `ProgramRuntime` asks of a session."""

    source: Source
    options: CompileOptions
    language: "SessionLanguage"
    sources: Sources
    warn: Callable[[Diagnostic], None]
    open_session: Callable[[], CompiledSession]
    head: dict[str, Any]
    code: bytes
    origin: tuple[str, ...]
    unawaited: Unawaited = Factory(Unawaited)
    is_library: bool = False
    modules: "dict[Path, KeptRun | None]" = Factory(dict)
    """The files of the library that it and they take in; None for those that aren't kept."""

    @cached_property
    def launches(self) -> KeptLaunches:
        blocks, chains = dict(self.head["blocks"]), dict(self.head["chains"])
        return KeptLaunches(self.origin, self.unawaited.futures, self._is_quiet, True, blocks, chains)

    @cached_property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the checker had to say."""
        return tuple(map(as_diagnostic, self.head["warnings"]))

    @cached_property
    def host(self) -> "HostProgram":
        runtime = ProgramRuntime(self, self.launches)
        runtime.blocks = self.head["same"]
        others = tuple([self.sources.add(read_source(path)) for path in self.head["others"]])
        positions = Positions(self.source.path, self.source, others, self.is_library)
        positions.lookups = _LookupsOfSession(self)
        _ = self.warnings
        if not self.is_library:
            self.language.runs_in(self)
        code, layouts = HostCode(self.head["host"], self.code), self.head["layouts"]
        return loaded(code, layouts, self.language.library, runtime, positions, lambda: self.session.host, self._module)

    @cached_property
    def session(self) -> CompiledSession:
        """The program as it is without a cache, which has said its warnings. Raises ZyntaxError."""
        session = self.open_session()
        session.unawaited = self.unawaited
        session.already_said(self.warnings)
        files = session.linked.files
        for path, digest in self.head["files"].items():
            text = files.get(path)
            if digest != (None if text is None else _hash(text)):
                raise ZyntaxError(Diagnostic("0807", f"`{path}` was changed while the program ran", hint="run it again"))
        return session

    def run(self) -> None:
        """Runs the program to its end. Raises ZyntaxError."""
        for warning in self.warnings:
            self.warn(warning)
        self.options.doing("running")
        self.host.run()
        for run in (self, *self.modules.values()):
            if run is not None and run.launches.has_news and run._is_quiet():
                _put(run.launches, run.head, run.code)

    def _is_quiet(self) -> bool:
        """Whether no launch has warned."""
        return "session" not in self.__dict__ or not self.session.warned_at_launch

    # ---- for its runtime and its library ----

    def compute_site(self, number: int) -> "nodes.Compute":
        return self.session.compute_site(number)

    def block(self, compute: "nodes.Compute") -> "PlacedBlock":
        return self.session.block(compute)

    def blocks_function(self, name: str) -> "BlocksFunction | None":
        return self.session.blocks_function(name)

    def module(self, path: tuple[str, ...], span: Span) -> "HostProgram | None":
        file = self.language.library_module(path)
        return None if file is None else self._opened(file.resolve())

    def _module(self, dotted: str) -> "HostProgram":
        """Raises ValueError for one that isn't there."""
        program = self.module(tuple(dotted.split(".")), NOWHERE)
        if program is None:
            raise ValueError(dotted)
        return program

    def _opened(self, file: Path) -> "HostProgram":
        """A file of the library, from the cache, or as it is compiled."""
        if file not in self.modules:
            source = self.sources.add(read_source(display_path(file)))
            options = evolve(self.options, parameters={}, strict=False)
            language = self.language.of_library
            self.modules[file] = _found(source, options, language, self.sources, _unheard, lambda: self.session.opened(file), self)
        run = self.modules[file]
        return self.session.opened(file).host if run is None else run.host

    @property
    def only_device(self) -> str | None:
        return self.options.device

    def library_program(self, source: Source, program: "nodes.Program") -> "HostProgram":
        return self.session.library_program(source, program)


class _LookupsOfSession(dict[Span, DirectLookup]):
    """Asked where a lookup failed."""

    def __init__(self, run: KeptRun) -> None:
        super().__init__()
        self.run = run

    def get(self, span: Any, default: Any = None) -> Any:
        return self.run.session.host.positions.lookups.get(span, default)
