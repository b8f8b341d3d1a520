"""What a run may set for the standard library: where files lie, the random seed, where text goes."""

import sys
from pathlib import Path
from typing import Any, TextIO

from runtime.records import define, field


@define
class StdlibSettings:
    """One object a run. `device`: of blocks that name none. `base_folder`: the program's, where relative paths are looked for first.
    `page`: the one file that collects the renderings, None where each has its own. `generator`: of `rand`, made from `seed` when first
    used. `programs`: the `LibraryPrograms` in which functions that are written in ZynML are compiled, None before a program is;
    `written`: those that were; `planned`: operations on devices, by what decides how they are computed."""

    seed: int = 0
    device: str = "auto"
    base_folder: Path | None = None
    render_folder: Path = field(default=Path("out"), converter=Path)
    page: Any = None
    output: TextIO | None = None
    error_output: TextIO | None = None
    renders: int = 0
    rendered: set[str] = field(factory=set, repr=False)
    generator: Any = field(default=None, repr=False)
    programs: Any = field(default=None, repr=False)
    written: dict[tuple[str, str], Any] = field(factory=dict, repr=False)
    planned: dict[Any, Any] = field(factory=dict, repr=False)

    def set_seed(self, seed: int) -> None:
        """Starts the random numbers anew."""
        self.seed, self.generator = seed, None

    def write(self, text: str) -> None:
        (self.output or sys.stdout).write(text)

    def write_error(self, text: str) -> None:
        stream = self.error_output or sys.stderr
        stream.write(text)
        stream.flush()

    def find_file(self, path: str) -> Path:
        """The file meant by a program's path: beside the program if it is there, else as the working folder sees it."""
        given = Path(path)
        if self.base_folder is not None and not given.is_absolute():
            beside = self.base_folder / given
            if beside.exists() or not given.exists():
                return beside
        return given
