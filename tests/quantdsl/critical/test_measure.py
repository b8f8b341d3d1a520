"""What annotations make of the HIR, estimates against targets, and what `explain` tells of a function."""

from pathlib import Path

import pytest

from compiler.backends.native.explained import shortened
from compiler.diagnostics import Severity, ZyntaxError
from compiler.hir.module import OptimizationLevel
from compiler.hir.verify import verify
from compiler.passes.examine import Examination, by_span, examine
from compiler.source import Source, Sources
from quantdsl.check.program import check_program
from quantdsl.critical.explain import explain
from quantdsl.critical.graph import call_graph
from quantdsl.critical.whole import examine_all
from quantdsl.elaborate import elaborate
from quantdsl.parse import parse_source
from zyntax.main import main

LOOPS = """param depth: int in 1..10 = 5
@critical_path @target_latency({target})
fn total(x: f64) -> f64 {{
  var sum = 0.0
  for i in 0..depth {{ sum += sqrt(x) }}
  while sum > 1.0 max 8 {{ sum = sum / 2.0 }}
  sum
}}
"""


def examined(text: str, level: OptimizationLevel = OptimizationLevel.OLATENCY) -> Examination:
    source = Source("p.qdsl", text)
    checked = check_program(parse_source(source))
    checked.diagnostics.raise_errors()
    module = elaborate(checked).module
    found = examine(by_span(call_graph(checked), module), module, Sources(source), level)
    verify(module)
    return found


def test_the_longest_way_against_a_target() -> None:
    (slow,) = examined(LOOPS.format(target="20ns")).diagnostics.sorted
    assert slow.code == "0716" and slow.severity is Severity.WARNING and slow.label == "its target is 20 ns"
    assert len(slow.others) == 2, "both lines that take time are shown"
    (hard,) = examined(LOOPS.format(target="20ns, hard")).diagnostics.sorted
    assert hard.severity is Severity.ERROR
    assert examined(LOOPS.format(target="2us, hard")).diagnostics.sorted == ()
    assert examined(LOOPS.format(target="20ns").replace("target_latency(20ns)", "target_latency_ns(2000)")).diagnostics.sorted == ()


def test_longer_loops_take_longer() -> None:
    costs = []
    for depth in (1, 5, 9):
        one = examined(LOOPS.format(target="1ms").replace("= 5", f"= {depth}")).functions["fn.total"]
        assert one.cost is not None and one.stack == 0
        costs.append(one.cost.cycles)
    first, second, third = costs
    assert (third - second) / (second - first) == pytest.approx(1.0)


def test_marks_and_checks() -> None:
    found = examined(
        LOOPS.format(target="1ms") + "fn pick(a: [int; 8], i: int) -> int { a[3] + a[i] }\n@inline_always\nfn one() -> int { 1 }\n"
    )
    constraints = found.functions["fn.total"].function.constraints
    assert constraints is not None and constraints.critical_path and constraints.no_alloc and not constraints.inline_always
    constraints = found.functions["fn.one"].function.constraints
    assert constraints is not None and constraints.inline_always
    pick = found.functions["fn.pick"]
    assert sorted((proof.instruction, proof.kept) for proof in pick.checks)[:1] == [("checked", True)]
    assert ("element", True) in [(proof.instruction, proof.kept) for proof in pick.checks]


