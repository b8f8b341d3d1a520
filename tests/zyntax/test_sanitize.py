"""`--sanitize` as users meet it: the run goes on, everything found comes at its end, and the exit code says when it was found."""

import json
from pathlib import Path

import numpy as np
import pytest

import zynml
from tests.zyntax.conftest import Zyntax

BLOCK = """let {name} = compute(x, k) -> tensor[4] @kernel(custom) @workgroup(4) @grid(1) {{
    let t = thread_idx().x
    out[k[t]] = x[t]
}}
println({name}.shape())
"""
TWO = "let x = arange(0, 4)\nlet k = tensor([0, 1, 1, 2])\n" + BLOCK.format(name="a") + BLOCK.format(name="b")


def test_all_blocks_run_and_all_findings_are_shown(zyntax: Zyntax, folder: Path) -> None:
    (folder / "two.zynml").write_text(TWO, encoding="utf-8")
    done = zyntax("run", "--sanitize", "two.zynml")
    assert (done.returncode, done.stdout) == (1, "[4]\n[4]\n")
    assert done.stderr.count("error[ZYN0414]") == 2
    assert " --> two.zynml:5:5\n" in done.stderr and "two.zynml:10:5\n" in done.stderr
    found = [json.loads(line) for line in zyntax("run", "--sanitize", "two.zynml", "--error-format", "json").stderr.splitlines()]
    assert [(one["code"], one["place"]["line"]) for one in found] == [("ZYN0414", 5), ("ZYN0414", 10)]


def test_findings_come_before_the_fault_that_ends_the_run(zyntax: Zyntax, folder: Path) -> None:
    (folder / "ends.zynml").write_text(TWO + "let zero = 0\nprintln(1 / zero)\n", encoding="utf-8")
    done = zyntax("run", "--sanitize", "ends.zynml")
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stderr.splitlines() if line.startswith("error")] == [
        "error[ZYN0414]", "error[ZYN0414]", "error[ZYN0806]",
    ]  # fmt: skip


def test_another_device_is_wrong_usage(zyntax: Zyntax, folder: Path) -> None:
    (folder / "two.zynml").write_text(TWO, encoding="utf-8")
    done = zyntax("run", "--sanitize", "--device", "cpu", "two.zynml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[ZYN0501]: `--sanitize` watches threads on the emulator, not on `cpu`" in done.stderr
    assert zyntax("run", "--sanitize", "--device", "emulator", "two.zynml").returncode == 1


def test_tests_of_programs_are_watched_too(zyntax: Zyntax, folder: Path) -> None:
    (folder / "two.zynml").write_text("// run: device = cpu\n// prints ...\n" + TWO, encoding="utf-8")
    assert zyntax("test", "two.zynml").returncode == 0
    done = zyntax("test", "--sanitize", "two.zynml")
    assert done.returncode == 1 and "error[ZYN0414]" in done.stdout
    (folder / "states.zynml").write_text("// fails: ZYN0414\n// prints ...\n" + TWO, encoding="utf-8")
    assert zyntax("test", "--sanitize", "states.zynml").returncode == 0


def test_a_call_from_python_raises_and_leaves_inputs_as_they_were() -> None:
    program = zynml.compile(
        "def f(mut x: tensor[N], k: tensor[N, i32]) {\n    compute(mut x, k) @kernel(custom) @workgroup(4) {\n"
        "        let t = thread_idx().x\n        x[k[t]] = x[t] + 1.0\n    }\n}\n",
        sanitize=True,
    )
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(x, np.array([0, 1, 1, 2], np.int32))
    assert set(caught.value.codes) == {"ZYN0414"}
    np.testing.assert_array_equal(x, np.arange(4))
    program.f(x, np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(x, np.arange(4) + 1)


def test_the_emulator_alone_stops_at_the_first_and_names_its_lines() -> None:
    text = """let k = arange(0, 64, dtype=i32)
let y = compute(k) -> tensor[64, i32] @kernel(custom) @workgroup(64) @grid(1) {
    shared var s[64, i32]
    let t = thread_idx().x
    s[k[t]] = k[t]
    out[t] = s[63 - t]
}
"""
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text, device="emulator").run()
    (found,) = caught.value.diagnostics
    assert (found.code, text[found.span.start : found.span.end]) == ("0412", "s[63 - t]")
    assert found.at_run_time


def test_each_finding_is_told_once_however_often_a_block_runs() -> None:
    text = TWO.replace("let a", "for turn in 0..3:\n    let a").split("println(a")[0]
    lines = text.split("\n")
    text = "\n".join(lines[:3] + [lines[3]] + ["    " + line for line in lines[4:]])
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text, sanitize=True).run()
    assert caught.value.codes == ("ZYN0414",)
