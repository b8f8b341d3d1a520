"""Packages that only some programs need, and the extra that brings each. A core installation lacks them; who needs one asks `required`."""

from importlib import import_module
from typing import Any

from runtime.uncollected import importing

DISTRIBUTION = "zyntax-lang"

_EXTRAS = {"pyarrow": "data", "tzdata": "data", "matplotlib": "pictures", "PIL": "pictures"}
"""By the package that is imported."""

_CALLED = {"PIL": "pillow"}
"""Packages whose distributions have another name."""


class PackageMissing(ImportError):
    """A package of an extra can't be imported. `hint`: what to do about it."""

    def __init__(self, package: str, extra: str, reason: object) -> None:
        super().__init__(f"the package `{_CALLED.get(package, package)}` can't be imported ({reason})", name=package)
        self.hint = install(extra)


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def required(module: str) -> Any:
    """A module of an extra's package. Raises PackageMissing."""
    package = module.partition(".")[0]
    try:
        with importing():
            import_module(package)
            return import_module(module)
    except ImportError as missing:
        needed = (missing.name or "").partition(".")[0]  # Matplotlib needs Pillow
        culprit = needed if needed in _EXTRAS else package
        raise PackageMissing(culprit, _EXTRAS[culprit], missing) from None
