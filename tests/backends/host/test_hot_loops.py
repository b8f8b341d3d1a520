"""Loops over numbers that go on natively while they run: what they give, and where they stop, is what Python gives."""

import _thread
import math
import threading
from pathlib import Path

import pytest

import zynml
from compiler.backends.host import loop_heat
from compiler.backends.native.stopping import under_way
from tests.backends.host.native_programs import opened


@pytest.fixture
def hot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are hot after sixteen turns, whatever time they took."""
    monkeypatch.setattr(loop_heat, "TURNS", 8)
    monkeypatch.setattr(loop_heat, "MANY_TURNS", 16)
    monkeypatch.setattr(loop_heat, "SECONDS", math.inf)


def ran(text: str, native: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """What a program prints, or the message that it ends with, and the loops that went on natively."""
    program = opened(text, native)
    try:
        program.run()
        told = capsys.readouterr().out
    except zynml.ZynMLError as error:
        told = capsys.readouterr().out + str(error)
    loops = program._session.host.loops
    return told, [] if loops is None else sorted(loops.ready)


PROGRAMS = {
    "a sum": ("var s = 0\nfor i in 0..100 { s += i * i }\nprintln(s)", str(sum(i * i for i in range(100)))),
    "a while": (
        "var n = 27\nvar count = 0\nwhile n != 1 { n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }; count += 1 }\nprintln(n, count)",
        "1 111",
    ),
    "both ends and a step": ("var s = 0\nfor i in 3..=99 step 4 { s = s * 7 % 1009 + i }\nprintln(s)", None),
    "floats in order": ("var x = 0.1\nvar s = 0.0\nfor i in 0..100 { x = 3.9 * x * (1.0 - x); s += x }\nprintln(s, x)", None),
    "a break": ("var s = 0\nfor i in 0..100 { if i == 57 { break }; s += i }\nprintln(s)", str(sum(range(57)))),
    "a continue": ("var s = 0\nfor i in 0..100 { if i % 3 == 0 { continue }; s += i }\nprintln(s)", str(sum(i for i in range(100) if i % 3))),
    "a break of a while": ("var i = 0\nwhile true { i += 1; if i > 50 { break } }\nprintln(i)", "51"),
    "a loop in a loop": (
        "var s = 0\nfor i in 0..40 { for j in i..40 { s += i * j }\n s = s % 10007 }\nprintln(s)",
        None,
    ),
    "a few turns of many": ("var s = 0\nfor i in 0..3 { for j in 0..60 { s += i * j } }\nprintln(s)", str(3 * sum(range(60)))),
    "two clauses": ("var s = 0\nfor i in 0..30, j in 0..i { s += j }\nprintln(s)", str(sum(j for i in range(30) for j in range(i)))),
    "narrow numbers": (
        "var a: u8 = 1u8\nvar b: f32 = 0.1f32\nvar c = false\nfor i in 0..90 { a = if a > 100u8 { a - 100u8 } else { a + 3u8 }\n"
        " b = b * 0.5f32 + 0.25f32\n c = !c }\nprintln(a, b, c)",
        None,
    ),
    "in a function": (
        'def shown(n: int, by: float) {\n    var s = 0.0\n    for i in 0..n { s += by * i }\n    println(s)\n}\nshown(50, 0.5)\nshown(7, 2.0)',
        "612.5\n42.0",
    ),
    "a function that is called": (
        "def next(x: int) -> int { (x * 1103515245 + 12345) % 2147483648 }\nvar x = 1\nfor i in 0..64 { x = next(x) }\nprintln(x)",
        None,
    ),
    "a closure has the variable": (
        "var s = 0\nlet add = k => s + k\nfor i in 0..50 { s += i }\nprintln(add(1))",
        str(sum(range(50)) + 1),
    ),
    "no turns": ("var s = 5\nfor i in 9..2 { s += i }\nwhile s > 7 { s -= 1 }\nprintln(s)", "5"),
}


@pytest.mark.usefixtures("hot")
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_give_the_same_whenever_they_go_on_natively(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, expected = PROGRAMS[name]
    on_python, none = ran(text, "none", capsys)
    assert expected is None or on_python.strip() == expected
    assert none == []
    for native in ("paying", "all"):
        told, loops = ran(text, native, capsys)
        assert told == on_python
        assert bool(loops) == (name != "no turns")


@pytest.mark.parametrize("turns", [1, 2, 3, 64, 99, 100, 101])
def test_a_sum_of_floats_has_the_same_bits_at_whichever_turn_it_is_taken(
    turns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "var s = 0.0\nfor i in 1..101 { s += 1.0 / i * 0.1 }\nprintln(s)"
    monkeypatch.setattr(loop_heat, "TURNS", turns)
    monkeypatch.setattr(loop_heat, "MANY_TURNS", 0)
    expected = 0.0
    for i in range(1, 101):
        expected += 1.0 / i * 0.1
    told, loops = ran(text, "paying", capsys)
    assert told == f"{expected!r}\n"
    assert loops == ([] if turns >= 100 else ["loop·1"])


FAULTS = {
    "an int that doesn't fit": "var s = 1\nfor i in 0..100 { s = s * 3 }\nprintln(s)",
    "in a function": "def shown(n: int) {\n    var s = 1\n    for i in 0..n { s = s * 3 }\n    println(s)\n}\nshown(100)",
    "in a function that the loop calls": (
        'def checked(a: int) -> int {\n    assert(a < 70, "too large")\n    a\n}\nvar s = 0\nfor i in 0..100 { s += checked(i) }\nprintln(s)'
    ),
    "a division by 0": "var s = 0\nvar k = 60\nwhile true { s += 100 / k; k -= 1 }",
    "inside a call in a try": "def f(n: int) {\n    var s = 1\n    for i in 0..n { s = s * 3 }\n    println(s)\n}\n"
    "try { f(99) } catch ArithmeticError as e { println(e.code, e.message) }\nf(98)",
    "a condition": "var k = 9223372036854775707\nwhile k + 1 > 0 { k += 1 }",
}


@pytest.mark.usefixtures("hot")
@pytest.mark.parametrize("name", FAULTS)
def test_a_loop_that_stops_natively_says_what_it_says_on_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    on_python, _ = ran(FAULTS[name], "none", capsys)
    assert "error[ZYN08" in on_python
    for native in ("paying", "all"):
        told, loops = ran(FAULTS[name], native, capsys)
        assert told == on_python and loops


STAY = {
    "prints": "for i in 0..40 { if i == 39 { println(i) } }",
    "a list": "var xs: List<int> = []\nfor i in 0..40 { xs.push(i) }\nprintln(xs.len())",
    "a try around it": "var s = 1\ntry { for i in 0..100 { s = s * 3 } } catch _ { println(s) }",
    "a variable of the top in a function": "var s = 1\ndef f() { for i in 0..100 { s = s * 3 } }\ntry { f() } catch _ { println(s) }",
    "text": 'var t = ""\nfor i in 0..40 { t = t + "a" }\nprintln(t.len())',
}


@pytest.mark.usefixtures("hot")
@pytest.mark.parametrize("name", STAY)
def test_what_isnt_all_numbers_stays_on_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    on_python, _ = ran(STAY[name], "none", capsys)
    for native in ("paying", "all"):
        assert ran(STAY[name], native, capsys) == (on_python, [])


def test_loops_stand_as_deep_inside_each_other_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    depth = 15
    heads = "".join(f"for i{n} in 0..{2 if n < 3 else 1} {{ " for n in range(depth))
    told, _ = ran(f"var s = 0\n{heads}s += 1{' }' * depth}\nprintln(s)", "all", capsys)
    assert told == "8\n"


def test_short_loops_wait_for_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    told, loops = ran("var s = 0\nfor i in 0..1000 { s += i }\nprintln(s)", "paying", capsys)
    assert (told, loops) == (f"{sum(range(1000))}\n", [])


def test_the_code_of_a_loop_is_kept_for_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from compiler.backends.native import compile as native_compile

    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ZYNTAX_CACHE", raising=False)
    text = "var s = 0\nfor i in 0..50 { s += i }\nprintln(s)"
    assert ran(text, "all", capsys) == ("1225\n", ["loop·1"])
    monkeypatch.setattr(native_compile.load.CompiledModule, "_generate", lambda module: pytest.fail("compiled again"))
    assert ran(text, "all", capsys) == ("1225\n", ["loop·1"])


@pytest.mark.usefixtures("hot")
def test_control_c_ends_a_loop_that_goes_on_natively() -> None:
    program = opened("var x = 1\nwhile x != -1 { x = (x * 7 + 1) % 1000003 }\n")
    under_way.clear()

    def stop() -> None:
        while threading.main_thread().ident not in under_way:
            pass
        _thread.interrupt_main()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        program.run()
    stopper.join()


def test_explain_names_the_loops_that_go_on_natively() -> None:
    text = "def f(n: int) -> int {\n    var s = 0\n    for i in 0..n { s += i }\n    s\n}\nvar t = 0\nwhile t < f(5) { t += 1 }\nprintln(t)\n"
    text += "for i in 0..3 { println(i) }\n"
    assert opened(text)._session.native_explained() == "f  native\nthe loop at <program>:7:1 goes on natively when it runs for long\n"


@pytest.mark.usefixtures("hot")
def test_programs_with_tasks_keep_their_loops_on_python(capsys: pytest.CaptureFixture[str]) -> None:
    text = "var s = 0\nasync def seen(): int { s }\nfor i in 0..40 { s += i }\nprintln(await seen())"
    assert ran(text, "all", capsys) == ("780\n", [])
