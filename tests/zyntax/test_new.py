"""`zyntax new`."""

from pathlib import Path

import pytest

from tests.zyntax.conftest import Zyntax


@pytest.mark.parametrize(
    ("language", "program", "output"),
    [("zynml", "first.zynml", "tensor([0.0, 2.0, 4.0, 6.0], shape=[4], dtype=f32)\n"), ("quantdsl", "first.qdsl", "42")],
)
def test_a_project_runs_and_passes_its_test(zyntax: Zyntax, folder: Path, language: str, program: str, output: str) -> None:
    done = zyntax("new", "first", "--language", language)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"first/{program}\nfirst/README.md\n\nzyntax run first/{program}\n"
    assert program in (folder / "first" / "README.md").read_text()
    run = zyntax("run", f"first/{program}")
    assert (run.returncode, run.stdout, run.stderr) == (0, output, "")
    tested = zyntax("test", "first")
    assert (tested.returncode, tested.stdout.splitlines()[-1]) == (0, "2 passed, 0 failed")
    assert zyntax("fmt", "--check", "first").returncode == 0


def test_nothing_is_overwritten(zyntax: Zyntax, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "mine.zynml").write_text("println(1)\n")
    done = zyntax("new", "mine")
    assert (done.returncode, done.stderr) == (1, "error[ZYN0807]: `mine` exists already, and is left as it is\nhint: choose another name\n")
    assert (folder / "mine" / "mine.zynml").read_text() == "println(1)\n"
    assert not (folder / "mine" / "README.md").exists()


def test_a_name_that_is_none(zyntax: Zyntax) -> None:
    done = zyntax("new", "1st")
    assert (done.returncode, done.stderr) == (
        2,
        "error[ZYN0505]: `1st` is no name of a project: it has letters, digits, `_` and `-`, and begins with a letter\nhint: zyntax new first_steps\n",
    )
