"""Packages of languages as an installer would leave them: a module and a folder of metadata, in a folder of `sys.path`."""

import importlib
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
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        (folder / f"{name}-1.0.dist-info").mkdir(parents=True, exist_ok=True)
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


ACTIONS = """
from zyntax.language import Actions, Language, Library, LibraryFault, Token
from zyntax.language import build as b


class Acts(Actions):
    def show(self, *values):
        return b.do(b.call("println", *values))

    def put(self, name, value):
        return b.let(name, value)

    def number(self, token):
        return b.number(token)

    def name(self, token):
        return b.name(token)

    def sum(self, left, right):
        return b.binary("+", left, right)
{more}

language = Language("calc", (".clc",), grammar="calc.lark", actions=Acts{options})
"""
GRAMMAR = """
program: (line? _NL)* line?
?line: "show" value ("," value)*    -> show
     | "put" NAME "=" value         -> put
?value: atom | value "+" atom       -> sum
?atom: NUMBER -> number
     | NAME -> name
     | "(" value ")"
_NL: /(#[^\\n]*)?\\n/
%import common.CNAME -> NAME
%import common (NUMBER, WS_INLINE)
%ignore WS_INLINE
"""

Calc = Callable[..., "Outcome"]


class Outcome(str):
    """What a command printed, messages behind the output; `code` is its exit code."""

    code: int


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all languages that tests install, so that tables of the same grammar are made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def calc(install: Install, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calc:
    """Installs a small language of sums and runs a command on a program in it. `more` are further actions, `options` keywords of its
    `Language`, `files` files beside it."""

    def run(
        program: str, *, verb: str = "run", more: str = "", options: str = ', comment="#"', grammar: str = GRAMMAR, files: dict[str, str] | None = None
    ) -> Outcome:
        from click.testing import CliRunner

        from compiler.diagnostics import ZyntaxError, render
        from zyntax import report
        from zyntax.main import cli

        folder = install("calc", "clc = calc:language", ACTIONS.format(more=more, options=options))
        for name, text in {"calc.lark": grammar, **(files or {})}.items():
            (folder / name).write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(cache))
        monkeypatch.setattr(report, "_current", [])
        Path("p.clc").write_text(program, encoding="utf-8")
        done = CliRunner().invoke(cli, [*verb.split(), "p.clc"], standalone_mode=False)
        found = Outcome(done.output)
        if isinstance(done.exception, ZyntaxError):
            sources = report.reporter().sources
            found = Outcome(done.output + "".join(f"{render(d, sources)}\n" for d in done.exception.diagnostics))
        elif done.exception is not None:
            raise done.exception
        found.code = 0 if done.exception is None else report.exit_code(done.exception.diagnostics)  # type: ignore[attr-defined]
        return found

    return run
