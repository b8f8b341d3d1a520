"""Packages of languages as an installer would leave them: a module and a folder of metadata, in a folder of `sys.path`."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler import languages
from runtime import entry_points

Install = Callable[..., Path]


def forget() -> None:
    entry_points.entry_points.cache_clear()
    languages.language_with.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs the distribution of a name with a text of entry points and a module; gives its folder. Gone after the test."""
    names: list[str] = []

    def installed(name: str, points: str, code: str = "", group: str = "zyntax.languages") -> Path:
        folder = tmp_path / f"site-{name}"
        names.append(name)
        (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(f"[console_scripts]\nx = y:z\n\n[{group}]\n{points}\n", encoding="utf-8")
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        forget()
        return folder

    yield installed
    monkeypatch.undo()
    for name in names:
        sys.modules.pop(name, None)
    forget()
