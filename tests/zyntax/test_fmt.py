"""`zyntax fmt`: what it does to files, and what it leaves alone. What it writes is tested in tests/grammars/test_format.py."""

import os
from pathlib import Path

from tests.zyntax.conftest import Zyntax

UGLY = "let x=1+2 // three\nif x>2 :\n  println( x )\n"
NEAT = "let x = 1 + 2  // three\nif x > 2:\n  println(x)\n"


def test_files_are_laid_out_in_place(zyntax: Zyntax, folder: Path) -> None:
    (folder / "a.zynml").write_text(UGLY)
    (folder / "a.zynml").chmod(0o640)
    done = zyntax("fmt", "a.zynml", "hello.zynml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "a.zynml").read_text() == NEAT
    assert (folder / "a.zynml").stat().st_mode & 0o777 == 0o640
    assert not list(folder.glob("*.part"))


def test_a_folder_is_all_its_programs(zyntax: Zyntax, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "a.zynml").write_text(UGLY)
    (folder / "inner" / "b.qdsl").write_text("fn f(){g(a=1)}\n")
    (folder / "inner" / "c.txt").write_text(UGLY)
    assert zyntax("fmt", "inner").returncode == 0
    assert (folder / "inner" / "a.zynml").read_text() == NEAT
    assert (folder / "inner" / "b.qdsl").read_text() == "fn f() { g(a = 1) }\n"
    assert (folder / "inner" / "c.txt").read_text() == UGLY


def test_a_folder_without_programs(zyntax: Zyntax, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "c.txt").write_text(UGLY)
    done = zyntax("fmt", "inner")
    message = "error[ZYN0108]: `inner`: no program is in there\nhint: endings of programs: `.zynml`, `.ml`, `.qdsl`, `.imgpipe`, `.ip`\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_check_names_what_would_change(zyntax: Zyntax, folder: Path) -> None:
    (folder / "a.zynml").write_text(UGLY)
    done = zyntax("fmt", "--check", "a.zynml", "hello.zynml")
    assert (done.returncode, done.stdout, done.stderr) == (1, "a.zynml\n", "")
    assert (folder / "a.zynml").read_text() == UGLY
    (folder / "a.zynml").write_text(NEAT)
    assert zyntax("fmt", "--check", "a.zynml").returncode == 0


def test_diff_shows_what_would_change(zyntax: Zyntax, folder: Path) -> None:
    (folder / "a.zynml").write_text("let x=1\nlet y = 2\n")
    done = zyntax("fmt", "--diff", "a.zynml")
    assert (done.returncode, done.stdout) == (0, "--- a.zynml\n+++ a.zynml\n@@ -1,2 +1,2 @@\n-let x=1\n+let x = 1\n let y = 2\n")
    assert (folder / "a.zynml").read_text() == "let x=1\nlet y = 2\n"


def test_standard_input_goes_to_standard_output(zyntax: Zyntax) -> None:
    done = zyntax("fmt", "-", typed=UGLY)
    assert (done.returncode, done.stdout, done.stderr) == (0, NEAT, "")
    assert zyntax("fmt", "-", "--language", "quantdsl", typed="fn f(){}").stdout == "fn f() { }\n"


def test_a_program_with_a_syntax_error_is_left_alone(zyntax: Zyntax, folder: Path) -> None:
    (folder / "a.zynml").write_text("let x=\n")
    (folder / "b.zynml").write_text(UGLY)
    done = zyntax("fmt", "a.zynml", "b.zynml")
    assert done.returncode == 2
    assert done.stderr == "error[ZYN0101]: expected an expression after `=`\n --> a.zynml:1:7\n  |\n1 | let x=\n  |       ^ the line ends here\n"
    assert (folder / "a.zynml").read_text() == "let x=\n"
    assert (folder / "b.zynml").read_text() == NEAT


def test_a_folder_that_cannot_be_written_to(zyntax: Zyntax, folder: Path) -> None:
    if os.geteuid() == 0:
        # Nothing is forbidden to the superuser, so the folder itself goes.
        return
    (folder / "a.zynml").write_text(UGLY)
    folder.chmod(0o500)
    done = zyntax("fmt", "a.zynml")
    folder.chmod(0o700)
    assert (done.returncode, done.stderr) == (1, "error[ZYN0807]: `a.zynml` can't be written: permission denied\n")


def test_the_gallery_is_laid_out(zyntax: Zyntax) -> None:
    from tests.zyntax.conftest import ROOT

    assert zyntax("fmt", "--check", str(ROOT / "programs")).stdout == ""
