"""Languages by their entry points: what is found, what isn't loaded, and what is said of packages that can't be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.diagnostics import ZyntaxError, render
from compiler.languages import endings, language_named, language_of, languages
from compiler.source import Sources
from runtime.entry_points import OWN, EntryPoint, entry_points
from tests.language_api.conftest import Install


def message(path: str) -> str:
    with pytest.raises(ZyntaxError) as caught:
        language_of(path)
    return "\n".join(render(d, Sources()) for d in caught.value.diagnostics)


def test_our_own_languages_register_as_others_do() -> None:
    assert [entry for entry in entry_points("zyntax.languages") if entry.distribution == OWN][:3] == [
        EntryPoint("zynml", "zynml.language:language", OWN),
        EntryPoint("ml", "zynml.language:language", OWN),
        EntryPoint("qdsl", "quantdsl.language:language", OWN),
    ]
    assert language_of("a/b.ml") is language_of("c.zynml") is language_named("zynml")
    assert language_named("quantdsl").endings == (".qdsl",)
    assert {language.name for language in languages()} >= {"zynml", "quantdsl"}


def test_no_language_is_loaded_before_a_file_of_it_comes(install: Install) -> None:
    install("tinypipe", "tip = tinypipe:language", "raise SystemExit('loaded')")
    assert ".tip" in endings()
    assert language_of("a.zynml").name == "zynml"


def test_a_name_is_looked_for_where_it_likely_is() -> None:
    script = (
        "import sys\nfrom compiler.languages import language_named\nlanguage_named('quantdsl')\n"
        "print('zynml.language' in sys.modules, 'importlib.metadata' in sys.modules, 'lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False False\n"


def test_two_packages_with_one_ending_are_both_named(install: Install) -> None:
    install("tinypipe", "tip = tinypipe:language")
    install("other_pipe", "tip = other_pipe:language")
    assert message("a.tip") == (
        "error[ZYN0110]: two packages have the ending `.tip`: `other-pipe` and `tinypipe`\n"
        "hint: `pip uninstall tinypipe`, or `pip uninstall other-pipe`"
    )


def test_a_package_with_an_ending_of_ours_is_named_too(install: Install) -> None:
    install("mine", "zynml = mine:language")
    assert message("a.zynml").startswith("error[ZYN0110]: two packages have the ending `.zynml`: `zyntax-lang` and `mine`\n")


def test_the_first_of_two_installations_of_a_package_counts(install: Install) -> None:
    install("tinypipe", "tip = tinypipe:old")
    install("TinyPipe", "tip = tinypipe:new")
    assert [entry.value for entry in entry_points("zyntax.languages") if entry.name == "tip"] == ["tinypipe:new"]


def test_a_language_that_wants_a_newer_version_is_refused_in_a_line(install: Install) -> None:
    install(
        "future_pipe",
        "fut = future_pipe:language",
        "from zyntax.language import Language\nlanguage = Language('futurepipe', ('.fut',), telepathy=True, api=2)\n",
    )
    assert message("a.fut") == (
        "error[ZYN0110]: the language `futurepipe` wants version 2 of `zyntax.language`, and this is version 1\n"
        "hint: pip install --upgrade zyntax-lang"
    )


def test_a_package_that_fails_while_it_is_imported_shows_its_line(install: Install) -> None:
    folder = install("broken", "bro = broken:language", "x = 1\nx.nothing\n")
    assert message("a.bro") == (
        "error[ZYN0110]: the language `broken:language` of the package `broken` can't be loaded: "
        "AttributeError: 'int' object has no attribute 'nothing'\n"
        f"note: raised at {folder / 'broken.py'}:2\n"
        "hint: this is a fault of the package `broken`, not of your program"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("language = 5", "`strange:language` of the package `strange` is no language: it is a `int`, and not made by `zyntax.language.Language`"),
        (
            "from zynml.language import language",
            "`strange:language` of the package `strange` is registered for `.str`, and its language has `.zynml`, `.ml`",
        ),
    ],
)
def test_an_object_that_is_no_such_language(install: Install, code: str, words: str) -> None:
    install("strange", "str = strange:language", code)
    assert message("a.str") == f"error[ZYN0110]: {words}\nhint: this is a fault of the package `strange`, not of your program"


def test_an_unknown_name_has_its_nearest() -> None:
    with pytest.raises(ZyntaxError) as caught:
        language_named("quantsdl")
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.hint) == ("0108", "there is no language `quantsdl`", "did you mean `quantdsl`?")


def test_metadata_that_cannot_be_read_is_left_out(install: Install) -> None:
    folder = install("bad", "bad = bad:language")
    (folder / "bad-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[zyntax.languages]")
    entry_points.cache_clear()
    assert ".bad" not in endings()


def test_the_help_loads_no_language(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom zyntax.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n"
        "    print([m for m in sys.modules if m.startswith(('zynml', 'quantdsl', 'compiler')) or m == 'runtime.entry_points'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]"
