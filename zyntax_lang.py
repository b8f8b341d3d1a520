"""The packages of this distribution, and the check that Python finds these, not files of the user that have their names. It is a module of
its own because any of the packages could be the one that isn't found."""

import gc
import os
import sys
from importlib.machinery import PathFinder

PACKAGES = ("imagepipe", "zyntax", "quantdsl", "zynml", "compiler", "grammars", "runtime")
"""Each needs itself and those behind it."""

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - every start waits for it


def require_own_packages(importing: str) -> None:
    """Raises ImportError where a package that `importing` needs is another than this distribution's, and says which file is in its way."""
    for package in PACKAGES[PACKAGES.index(importing) :]:
        path = _path_of(package)
        if path is not None and not _is_own(path, package):
            kind = "folder" if os.path.isdir(path) else "file"  # noqa: PTH112
            message = f"`{importing}` needs its package `{package}`, but Python finds {path} under that name"
            raise ImportError(f"{message}: rename this {kind}, or move it to where Python doesn't look", name=importing, path=path)


def _path_of(package: str) -> str | None:
    """What a name stands for, or would: the file of a module, the folder of a package. Nothing is run to know that."""
    loaded = sys.modules.get(package)
    spec = PathFinder.find_spec(package) if loaded is None else loaded.__spec__
    if spec is None:
        return getattr(loaded, "__file__", None)
    return next(iter(spec.submodule_search_locations or ()), spec.origin)


def _is_own(path: str, package: str) -> bool:
    own = os.path.join(_FOLDER, package)  # noqa: PTH118
    return path == own or os.path.realpath(path) == os.path.realpath(own)


def main() -> None:
    """The command `zyntax`."""
    gc.disable()  # until `zyntax.garbage.collect_from_here`
    try:
        require_own_packages("zyntax")
    except ImportError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    from zyntax.main import main as command

    command()
