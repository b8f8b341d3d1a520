"""Compiled programs: a program's functions as Python callables on NumPy arrays, and the program at its stages.

Arrays go in and come out without a copy; what a kernel updates (`compute(mut x)`) is updated in the caller's array. Arrays of other
libraries do too, on the host and on CUDA devices (see `crossing`)."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any
from weakref import ref

from compiler.diagnostics import Diagnostic, Severity, ZyntaxError, render
from compiler.language import Language
from compiler.languages import language_named
from compiler.launch.kept_programs import found
from compiler.options import TIERS, CompileOptions, origin
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from compiler.typed_ast.levels import FLOATS, PRODUCTS, OptimizationLevel
from runtime.records import evolve
from runtime.uncollected import uncollected
from runtime.unread import UNREAD, settle
from zynml.functions import OFFSETS, FunctionOfProgram, Raised, raise_again
from zynml.name import NAME
from zynml.opened import Opened
from zynml.pickled import MadeOf, options_of, require_version
from zynml.shown import Row, as_html, as_text, documentation, rows, signature_of

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.driver import Session
    from compiler.launch.cuda.repeats import Repeats
    from compiler.launch.native_calls.calls import NativeCalls
    from compiler.launch.native_calls.kept import KeptAnswers


INTERRUPTED = "0809"

STAGES = ("ast", "typed-ast", "hir", "hir-after=PASS", "fusion", "schedule", "llvm", "asm", "obj")


class ZynMLError(Exception):
    """A program that doesn't compile, or failed while it ran. `str` is the whole message; `diagnostics` are its parts."""

    def __init__(self, error: ZyntaxError, sources: Sources) -> None:
        from zynml.words import in_pythons_words

        self.diagnostics = tuple(map(in_pythons_words, error.diagnostics))
        super().__init__("\n\n".join(render(d, sources) for d in self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return _same_error, (str(self), self.diagnostics), self.__dict__

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(d.full_code for d in self.diagnostics)


def _same_error(message: str, diagnostics: tuple[Diagnostic, ...]) -> ZynMLError:
    """An error that was pickled."""
    error = ZynMLError.__new__(ZynMLError, message)
    error.diagnostics = diagnostics
    return error


class CompiledProgram:
    """A checked program. Its functions are attributes and entries of `functions`; its top-level statements run before the first
    call, or in `run`."""

    def __init__(self, opened: Opened, made_of: MadeOf, warnings: tuple[Diagnostic, ...] = ()) -> None:
        self._opened = opened
        self._made_of = made_of
        self.functions: dict[str, Callable[..., Any]] = {name: _callable(name, opened) for name in opened.functions}
        self.warnings = warnings
        # looked up at once, unless the name is one of this class
        taken = {*super().__dir__()}
        self.__dict__.update({name: function for name, function in self.functions.items() if name not in taken})
        clashes = [_clash(name, opened) for name in self.functions if name in taken]
        if clashes and made_of.options.strict:
            raise ZyntaxError(*(evolve(d, severity=Severity.ERROR) for d in clashes))
        self.warnings = (*warnings, *clashes)
        opened.keeps = opened.keeps and not clashes

    @classmethod
    def of(cls, session: "Session", keeps: bool = False, language: str = NAME) -> "CompiledProgram":
        """The program of a session; `keeps`: for other processes too, once it is called. Raises ZynMLError with every fault
        of the program."""
        with _errors(session.sources):
            warnings = tuple(d for d in session.checked.diagnostics.sorted if d.severity is Severity.WARNING)
            return cls(Opened.of(session, keeps), MadeOf(session.source, session.options, language), warnings)

    def __repr__(self) -> str:
        return as_text(self._title, self._rows)

    def _repr_html_(self) -> str:
        return as_html(self._title, self._rows)

    @property
    def _title(self) -> str:
        return f"{language_named(self._made_of.language).title} program {self._made_of.source.path}"

    @property
    def _rows(self) -> list[Row]:
        return rows(self.functions, self._opened.heads, self._made_of.options.device)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __reduce__(self) -> tuple[Any, ...]:
        return opened_again, self._made_of.pickled()

    @property
    def _session(self) -> "Session":
        return self._opened.session

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions = self.__dict__.get("functions", {})
        raise AttributeError(f"the program has no function `{name}`; it has {', '.join(functions) or 'none'}")

    def run(self) -> None:
        """The top-level statements and `main`."""
        with _errors(self._opened.sources):
            self._session.run()

    def emit(self, stage: str, target: str | None = None) -> str | bytes:
        """The program at a stage of `zyntax compile --emit`; with a GPU's `target` (`sm_90`), `hir`, `llvm`, `ptx` or `cubin`."""
        from compiler.targets.cpu import PASSES

        if target is None and stage not in STAGES and stage.removeprefix("hir-after=") not in PASSES:
            raise ValueError(f"stage={stage!r}: stages are {', '.join(STAGES)}, where PASS is one of {', '.join(PASSES)}")
        with _errors(self._opened.sources):
            return self._session.emit(stage, target)

    def export(
        self,
        output: "str | Path",
        *functions: str,
        header: "str | Path | None" = None,
        target: str | None = None,
        static: bool = False,
    ) -> "Path":
        """Write functions of the program as a shared library for C, or as an object where the output's name ends with `.o`, and their
        header: beside it, unless it is named. Where that is. `target`: another CPU than this one (`x86-64-v3`, `aarch64`); `static`: no
        library but C's is needed, and loops of compute blocks run in the calling thread."""
        from pathlib import Path

        from compiler.backends.host.export import write_exported

        if not functions:
            raise TypeError("export() needs the name of a function")
        heading = Path(header) if header is not None else Path(output).with_suffix(".h")
        with _errors(self._opened.sources):
            write_exported(self._session.exported(functions, target, not static), Path(output), heading)
        return heading

    @property
    def hir(self) -> str:
        return str(self.emit("hir"))

    @property
    def schedule(self) -> str:
        return str(self.emit("schedule"))

    @property
    def llvm(self) -> str:
        return str(self.emit("llvm"))

    @property
    def asm(self) -> str:
        return str(self.emit("asm"))


def compile_in(
    language: Language,
    source: "str | Path",
    *,
    opt: str | int = "3",
    threads: int = 0,
    device: str | None = None,
    strict: bool = False,
    sanitize: bool = False,
    tune: bool = True,
    tier: str | int = "auto",
    floats: str | None = None,
    products: str | None = None,
    **parameters: Any,
) -> CompiledProgram:
    """Compile a program of a language that is ZynML or builds on it, as `compile` does."""
    levels = [level.value for level in OptimizationLevel]
    if str(opt) not in levels:
        raise ValueError(f"opt={opt!r}: levels are {', '.join(levels)}")
    if threads < 0:
        raise ValueError(f"threads={threads}: a number of threads, or 0 for all cores")
    if floats not in (None, *FLOATS):
        raise ValueError(f"floats={floats!r}: there is {' and '.join(FLOATS)}")
    if str(tier) not in TIERS:
        raise ValueError(f"tier={tier!r}: tiers are {', '.join(TIERS)}")
    if products not in (None, *PRODUCTS):
        raise ValueError(f"products={products!r}: there is {' and '.join(PRODUCTS)}")
    options = CompileOptions(
        floats=floats,
        products=products,
        tier=str(tier),
        device=device,
        strict=strict,
        sanitize=sanitize,
        tune=tune,
        threads=threads,
        level=OptimizationLevel(str(opt)),
        parameters={name: _shown(value) for name, value in parameters.items()},
    )
    sources = Sources()
    with _errors(sources):
        is_file = isinstance(source, PathLike) or ("\n" not in source and source.endswith(language.endings))
        held = sources.add(read_source(str(source)) if is_file else Source("<program>", str(source)))
        return _compiled(language, held, options, sources)


def _compiled(language: Language, held: Source, options: CompileOptions, sources: Sources) -> CompiledProgram:
    """The program of a text. Raises ZyntaxError."""

    def open() -> "Session":
        session = language.open(held, options, sources, _silent)
        _require_parameters(session, options.parameters)
        return session

    known = found(held, options) if language.name == NAME else None
    if known is not None:
        opened = Opened(sources, known.functions, origin(held, options), open, known.heads, revived=True)
        return CompiledProgram(opened, MadeOf(held, options), known.warnings)
    with uncollected():
        return CompiledProgram.of(open(), keeps=language.name == NAME, language=language.name)


def _require_parameters(session: "Session", given: Iterable[str]) -> None:
    """Each keyword is a `param` of the program. Raises TypeError, as Python does for a function's."""
    from compiler.typed_ast import nodes
    from compiler.typed_ast.suggest import nearest

    known = [parameter.name for parameter in session.program.statements if isinstance(parameter, nodes.ProgramParameter)]
    for name in given:
        if name not in known:
            keywords = ["opt", "threads", "device", "strict", "sanitize", "tune", "tier", "floats", "products"]
            near = nearest(name, [*known, *keywords])
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            own = f"has the `param`s {', '.join(known)}" if known else "has no `param`"
            raise TypeError(f"compile() has no keyword `{name}`{hint}: it takes {', '.join(keywords)}, and this program {own}")


def opened_again(version: str, path: str, text: str, options: dict[str, Any], language: str = NAME) -> CompiledProgram:
    """A program that was pickled. Raises UnpicklingError for one of another version, ZynMLError where it doesn't compile here."""
    require_version(version, f"the program {path}")
    source = Source(path, text)
    sources = Sources(source)
    with _errors(sources):
        return _compiled(language_named(language), source, options_of(options), sources)


def _clash(name: str, opened: Opened) -> Diagnostic:
    """The warning for a function that has the name of a method."""
    head = opened.heads.get(name)
    return Diagnostic(
        "0607",
        f"`{name}` is an attribute of every compiled program: as one, this function can't be called",
        head.span if head is not None else None,
        hint=f'from Python it is `program.functions["{name}"]`',
        severity=Severity.WARNING,
    )


def _silent(warning: Diagnostic) -> None:
    """Warnings are listed in `warnings`, not printed."""


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _errors:
    """Turns the compiler's error into the one that Python users see. Any number of calls may be inside at a time."""

    __slots__ = ("sources",)

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ZyntaxError):
            if all(d.code == INTERRUPTED for d in error.diagnostics):
                raise KeyboardInterrupt(*(render(d, self.sources) for d in error.diagnostics)) from None
            raise ZynMLError(error, self.sources) from None
        if isinstance(error, Raised):
            raise_again(error)


def _callable(name: str, opened: Opened) -> Callable[..., Any]:
    """A function of a program as Python calls it."""
    errors = _errors(opened.sources)
    head = opened.heads.get(name)
    names = [parameter.name for parameter in head.parameters] if head is not None else []
    function: Callable[..., Any] | None = None
    repeats: Repeats | None = None
    looked = False
    native: NativeCalls | None = None
    kept: KeptAnswers | None = None
    looked_for_kept = came_before = looked_for_native = False

    def program(*given: Any, **named: Any) -> Any:
        nonlocal function
        if function is None:
            function = opened.session.host.functions[name]
        return function(*given, **named)

    def failed(values: Sequence[Any], reported: Diagnostic) -> Exception:
        """The error of a call whose check failed: the call from its beginning has it, unless others changed its arrays meanwhile."""
        from zynml.crossing import Crossing

        try:
            with Crossing(errors) as crossing:
                program(*map(crossing.into, values))
                raise ZyntaxError(reported)
        except Exception as error:
            return error

    def call(*values: Any, **named: Any) -> Any:
        nonlocal repeats, looked, kept, looked_for_kept, native, came_before, looked_for_native
        if repeats is not None and not named and (value := repeats.again(values)) is not None:
            return value
        if UNREAD:
            settle()
        if not looked_for_kept:
            kept, looked_for_kept = opened.kept_answers(name, OFFSETS), True
        if kept is not None and opened.revived and not named and kept.answers(wrapper, values):
            return wrapper(*values)
        from zynml.crossing import Crossing

        with Crossing(errors) as crossing:
            into = crossing.into
            crossing.takes_records = True
            given = [into(value) for value in values]
            if crossing.on_device and not looked:
                repeats, looked = opened.repeats(name, target, OFFSETS, failed), True
            others = {key: into(value) for key, value in named.items()} if named else named
            crossing.takes_records = False
            try:
                if not crossing.on_device and not named:
                    if (came_before or kept is not None) and not looked_for_native:
                        looked_for_native = True
                        native = None if OFFSETS is None else opened.native_calls(name, target, OFFSETS, kept)
                    value = program(*given) if native is None else native.value(values, given, program)
                    came_before = True
                elif repeats is None or named:
                    value = program(*given, **others)
                else:
                    value = repeats.first(values, given, program)
            except ZyntaxError as error:
                passed = {**dict(zip(names, values, strict=False)), **named}
                from zynml.words import copied_in_python

                hinted = copied_in_python(error, {**dict(zip(names, given, strict=False)), **others}, passed)
                if hinted is None:
                    raise
                raise hinted from error
            return crossing.out(value)

    wrapper = FunctionOfProgram()
    target = ref(wrapper)
    wrapper._slow = call
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__ = __name__
    wrapper.__doc__ = documentation(name, head)
    if head is not None:
        wrapper.__signature__ = signature_of(head)
    return wrapper
