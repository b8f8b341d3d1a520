"""`zyntax explain` of programs: native functions with their proofs, one function, and the schedules of compute blocks."""

from pathlib import Path

from tests.zyntax.conftest import Zyntax

PROGRAM = """@critical_path
def total(x: tensor[8, f64], n: int): f64 {
    mut sum = 0.0
    for i in 0..min(n, 8) { sum += x[i] }
    sum
}
let y = compute(v = ones(4)) { for i in 0..N: out[i] = v[i] + 1.0 }
println(total(ones(8, dtype=f64), 5), y)
"""


def test_a_program_shows_proofs_and_schedules(zyntax: Zyntax, folder: Path) -> None:
    (folder / "p.zynml").write_text(PROGRAM, encoding="utf-8")
    done = zyntax("explain", "p.zynml")
    first, empty, head, *schedule = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == "" and empty == ""
    assert first.startswith("total  native, a critical path: no allocation, no call of the system, no recursion; at most ")
    assert head == "schedules on the CPU (`zyntax compile --emit schedule --backend nvptx` shows those of a GPU)"
    assert schedule[0] == "p.zynml:7:9: @kernel_line7" and schedule[1].startswith("  i: ")


def test_a_function_of_zynml_shows_its_bounds_and_its_code(zyntax: Zyntax, folder: Path) -> None:
    (folder / "p.zynml").write_text(PROGRAM, encoding="utf-8")
    shown = zyntax("explain", "p.zynml:total").stdout
    for line in ("total    p.zynml:2    compiled as fn.total", "annotations  @critical_path", "  proved    p.zynml:4  condition  x[i]"):
        assert f"{line}\n" in shown
    assert "loop         p.zynml:4  at most 8 turns\n" in shown and "func @fn.total" in shown and "define " in shown
    missing = zyntax("explain", "p.zynml:totals")
    assert missing.returncode == 2 and missing.stderr.splitlines() == [
        "error[ZYN0201]: `p.zynml` has no function `totals`",
        "hint: did you mean `total`?",
    ]
