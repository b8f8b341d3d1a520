"""What the command does with QuantDSL programs."""

import json
from pathlib import Path

import pytest

from quantdsl.tree_json import from_json
from tests.zyntax.conftest import ROOT, Zyntax

CROSS = (ROOT / "tests" / "quantdsl" / "programs" / "cross.qdsl").read_text(encoding="utf-8")


@pytest.fixture
def programs(folder: Path) -> None:
    (folder / "cross.qdsl").write_text(CROSS, encoding="utf-8")
    (folder / "wrong.qdsl").write_text(CROSS.replace("CLIP = 2lots", "CLIP = 2.5lots"), encoding="utf-8")
    (folder / "broken.qdsl").write_text("strategy S {\n}\n", encoding="utf-8")
    (folder / "warns.qdsl").write_text("fn f(x: f64, c: bool) -> f64 {\n  if c { ema(x, 3) } else { x }\n}\n", encoding="utf-8")


@pytest.mark.usefixtures("programs")
def test_check_is_silent_about_what_is_right(zyntax: Zyntax) -> None:
    done = zyntax("check", "cross.qdsl")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(("program", "code"), [("wrong.qdsl", "ZYN0702"), ("broken.qdsl", "ZYN0101")])
def test_check_shows_what_is_wrong(zyntax: Zyntax, program: str, code: str) -> None:
    done = zyntax("check", "cross.qdsl", program)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error[{code}]: ") and f"--> {program}:" in done.stderr


@pytest.mark.usefixtures("programs")
def test_warnings_are_errors_only_under_strict(zyntax: Zyntax) -> None:
    plain, strict = zyntax("check", "warns.qdsl"), zyntax("check", "--strict", "warns.qdsl")
    assert (plain.returncode, strict.returncode) == (0, 2)
    assert plain.stderr.startswith("warning[ZYN0606]") and strict.stderr.startswith("error[ZYN0606]")


@pytest.mark.usefixtures("programs")
def test_the_tree_is_json_that_loads(zyntax: Zyntax) -> None:
    done = zyntax("compile", "cross.qdsl", "--emit", "ast")
    assert (done.returncode, done.stderr) == (0, "")
    assert [statement["is"] for statement in json.loads(done.stdout)["statements"]][-2:] == ["Risk", "Strategy"]
    assert from_json(done.stdout).path == "cross.qdsl"


@pytest.mark.usefixtures("programs")
def test_a_strategy_needs_data(zyntax: Zyntax) -> None:
    done = zyntax("run", "cross.qdsl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error[ZYN0505]: `cross.qdsl`: a strategy runs on market data\nhint: zyntax run cross.qdsl --data trades.csv\n"
