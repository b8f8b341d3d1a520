"""Programs that are in no file: `-`, and `-e`."""

from tests.zyntax.conftest import Zyntax


def test_standard_input_is_run(zyntax: Zyntax) -> None:
    done = zyntax("run", "-", typed="let x = 20\nprintln(x + 1)\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "21\n", "")


def test_a_text_is_run(zyntax: Zyntax) -> None:
    done = zyntax("run", "-e", "param n: int = 2\nprintln(n * 3)", "--set", "n=5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "15\n", "")


def test_the_language_of_a_text(zyntax: Zyntax) -> None:
    done = zyntax("run", "-e", "fn main() { print(7) }", "--language", "quantdsl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7", "")


def test_a_text_finds_modules_beside_where_it_runs(zyntax: Zyntax) -> None:
    done = zyntax("run", "-e", "import helpers\nprintln(helpers.twice(4))", typed=None)
    assert done.returncode == 2
    assert "helpers" in done.stderr


def test_errors_name_the_input(zyntax: Zyntax) -> None:
    wanted = "error[ZYN0201]: `b` is not defined\n --> {}:1:9\n  |\n1 | let a = b\n  |         ^ not found\n"
    for verb in ("run", "check", "compile"):
        done = zyntax(verb, "-", typed="let a = b\n")
        assert (done.returncode, done.stderr) == (2, wanted.format("<stdin>"))
        done = zyntax(verb, "-e", "let a = b")
        assert (done.returncode, done.stderr) == (2, wanted.format("<command line>"))


def test_a_run_that_fails_names_the_input(zyntax: Zyntax) -> None:
    done = zyntax("run", "-e", "let n = 0\nprintln(1 / n)")
    assert done.returncode == 1
    assert done.stderr.startswith("error[ZYN0806]: ") and "--> <command line>:2:9" in done.stderr


def test_a_text_is_shown_at_a_stage(zyntax: Zyntax) -> None:
    done = zyntax("compile", "-e", "let x = 1", "--emit", "ast")
    assert done.returncode == 0 and '"path": "<command line>"' in done.stdout
    done = zyntax("compile", "-e", "let x = 1", "--emit", "obj")
    assert done.returncode == 2
    assert "`-o FILE` says where the obj goes: `<command line>` is no file whose name it could take" in done.stderr


def test_input_that_is_no_text(zyntax: Zyntax) -> None:
    done = zyntax("run", "-", typed="let x = 1\0")
    assert (done.returncode, done.stderr) == (2, "error[ZYN0108]: `<stdin>` is a binary file, not a program\n  --> <stdin>\n")


def test_wrong_usage(zyntax: Zyntax) -> None:
    for arguments, message in [
        (("run",), "Missing argument 'PROGRAM'."),
        (("run", "hello.zynml", "-e", "1"), "`-e` is the program: it stands for no file beside it"),
        (("check", "hello.zynml", "--language", "zynml"), "`--language` goes with `-` and with `-e`: the name of a file says its language"),
        (("run", "-e", "fn f() { }", "--language", "quantdsl", "--data", "d.csv"), "a program that is replayed on `--data` is a file, and `<command line>` is none"),
    ]:
        done = zyntax(*arguments)
        assert done.returncode == 2
        assert message in done.stderr


def test_an_unknown_language(zyntax: Zyntax) -> None:
    done = zyntax("run", "-e", "1", "--language", "zynmal")
    assert (done.returncode, done.stderr) == (2, "error[ZYN0108]: there is no language `zynmal`\nhint: did you mean `zynml`?\n")