TARGET = "@target_latency(1us, hard)\n"
MARKET = "currency USD { scale 8 }\ninstrument ES : USD { tick 0.25  lot 1  multiplier 50 }\n"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("fn f(n: int) -> int { var s = 0; for i in 0..n { s += 1 }; s }", ("f", "for i in 0..n { s += 1 }")),
        ("fn f(x: f64) -> f64 { var s = x; while s < 9.0 { s *= 2.0 }; s }", ("f", "while s < 9.0 { s *= 2.0 }")),
        ("fn f(n: int) -> int { if n < 2 { 1 } else { g(n) } }\nfn g(n: int) -> int { f(n - 1) }", ("f", "f(n - 1)")),
        ("fn f(n: int) -> int { g(n) }\nfn g(n: int) -> int { var s = 0; for i in n..9 { s += 1 }; s }", ("f", "for i in n..9 { s += 1 }")),
        ("fn f<T>(x: T) -> T { x }", ("f", None)),
        ("signal f(x: f64) -> f64 { emit x }", ("f", None)),
        ("fn f(x: f64) -> f64 { x }\n" + MARKET + "strategy S on ES { on trade(t) { } }", None),
        ('fn f<T>(x: T) -> T { x }\ntest "it" { assert(f(3) == 3) }\n' + MARKET + "strategy S on ES { on trade(t) { } }", None),
        ("fn f<T>(x: T) -> T { x }\n" + MARKET + "strategy S on ES { on trade(t) { log_ring(f(t.price.f64)) } }", None),
    ],
)
def test_a_hard_target_wants_an_estimate(text: str, ends: tuple[str, str | None] | None) -> None:
    """Of a function of strategies, too, that none of them calls. A target that isn't hard says nothing."""
    for head, hard in ((TARGET, True), (TARGET.replace(", hard", ""), False)):
        source = Source("p.qdsl", head + text)
        checked = check_program(parse_source(source))
        checked.diagnostics.raise_errors()
        found = examine_all(checked, source, Sources(source)).sorted
        if ends is None or not hard:
            assert found == ()
            continue
        (error,) = found
        assert (error.code, error.severity) == ("0716", Severity.ERROR) and f"`{ends[0]}`" in error.message
        assert error.span is not None and error.span.start == 0
        assert [source.text[label.span.start : label.span.end] for label in error.others] == ([ends[1]] if ends[1] else [])


def test_a_hard_target_of_a_function_in_a_strategy() -> None:
    text = MARKET + "strategy S on ES {\n  @target_latency(1us, hard)\n  fn f(n: int) -> int { n }\n  on trade(t) { CALL }\n}"
    for call, codes in (("", ["0716"]), ("log_ring(f(2))", [])):
        source = Source("p.qdsl", text.replace("CALL", call))
        found = examine_all(check_program(parse_source(source)), source, Sources(source)).sorted
        assert [one.code for one in found] == codes


UNCHECKED = "@unsafe_unchecked\nfn hash(a: int, b: int) -> int { a * 31 + b / 7 }\n"


def test_what_is_given_up() -> None:
    hash = examined(UNCHECKED).functions["fn.hash"]
    assert [proof.instruction for proof in hash.given_up] == ["checked", "checked"]
    assert all(proof.span is not None for proof in hash.given_up)
    debug = examined(UNCHECKED, OptimizationLevel.O0).functions["fn.hash"]
    assert debug.given_up == () and [proof.kept for proof in debug.checks].count(True) == 2, "O0 keeps them; the division can't fail"


VECTORS = """@vectorizable
fn scaled(a: [f64; 64], k: f64) -> f64 {
  var b = a
  for i in 0..64 { b[i] = a[i] * k }
  b[7]
}
@vectorizable
fn running(a: [f64; 64]) -> f64 {
  var b = a
  for i in 1..64 { b[i] = b[i - 1] + a[i] }
  b[63]
}
"""


def test_turns_that_need_another() -> None:
    (found,) = examined(VECTORS).diagnostics.sorted
    assert found.code == "0405" and "`running`" in found.message
    assert found.span is not None and VECTORS[found.span.start : found.span.end] == "b[i - 1]"


def test_check_tells_what_only_code_can_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.qdsl"
    for text, code in ((VECTORS, "ZYN0405"), (LOOPS.format(target="20ns"), "ZYN0716"), (UNCHECKED, "")):
        path.write_text(text)
        with pytest.raises(SystemExit) as done:
            main(["check", str(path)])
        assert bool(done.value.code) is (code == "ZYN0405"), text
        assert code in capsys.readouterr().err


# ---- explain -------------------------------------------------------------------------------------------------------------


def explained(text: str, name: str, level: OptimizationLevel = OptimizationLevel.OLATENCY) -> str:
    source = Source("p.qdsl", text)
    checked = check_program(parse_source(source))
    checked.diagnostics.raise_errors()
    return explain(checked, name, None, source, Sources(source), level)


