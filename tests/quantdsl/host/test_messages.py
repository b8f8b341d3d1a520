"""What programs with a `main` are told, whole."""

import pytest

from tests.quantdsl.host.running import message

MAIN = "fn main() { }\n"
RUN = "in a program that is run by its `main`"

REFUSED = [
    ("strategy S on A { }", "a strategy", "put it into a file of its own, which runs with `--data`"),
    ("currency C { scale 2 }", "a market's declaration", "strategies have markets: count in f64 here"),
    ("signal s(x: f64) -> f64 { emit x }", "a signal", "signals belong to strategies: loop over the values here"),
    ("fn f(x: f64) { let y = 500ms }", "a number of `ms`", "write the plain number"),
    ("fn f(x: i64) -> i64 { x +| 1 }", "`+|`", "use `+`, which is checked; in compute blocks ints wrap"),
    ("fn f(x: Side) { }", "`Side`", "strategies have exact numbers and containers in place: use `f64`, `list` and `tensor` here"),
    ("fn f(n: const int) { }", "a `const` parameter", "declare it without `const`"),
    ("fn f() { ema(1.0, 3) }", "`ema`", "strategies call it: write one, which runs with `--data`"),
    ("fn f() { order(Buy, 3) }", "`order`", "strategies call it: write one, which runs with `--data`"),
    ("extern fn f(x: f64) -> f64 effects(none)", "an `extern` function", "declare it with a body"),
    (
        "@critical_path fn f(x: f64) -> f64 { x }",
        "`@critical_path`",
        "the host promises nothing of the kind: leave it out, or call the function from a handler",
    ),
    (
        "fn f(n: int) { let y = compute(n) { for i in 0..n { var k = 0\nwhile k < i max 9 { k += 1 }\nout[i] = k } } }",
        "`while` with a bound in a compute block",
        "write `for k in 0..n:` and `break`",
    ),
]


@pytest.mark.parametrize("text, what, hint", REFUSED)
def test_what_the_host_refuses(text: str, what: str, hint: str) -> None:
    found = message(text + "\n" + MAIN)
    lines = found.splitlines()
    assert lines[0] == f"error[ZYN0109]: {what} is valid, but not supported yet {RUN}"
    assert lines[1].startswith(" --> p.qdsl:1:") or lines[1].startswith(" --> p.qdsl:2:")
    assert lines[-1] == f"hint: {hint}"
    assert found.count("error[") == 1


@pytest.mark.parametrize(
    "statement, words",
    [
        ("emit 3", "`emit` stands in a signal only"),
        ("warmup 3", "`warmup` stands in a signal only"),
        ("on trade(t) { }", "`on` stands directly in a strategy only"),
    ],
)
def test_what_belongs_elsewhere(statement: str, words: str) -> None:
    assert message(f"fn main() {{ {statement} }}\n").startswith(f"error[ZYN0101]: {words}\n")


def test_all_that_is_wrong_at_once() -> None:
    found = message("fn f(x: Side) -> [f64; 2] { x +| 1 }\n" + MAIN)
    assert found.count("error[ZYN0109]") == 2


def test_a_whole_message() -> None:
    assert message("fn f(x: Side) { }\n" + MAIN) == (
        "error[ZYN0109]: `Side` is valid, but not supported yet in a program that is run by its `main`\n"
        " --> p.qdsl:1:9\n"
        "  |\n"
        "1 | fn f(x: Side) { }\n"
        "  |         ^^^^\n"
        "hint: strategies have exact numbers and containers in place: use `f64`, `list` and `tensor` here"
    )


def test_a_loop_that_is_still_to_go_on_at_its_bound() -> None:
    found = message("fn main() {\n    var x = 1.0\n    while x > 0.0 max 10 { x = x / 2.0 }\n    println(x)\n}\n")
    assert found == (
        "error[ZYN0808]: the condition still holds after `max` 10 rounds\n"
        " --> p.qdsl:3:11\n"
        "  |\n"
        "3 |     while x > 0.0 max 10 { x = x / 2.0 }\n"
        "  |           ^^^^^^^"
    )


def test_a_loop_that_just_ends_at_its_bound() -> None:
    assert message("fn main() {\n    var x = 0\n    while x < 10 max 10 { x += 1 }\n    assert(x == 10)\n}\n") == ""


def test_a_failure_inside_the_library_shows_its_line_and_the_call() -> None:
    found = message("fn main() {\n    println(var_historical(zeros(0), 0.9))\n}\n")
    lines = found.splitlines()
    assert lines[0] == "error[ZYN0808]: assertion failed: value at risk needs at least one case"
    assert lines[1].lstrip().startswith("--> <std.risk>:")


def test_a_hidden_name_of_the_library_hides_nothing_inside() -> None:
    """A program's own `normal_pdf` isn't what `bs_gamma` calls."""
    text = (
        "fn normal_pdf(x: f64) -> f64 { 7.0 }\nfn main() { assert(bs_gamma(1.0, 1.0, 0.0, 0.1, 1.0) < 5.0 and normal_pdf(0.0) == 7.0) }\n"
    )
    assert message(text) == ""


def test_modules() -> None:
    assert message("use std.nothing\n" + MAIN).startswith("error[ZYN0202]: there is no module `std.nothing`")
    assert message("use desk.limits\n" + MAIN).startswith("error[ZYN0109]: ")
    assert message("use std.pricing as p\n" + MAIN).startswith("error[ZYN0109]: ")
