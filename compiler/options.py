"""What the user of the command or API sets."""

from collections.abc import Callable, Mapping

from attrs import Factory, field, frozen

from compiler.source import Source
from compiler.tuning.settings import is_on
from compiler.typed_ast.kernel import OptimizationLevel


@frozen
class DriverOptions:
    """How a program is compiled and run. `device` overrides every `@device`; `threads` 0: all cores; `parameters`: texts
    of `--set`."""

    device: str | None = None
    strict: bool = False
    threads: int = 0
    level: OptimizationLevel = OptimizationLevel.O3
    parameters: Mapping[str, str] = Factory(dict)
    render_folder: str = "out"
    explain: Callable[[str], None] | None = field(default=None, eq=False)
    """Told where each compute block runs, and why, once for each of its sizes."""
    floats: str | None = None
    """What may be done with floats in blocks that don't say it themselves, over what the program's `config` says."""
    sanitize: bool = False
    """Compute blocks run on the emulator, which looks for all that their threads do wrong."""
    tune: bool = True
    """Schedules are tried out on a GPU where estimates are too near each other to settle which is faster."""
    tuned: Callable[[str], None] | None = field(default=None, eq=False)
    """Told what each of these runs came to, a line; else the log of `zyntax.tuning` is."""
    doing: Callable[[str], None] = field(default=lambda activity: None, eq=False)
    """Told what is going on, in words, whenever that changes."""

    @property
    def told(self) -> str:
        """All that decides what programs come to."""
        return repr((self.device, self.strict, self.threads, self.level.value, sorted(self.parameters.items()), self.sanitize, self.floats))


def origin(source: Source, options: DriverOptions) -> tuple[str, ...]:
    """All that a program is made of besides the compiler and the machine, where it is one file that only declares."""
    return source.path, source.text, options.told, "tuned" if is_on(options.tune) else "as estimated"