def test_all_parts_are_told() -> None:
    found = explained(LOOPS.format(target="20ns") + "fn other(x: f64) -> f64 { total(x) + 1.0 }\n", "other")
    lines = found.splitlines()
    assert lines[0] == "other    p.qdsl:9    compiled as fn.other"
    assert lines[lines.index("calls") + 1] == "  total"
    assert any(line.startswith("estimate     ") and "ns at 3 GHz at worst" in line for line in lines)
    assert any(line.strip().endswith("p.qdsl:5  for i in 0..depth { sum += sqrt(x) }") for line in lines)
    assert {"HIR", "LLVM IR", "assembly"} <= set(lines)
    assert any(line.startswith("define ") and "@fn.other(" in line for line in lines) and "fn.other:" in lines


def test_loops_and_checks_are_told() -> None:
    found = explained(LOOPS.format(target="20ns"), "total").splitlines()
    assert "annotations  @critical_path @target_latency(20ns)" in found
    assert "loop         p.qdsl:5  at most 5 turns" in found
    assert "loop         p.qdsl:6  at most 8 turns" in found
    found = explained(UNCHECKED, "hash").splitlines()
    assert "checks       0 kept, 1 proved away, 2 given up by @unsafe_unchecked" in found
    assert "  given up  p.qdsl:2  fits  a * 31" in found


def test_vectors_are_told() -> None:
    found = explained(VECTORS.split("@vectorizable\nfn running")[0], "scaled")
    assert any(line.startswith("vectors ") and "x double" in line for line in found.splitlines())


def test_floats_keep_their_order_unless_it_is_given_up() -> None:
    text = "@vectorizable\nfn total(a: [f64; 64]) -> f64 {\n  var s = 0.0\n  for x in a { s += x }\n  s\n}\n"
    assert "vectors      none" in explained(text, "total").splitlines()
    assert any(line.startswith("vectors ") and "x double" in line for line in explained("@fast_math " + text, "total").splitlines())


def test_only_what_is_asked_for_must_compile() -> None:
    assert "checks       0 kept" in explained(UNCHECKED + 'fn main() { print("x") }\n', "hash")


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(ZyntaxError) as error:
        explained(UNCHECKED, "hsah")
    (told,) = error.value.diagnostics
    assert (told.code, told.message, told.hint) == ("0201", "`p.qdsl` has no function `hsah`", "did you mean `hash`?")


TWO = """currency USD { scale 8 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50 }
signal half(x: f64) -> f64 { emit x / 2.0 }
strategy A on ES {
  state v = 0.0
  @critical_path
  on trade(t) { v = half(t.price.f64) }
}
strategy B on ES {
  state n = 0
  on trade(t) { n += 1 }
}
"""


def test_handlers_and_signals_of_strategies() -> None:
    source = Source("p.qdsl", TWO)
    checked = check_program(parse_source(source))

    def told(name: str, strategy: str | None) -> list[str]:
        return explain(checked, name, strategy, source, Sources(source), OptimizationLevel.OLATENCY).splitlines()

    with pytest.raises(ZyntaxError) as error:
        told("trade", None)
    (refused,) = error.value.diagnostics
    assert (refused.code, refused.message) == ("0204", "`trade` stands in 2 strategies: `A`, `B`")
    first = told("on trade", "A")
    assert first[0].startswith("on trade    p.qdsl:7    compiled as ") and first[first.index("calls") + 1] == "  half"
    assert told("trade", "B")[0].startswith("on trade    p.qdsl:11    compiled as ")
    assert told("half", "A")[0].startswith("half    p.qdsl:3    compiled as ")


def test_structs_are_shortened() -> None:
    text = "%a: ptr<struct<desk; now: i64, out: struct<out; full: i1, cells: array<3 x struct<c; x: i64>>>>> %b: array<open x f64> lt<gt>"
    assert shortened(text) == "%a: ptr<struct<desk>> %b: array<open x f64> lt<gt>"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.qdsl"
    path.write_text(LOOPS.format(target="20ns"))
    with pytest.raises(SystemExit) as done:
        main(["explain", f"{path}:total", "--set", "depth=3"])
    assert not done.value.code and f"loop         {path}:5  at most 3 turns" in capsys.readouterr().out
