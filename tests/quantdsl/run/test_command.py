"""`zyntax run` on strategies: outputs, options, exit codes; and what goes with what."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from pyarrow import parquet

import quantdsl
from quantdsl.engine.risk import RiskRules
from quantdsl.run.audit import audit
from quantdsl.run.options import Input, RunOptions, duration, inputs, latency, moment, tables
from runtime.replay.outputs.tables import NAMES
from tests.quantdsl.golden.programs import DATA, PROGRAMS
from tests.quantdsl.reference.market import Instrument
from tests.quantdsl.run.acting import strategy
from tests.quantdsl.run.conftest import Zyntax
from zyntax.replay_options import spread

CROSS, TRADES = PROGRAMS / "ema_cross.qdsl", DATA / "btcusdt_spot_20240808_trades.csv"


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(), parse_float=Decimal)
    return found


def test_a_run_writes_all_its_outputs_and_prints_what_came_of_it(zyntax: Zyntax, tmp_path: Path) -> None:
    done = zyntax("run", CROSS, "--data", TRADES, "--out", "out", "--png")
    assert (done.code, done.err) == (0, "")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    charts = {f"{name}.png" for name in ("equity", "drawdown", "position", "price", "rejects", "latency")}
    assert names == {*charts, "summary.json", "report.html", *(f"{name}.parquet" for name in NAMES)}
    found = summary(tmp_path / "out")
    assert (found["rows_in"], found["rows_used"], found["rows_bad"]) == (9757, 9757, 0)
    assert found["submitted"] == found["filled"] + found["cancelled"] + found["rejected"] + found["open"] == 71
    assert found["settings"]["fast"] == 12 and found["settings"]["fills"] == "next"
    assert parquet.read_table(tmp_path / "out" / "fills.parquet").num_rows == found["fills"] == 57
    said = dict(line.split(None, 1) for line in done.out.splitlines())
    assert said["hash"] == found["hash"] and said["outputs"] == "out/report.html"
    assert said["net"].startswith("-7.3502198 USDT (realized 6.5841, unrealized 0.0166, fees 13.9509198)")
    zyntax("run", CROSS, "--data", TRADES, "--out", "out")
    assert not list((tmp_path / "out").glob("*.png")), "PNG files of an earlier run are gone"
    again = zyntax("run", CROSS, "--data", TRADES)
    assert f"hash      {found['hash']}\n" in again.out and "outputs   none: --out FOLDER writes them\n" in again.out


def test_png_files_need_a_folder(zyntax: Zyntax) -> None:
    done = zyntax("run", CROSS, "--data", TRADES, "--png")
    words = "error[ZYN0505]: `--png` writes into the folder of `--out`, which isn't given\nhint: --out FOLDER\n"
    assert (done.code, done.out, done.err) == (2, "", words)
    with pytest.raises(quantdsl.QuantError) as refused:
        quantdsl.compile(CROSS).run(TRADES, png=True)
    assert str(refused.value) == "error[ZYN0505]: png=True writes into the folder of `out`, which isn't given\nhint: out='folder'"


def test_latency_that_misses_its_target_is_another_exit_code(zyntax: Zyntax, tmp_path: Path) -> None:
    text = CROSS.read_text().replace("@target_latency(500ns)", "@target_latency(TARGET)")
    program = tmp_path / "cross.qdsl"
    program.write_text(text.replace("TARGET", "1ns"))
    done = zyntax("run", program, "--data", TRADES, "--latency-all", "--enforce", "max")
    assert done.code == 4 and done.out.startswith("rows ")
    assert "error[ZYN0811]: the max of the handlers' latency is " in done.err and "above the target of 1 ns" in done.err
    program.write_text(text.replace("TARGET", "1000s"))
    assert zyntax("run", program, "--data", TRADES, "--enforce", "max").code == 0
    program.write_text(text.replace("@target_latency(TARGET)", ""))
    done = zyntax("run", program, "--data", TRADES, "--enforce", "p99")
    assert done.code == 2 and "needs a target, and no handler has one" in done.err


WRONG = {
    "no data": (["run", CROSS], 2, "ZYN0505", "a strategy runs on market data"),
    "an option of programs": (["run", CROSS, "--data", TRADES, "--device", "cpu"], 2, "ZYN0505", "`--device` goes with programs"),
    "an option of replays": (["run", CROSS, "--fills", "next"], 2, "ZYN0505", "`--fills` goes with a replay"),
    "a parameter that isn't there": (["run", CROSS, "--data", TRADES, "--set", "fats=3"], 2, "ZYN0201", "did you mean `fast`?"),
    "a parameter out of range": (["run", CROSS, "--data", TRADES, "--set", "fast=1"], 2, "ZYN0705", "1 given for `fast` is outside of 2..500"),
    "a parameter at the end of its range": (["run", CROSS, "--data", TRADES, "--set", "fast=500"], 2, "ZYN0705", "`2..500` ends before 500"),
    "a quantity without a unit": (["run", CROSS, "--data", TRADES, "--set", "clip=500"], 2, "ZYN0705", "write `500lots`"),
    "lots out of range": (["run", CROSS, "--data", TRADES, "--set", "clip=1.5"], 2, "ZYN0705", "1.5 given for `clip` is outside of 1lots..100000lots"),
    "a parameter of another kind": (["run", CROSS, "--data", TRADES, "--set", "fast=2.5"], 2, "ZYN0207", "the parameter `fast` is `i64`"),
    "no seed": (["run", CROSS, "--data", TRADES, "--seed", "3"], 2, "ZYN0201", "the program has no `param seed`"),
    "no such strategy": (["run", CROSS, "--data", TRADES, "--strategy", "Cros"], 2, "ZYN0201", "did you mean `Cross`?"),
    "no duration": (["run", CROSS, "--data", TRADES, "--latency", "50"], 2, "ZYN0505", "--latency: `50` is no duration"),
    "no time": (["run", CROSS, "--data", TRADES, "--from", "noon"], 2, "ZYN0505", "--from: `noon` is no time"),
    "no file": (["run", CROSS, "--data", "nowhere.csv"], 3, "ZYN0807", "nowhere.csv: there is no such file"),
    "no name": (["run", CROSS, "--data", ""], 2, "ZYN0505", "--data names no file"),
    "no format": (["run", CROSS, "--data", CROSS.with_suffix(".png")], 3, "ZYN0807", "no data format has this ending"),
    "another symbol": (["run", CROSS, "--data", f"ETH={TRADES}"], 3, "ZYN0807", "the program has no instrument `ETH`"),
    "no map": (["run", CROSS, "--data", TRADES, "--map", "price"], 2, "ZYN0505", "--map price: write FIELD=NAME"),
    "no field to map": (["run", CROSS, "--data", TRADES, "--map", "prise=px"], 2, "ZYN0505", "--map prise=px: no field is called `prise`"),
    "a folder that can't be made": (
        ["run", CROSS, "--data", TRADES, "--out", TRADES / "x"],
        1,
        "ZYN0807",
        "can't be written: not a directory",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_says_what_is_wrong(name: str, zyntax: Zyntax) -> None:
    arguments, code, full, words = WRONG[name]
    done = zyntax(*arguments)
    assert (done.code, done.out) == (code, "")
    assert f"error[{full}]: " in done.err and words in done.err and done.err.count("error[") == 1, done.err


def test_a_choice_that_isnt_one_is_wrong_usage(zyntax: Zyntax) -> None:
    done = zyntax("run", CROSS, "--data", TRADES, "--fills", "always")
    assert done.code == 2 and "'always' is not one of 'next', 'touch', 'queue'" in done.err


def test_files_follow_data_up_to_the_next_option() -> None:
    assert spread(["s.qdsl", "--data", "a", "B=b", "--out", "o"]) == ["s.qdsl", "--data", "a", "--data", "B=b", "--out", "o"]
    assert spread(["--data", "a", "s.qdsl"]) == ["--data", "a", "s.qdsl"]
    assert spread(["--data=a", "b", "--out", "c", "d"]) == ["--data=a", "--data", "b", "--out", "c", "d"]
    assert spread(["--data", "a", "--data", "b", "c"]) == ["--data", "a", "--data", "b", "--data", "c"]
    assert spread(["x", "y"]) == ["x", "y"]


def test_texts_of_options() -> None:
    assert (duration("1.5us", ""), duration("2m", ""), latency("50us/80us", ""), latency("1ms", "")) == (
        1500,
        120 * 10**9,
        (50_000, 80_000),
        (10**6,) * 2,
    )
    assert moment("1970-01-01 00:00:01.5", "") == 1_500_000_000 == moment("1500000000", "")
    assert inputs(["A=x.csv", "./b=c.csv"]) == (Input(Path("x.csv"), "A"), Input(Path("./b=c.csv")))
    mapped = inputs(["A=x.csv", "y.csv"], ["price=px", "y.csv:ts_ms=when"])
    assert [dict(one.mapped) for one in mapped] == [{"price": "px"}, {"price": "px", "ts_ms": "when"}]
    assert [(str(one.path), one.symbol) for one in tables({"A": "x.csv", "B": ["y.csv", "z.csv"]})] == [
        ("x.csv", "A"),
        ("y.csv", "B"),
        ("z.csv", "B"),
    ]


def test_stages(zyntax: Zyntax) -> None:
    assert zyntax("compile", CROSS).out.startswith("module @")
    assert "define" in zyntax("compile", CROSS, "--emit", "llvm").out
    assert json.loads(zyntax("compile", CROSS, "--emit", "typed-ast").out)["is"] == "Program"
    done = zyntax("compile", CROSS, "--emit", "schedule")
    assert done.code == 2 and "a strategy has no stage `schedule`" in done.err
    done = zyntax("compile", CROSS, "--backend", "nvptx", "--emit", "ptx")
    assert done.code == 2 and "a strategy is code for this CPU" in done.err


def test_tests_of_a_program(zyntax: Zyntax, tmp_path: Path) -> None:
    (tmp_path / "t.qdsl").write_text(
        'fn f(x: int) -> int { 2 * x }\ntest "good" { assert(f(2) == 4) }\ntest "bad" { assert(f(2) == 5, "five") }\n'
    )
    done = zyntax("test", "t.qdsl")
    assert done.code == 1 and done.out.endswith("2 passed, 1 failed\n")
    assert "FAIL  t.qdsl: bad\n      error[ZYN0808]: assertion failed: five\n" in done.out


# ---- counting what the loop asks of the system ----

RULES = RiskRules(tick_value=10, max_position=1000)


class Calling:
    """A linked strategy whose loop makes a system call."""

    def __init__(self, linked: Any) -> None:
        self.linked = linked

    def __getattr__(self, name: str) -> Any:
        return getattr(self.linked, name)

    def __getitem__(self, name: str) -> Any:
        import os

        function = self.linked[name]

        class Called:
            @staticmethod
            def run(arguments: Any) -> Any:
                if name == "engine.run":
                    os.getppid()
                return function.run(arguments)

        return Called


def test_system_calls_of_the_loop_are_counted() -> None:
    own = strategy(RULES, Instrument(10))
    options = RunOptions(inputs([str(TRADES)]))
    found = audit(own, options)
    assert found is not None and (found.system_calls, found.by_number) == (0, {}) and found.calls >= 1
    control = audit(evolve(own, linked=Calling(own.linked)), options)
    assert control is not None and control.system_calls == control.calls


def test_an_audit_is_told_in_the_summary(zyntax: Zyntax, tmp_path: Path) -> None:
    ran = zyntax("run", CROSS, "--data", TRADES, "--audit", "--out", "out")
    assert ran.code == 0
    assert "audit     0 allocator calls, 0 system calls; " in ran.out
    found = summary(tmp_path / "out")["outside_calls"]
    assert (found["system"], found["allocator"]) == (0, 0) and "traced" in found["how"]
