"""Programs that go from one process to another: their text and options, compiled again where they arrive."""

import pickle
from functools import cache
from typing import Any

from compiler.options import CompileOptions
from compiler.source import Source
from compiler.typed_ast.levels import OptimizationLevel
from runtime.records import frozen

CARRIED = ("device", "strict", "threads", "level", "parameters", "render_folder", "sanitize", "tune", "tier", "floats")
"""The options that decide what a program is; the others are functions of the process."""


@cache
def version() -> str:
    """Of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("zyntax-lang")
    except PackageNotFoundError:
        return "unknown"


def require_version(pickled: str, subject: str) -> None:
    """Raises UnpicklingError for what another version pickled."""
    if pickled != version():
        message = f"{subject} was pickled by zyntax {pickled}, and this is zyntax {version()}: compile it from its source here"
        raise pickle.UnpicklingError(message)


@frozen
class MadeOf:
    """What a program was compiled from."""

    source: Source
    options: CompileOptions
    language: str = "zynml"

    def pickled(self) -> tuple[Any, ...]:
        """The arguments of `opened_again`, plain data."""
        known = {name: getattr(self.options, name) for name in CARRIED}
        plain = {**known, "level": self.options.level.value, "parameters": dict(self.options.parameters)}
        return version(), self.source.path, self.source.text, plain, self.language


def options_of(plain: dict[str, Any]) -> CompileOptions:
    """The options that `pickled` put down."""
    from attrs import fields

    assert {*CARRIED} <= {option.name for option in fields(CompileOptions)}
    return CompileOptions(**{**plain, "level": OptimizationLevel(plain["level"])})
