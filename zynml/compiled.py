"""`zynml.compile`: a program's functions as Python callables on NumPy arrays, and the program at its stages.

    p = zynml.compile('''
        def scale(x: tensor[N], by: f32): tensor {
            compute(x, by) { for i in 0..N: out[i] = x[i] * by }
        }
    ''')
    p.scale(np.ones(3, np.float32), 2.0)     # array([2., 2., 2.], dtype=float32)

Arrays go in and come out without a copy; what a kernel updates (`compute(mut x)`) is updated in the caller's array. Arrays of other
libraries do too, on the host and on CUDA devices (see `crossing`)."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.cuda_repeats import Repeats
from compiler.diagnostics import Diagnostic, Severity, ZyntaxError, render
from compiler.kept_programs import found
from compiler.options import DriverOptions, origin
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from compiler.typed_ast.kernel import OptimizationLevel
from compiler.uncollected import uncollected
from zynml.crossing import Crossing
from zynml.functions import Raised, raise_again
from zynml.opened import Opened

if TYPE_CHECKING:
    from compiler.driver import Session


INTERRUPTED = "0809"


class ZynMLError(Exception):
    """A program that doesn't compile, or failed while it ran. `str` is the whole message; `diagnostics` are its parts."""

    def __init__(self, error: ZyntaxError, sources: Sources) -> None:
        super().__init__("\n\n".join(render(d, sources) for d in error.diagnostics))
        self.diagnostics = error.diagnostics

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(d.full_code for d in self.diagnostics)


class CompiledProgram:
    """A checked program. Its functions are attributes and entries of `functions`; its top-level statements run before the first
    call, or in `run`."""

    def __init__(self, opened: Opened, warnings: tuple[Diagnostic, ...] = ()) -> None:
        self._opened = opened
        self.warnings = warnings
        self.functions: dict[str, Callable[..., Any]] = {name: _callable(name, opened) for name in opened.functions}
        # found at once, unless the name is one of this class
        taken = dir(self)
        self.__dict__.update({name: function for name, function in self.functions.items() if name not in taken})

    @classmethod
    def of(cls, session: "Session", keeps: bool = False) -> "CompiledProgram":
        """The program of a session; `keeps`: for other processes too, once it is called on a GPU. Raises ZynMLError with every fault
        found."""
        with _errors(session.sources):
            warnings = tuple(d for d in session.checked.diagnostics.sorted if d.severity is Severity.WARNING)
            return cls(Opened.of(session, keeps), warnings)

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
        with _errors(self._opened.sources):
            return self._session.emit(stage, target)

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


def compile(
    source: str | Path,
    *,
    opt: str = "3",
    threads: int = 0,
    device: str | None = None,
    strict: bool = False,
    sanitize: bool = False,
    tune: bool = True,
    **parameters: Any,
) -> CompiledProgram:
    """Compile a program: a `Path`, a text that names a `.zynml` file, or the program's text itself. Further keywords are values of its
    `param`s. With `sanitize` its blocks run on the emulator, and a call raises all that their threads do wrong. Without `tune`
    estimates alone decide on schedules for a GPU. Raises ZynMLError with every fault found."""
    levels = [level.value for level in OptimizationLevel]
    if opt not in levels:
        raise ValueError(f"opt={opt!r}: levels are {', '.join(levels)}")
    if threads < 0:
        raise ValueError(f"threads={threads}: a number of threads, or 0 for all cores")
    options = DriverOptions(
        device=device,
        strict=strict,
        sanitize=sanitize,
        tune=tune,
        threads=threads,
        level=OptimizationLevel(opt),
        parameters={name: _shown(value) for name, value in parameters.items()},
    )
    sources = Sources()
    with _errors(sources):
        is_file = isinstance(source, Path) or ("\n" not in source and source.endswith((".zynml", ".ml")))
        held = sources.add(read_source(str(source)) if is_file else Source("<program>", str(source)))

        def open() -> "Session":
            from zynml.api import open_source

            return open_source(held, options, sources, _silent)

        known = found(held, options)
        if known is not None:
            return CompiledProgram(Opened(sources, known.functions, origin(held, options), open))
        with uncollected():
            return CompiledProgram.of(open(), keeps=True)


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
    errors = _errors(opened.sources)
    function: Callable[..., Any] | None = None
    repeats: Repeats | None = None
    looked = False

    def program(*given: Any, **named: Any) -> Any:
        nonlocal function
        if function is None:
            function = opened.session.host.functions[name]
        return function(*given, **named)

    def call(*values: Any, **named: Any) -> Any:
        nonlocal repeats, looked
        if repeats is not None and not named and (value := repeats.again(values)) is not None:
            return value
        with Crossing(errors) as crossing:
            into = crossing.into
            given = [into(value) for value in values]
            if crossing.on_device and not looked:
                repeats, looked = opened.repeats(name), True
            if named:
                value = program(*given, **{key: into(value) for key, value in named.items()})
            elif repeats is not None:
                value = repeats.first(values, given, program)
            else:
                value = program(*given)
            return crossing.out(value)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Function `{name}` of a ZynML program."
    return call
