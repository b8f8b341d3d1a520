"""Entry points of installed distributions, without `importlib.metadata`, whose import alone takes ten times as long as reading all their
files. Nothing that an entry point names is imported before `load`."""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

OWN = "zyntax-lang"
LANGUAGES, TARGETS = "zyntax.languages", "zyntax.targets"
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - every start waits for it
_FOLDERS = (".dist-info", ".egg-info")
_SECTION = re.compile(r"^\[(.*)\][ \t]*$")


class EntryPoint(NamedTuple):
    """`name = "module:object"` of a distribution."""

    name: str
    value: str
    distribution: str

    def load(self) -> Any:
        """The object. Raises whatever its module raises, ImportError and AttributeError among it."""
        module, _, attribute = self.value.partition(":")
        found = import_module(module.strip())
        for part in filter(None, attribute.strip().split(".")):
            found = getattr(found, part)
        return found


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Those of a group, in the order of `sys.path`. A checkout of this distribution says its own in `pyproject.toml`: they are those of the
    files that run, whatever was installed when."""
    return (*_own(group), *_installed(group))


def _own(group: str) -> Iterator[EntryPoint]:
    for name, value in _section(_checkout(), f'project.entry-points."{group}"'):
        yield EntryPoint(name.strip('"'), value.strip('"'), OWN)


def _installed(group: str) -> Iterator[EntryPoint]:
    """Of two distributions of one name the first counts, as for Python's imports."""
    seen = {OWN} if _checkout() else set()
    for folder in dict.fromkeys(sys.path):
        for distribution, path in _distributions(folder or "."):
            key = re.sub(r"[-_.]+", "-", distribution).lower()
            if key in seen:
                continue
            seen.add(key)
            for name, value in _section(_read(os.path.join(path, "entry_points.txt")), group):  # noqa: PTH118
                yield EntryPoint(name, value.partition("[")[0].strip(), distribution.replace("_", "-"))


def _checkout() -> str:
    """The `pyproject.toml` of the checkout that these files are in; nothing where they were installed."""
    text = _read(os.path.join(_ROOT, "pyproject.toml"))  # noqa: PTH118
    return text if f'name = "{OWN}"' in text else ""


def _distributions(folder: str) -> list[tuple[str, str]]:
    """Names and folders of what is installed in a folder."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
    found = sorted(name for name in names if name.endswith(_FOLDERS))
    return [(name.partition("-")[0].removesuffix(".egg-info"), os.path.join(folder, name)) for name in found]  # noqa: PTH118


def _section(text: str, wanted: str) -> Iterator[tuple[str, str]]:
    """The entries of a section, of which no value takes more than a line."""
    if wanted not in text:
        return
    inside = False
    for line in text.splitlines():
        heading = _SECTION.match(line.strip())
        if heading is not None:
            inside = heading[1] == wanted
            continue
        name, equals, value = line.partition("=")
        if inside and equals and not name.lstrip().startswith(("#", ";")):
            yield name.strip(), value.partition("#")[0].strip()


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - there are dozens, and most have no entry point of ours
            data = file.read()
        return data.decode() if b"zyntax" in data else ""
    except (OSError, UnicodeDecodeError):
        return ""
