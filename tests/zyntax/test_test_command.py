"""`zyntax test`: programs against the output that they state."""

from pathlib import Path

from tests.zyntax.conftest import Zyntax
from zyntax.expectations import ExpectedLine, expectations, mismatch


def test_programs_are_run_against_their_heads(zyntax: Zyntax, folder: Path) -> None:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "a_good.zynml").write_text("// run: n = 4\n// prints: 16\nparam n: int = 2\nprintln(n * n)\n", encoding="utf-8")
    (programs / "b_bad.zynml").write_text("// prints: 5\nprintln(4)\n", encoding="utf-8")
    (programs / "c_fails.zynml").write_text("// prints: begins\n// fails: ZYN0806\nprintln('begins')\nlet n = 0\nlet x = 1 / n\n", encoding="utf-8")
    (programs / "d_tests.zynml").write_text('test "two" { assert(1 + 1 == 2) }\ntest "three" { assert(1 + 1 == 3, "no") }\n', encoding="utf-8")
    done = zyntax("test", "programs")
    assert done.returncode == 1
    assert done.stdout == (
        "ok    programs/a_good.zynml\n"
        "FAIL  programs/b_bad.zynml\n"
        "      line 1 is `4`, expected `5`\n"
        "ok    programs/c_fails.zynml\n"
        "ok    programs/d_tests.zynml\n"
        "ok    programs/d_tests.zynml: two\n"
        "FAIL  programs/d_tests.zynml: three\n"
        "      error[ZYN0808]: assertion failed: no\n"
        "       --> programs/d_tests.zynml:2:16\n"
        "        |\n"
        '      2 | test "three" { assert(1 + 1 == 3, "no") }\n'
        "        |                ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "4 passed, 2 failed\n"
    )


def test_nothing_to_test_is_a_failure(zyntax: Zyntax, folder: Path) -> None:
    (folder / "empty").mkdir()
    done = zyntax("test", "empty")
    assert (done.returncode, done.stdout) == (1, "0 passed, 0 failed\n")


def test_heads_are_read_to_the_first_line_that_is_none() -> None:
    found = expectations("// run: n = 4, device = cpu\n// words\n// prints: a: b\n// prints ...\n// prints matching: \\d+\nlet x = 1\n// prints: no\n")
    assert found.settings == (("n", "4"),)
    assert found.device == "cpu"
    assert found.lines == (ExpectedLine(text="a: b"), ExpectedLine(), ExpectedLine(pattern="\\d+"))


def test_dots_stand_for_any_lines() -> None:
    lines = (ExpectedLine(text="first"), ExpectedLine(), ExpectedLine(pattern="la.t"))
    assert mismatch(lines, "first\n1\n2\nlast\n") is None
    assert mismatch(lines, "first\nlast\n") is None
    assert mismatch(lines, "first\n1\n") == "line 3 is missing: /la.t/"
    assert mismatch((ExpectedLine(text="first"),), "first\nmore\n") == "line 2 is not expected: `more`"


def test_a_line_matches_a_pattern_as_a_whole() -> None:
    lines = (ExpectedLine(pattern="loss 0\\.\\d"),)
    assert mismatch(lines, "loss 0.9\n") is None
    assert mismatch(lines, "loss 0.95\n") == "line 1 is `loss 0.95`, expected `/loss 0\\.\\d/`"
    assert mismatch(lines, "a loss 0.9\n") == "line 1 is `a loss 0.9`, expected `/loss 0\\.\\d/`"


def test_what_is_printed_before_a_stated_failure_counts(zyntax: Zyntax, folder: Path) -> None:
    (folder / "fails.zynml").write_text("// prints: ends\n// fails: ZYN0806\nprintln('begins')\nlet n = 0\nlet x = 1 / n\n", encoding="utf-8")
    done = zyntax("test", "fails.zynml")
    assert (done.returncode, done.stdout) == (
        1,
        "FAIL  fails.zynml\n      line 1 is `begins`, expected `ends`\n0 passed, 1 failed\n",
    )
