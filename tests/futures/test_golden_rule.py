"""A program means the same with `@async` and `await` left out: each of these prints what is stated, in both forms, on the CPU and on the
emulator. What is stated comes from NumPy or is an exact number."""

import contextlib
import io
import re

import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from zynml.api import open_source


def run(text: str, device: str = "cpu") -> tuple[list[str], list[str]]:
    """The lines that a program prints, and the codes with which it ends."""
    source, printed = Source("program.zynml", text), io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            open_source(source, CompileOptions(device=device, threads=2), Sources(source), lambda warning: None).run()
        except ZyntaxError as error:
            return printed.getvalue().splitlines(), [d.code for d in error.diagnostics]
    return printed.getvalue().splitlines(), []


def in_order(text: str) -> str:
    """The program without futures."""
    text = re.sub(r"Future<((?:[^<>]|<[^<>]*>)*)>", r"\1", text.replace("@async", ""))
    text = re.sub(r"await all\((\w+)\)", r"\1", text)
    return re.sub(r"\bawait\s+", "", re.sub(r"await all\(", "(", text))


# Doubling and adding half the square, as often as told: slow enough to be under way while the program goes on.
STEPS = """
def steps(x: tensor[N], count: int): Future<tensor[N]> {
    compute(x, count) @async {
        for i in 0..N:
            var s = x[i]
            for k in 0..count:
                s = s * 0.5 + 1.0
            out[i] = s
    }
}
"""


def after_steps(start: float, count: int) -> float:
    """s = s / 2 + 1 goes to 2 by half the distance each time: exact in f32 for the few starts here."""
    return float(np.float32(2 + (start - 2) / 2.0**count))


LONG, WIDE = 4_000, 20_000
PROGRAMS = {
    "two blocks and the host": (
        STEPS + "let f = steps(ones(3), 2)\nlet g = steps(zeros(3), 3)\nmut n = 0\nfor i in 0..100: n += i\nlet (a, b) = await all(f, g)\n"
        "println(n, a[0], b[2])\n",
        [f"4950 {after_steps(1, 2)} {after_steps(0, 3)}"],
    ),
    "a list of futures": (
        STEPS + "let fs = [steps(full([2], i as f32), 1) for i in 0..5]\nfor v in await all(fs) { println(v[0]) }\n",
        [str(after_steps(i, 1)) for i in range(5)],
    ),
    "no futures at all": ("def f(fs: List<Future<i64>>): List<i64> { await all(fs) }\nprintln(f([]))\n", ["[]"]),
    "futures go into functions and come out": (
        STEPS + "def then(f: Future<tensor[N]>): Future<tensor[N]> { steps(await f, 1) }\nprintln((await then(then(steps(zeros(2), 1))))[1])\n",
        [str(after_steps(0, 3))],
    ),
    "a nested function": (
        STEPS + "def outer(n: int): f32 {\n    def inner(i: int): Future<tensor> { steps(full([2], i as f32), 2) }\n    let fs = [inner(i) for i in 0..n]\n"
        "    mut s = 0.0f32\n    for f in fs { s += (await f)[0] }\n    s\n}\nprintln(outer(4))\n",
        [str(sum(after_steps(i, 2) for i in range(4)))],
    ),
    "a lambda": (
        STEPS + "let go = def(i): steps(full([1], i as f32), 1)\nlet f = go(6)\nprintln((await f)[0])\n",
        [str(after_steps(6, 1))],
    ),
    "awaited twice": (
        STEPS + "let f = steps(ones(2), 1)\nmut a = await f\na[0] = 7.0\nprintln((await f)[0], (await f)[1])\n",
        [f"7.0 {after_steps(1, 1)}"],
    ),
    "an input that changes afterwards": (
        STEPS + f"mut x = ones({WIDE})\nlet f = steps(x, {LONG})\nx[-1] = inf\nx.fill(inf)\nprintln((await f).max(), x[0] > 1e30)\n",
        ["2.0 true"],
    ),
    "a view of an input that changes": (
        STEPS + f"mut x = ones({WIDE}, 2)\nmut row = x[-1]\nlet f = steps(x.reshape(2 * {WIDE}), {LONG})\nrow[1] = inf\nprintln((await f).max())\n",
        ["2.0"],
    ),
    "a list that changes": (
        "mut xs = [1.0, 2.0]\nlet f = compute(xs) @async { for i in 0..N: out[i] = xs[i] * 2.0 }\nxs.push(3.0)\nxs[0] = 5.0\nprintln(await f)\n",
        ["tensor([2.0, 4.0], shape=[2], dtype=f32)"],
    ),
    "an input that a block updates": (
        STEPS + f"mut x = ones({WIDE})\nlet f = steps(x, {LONG})\ncompute(mut x) {{ for i in 0..N: x[i] = inf }}\nprintln((await f).max(), x[3] > 1e30)\n",
        ["2.0 true"],
    ),
    "updates follow each other": (
        "mut d = ones(5)\nlet f = compute(mut d) @async { for i in 0..N: d[i] = d[i] * 2.0 }\nlet g = compute(mut d) @async { for i in 0..N: d[i] = d[i] + 1.0 }\n"
        "println(d[0])\nlet h = compute(d) @async { for i in 0..N: out[i] = d[i] * 10.0 }\nd[0] = 0.0\nprintln((await h)[0], (await g)[0], (await f)[1])\n",
        ["3.0", "30.0 0.0 3.0"],
    ),
    "a number": (
        "let x = arange(0, 1001)\nlet f = compute(x) @async @kernel(reduce, +) { for i in 0..N: yield x[i] }\nprintln(await f)\n",
        ["500500.0"],
    ),
    "several results": (
        "let x = arange(0, 3)\nlet f = compute(x) @async -> (twice: tensor[N], odd: tensor[N, bool]) {\n    for i in 0..N:\n        twice[i] = 2.0 * x[i]\n"
        "        odd[i] = i % 2 == 1\n}\nlet (twice, odd) = await f\nprintln(twice[2], odd[1])\n",
        ["4.0 true"],
    ),
    "sizes nobody thinks of": (
        STEPS + "for n in [0, 1, 31, 1000]:\n    println((await steps(ones(n), 1)).sum())\n",
        ["0.0", "1.5", "46.5", "1500.0"],
    ),
    "an outer number that changes": (
        "mut k = 2.0f32\nlet x = ones(2)\nlet f = compute(x) @async { for i in 0..N: out[i] = x[i] * k }\nk = 9.0\nprintln((await f)[0])\n",
        ["2.0"],
    ),
    "branches": (
        STEPS + "def pick(n: int): Future<tensor> { if n > 0 { steps(ones(2), 1) } else { steps(zeros(2), 1) } }\n"
        "println((await pick(0))[0], (await pick(1) )[0], (true ? await pick(1) : await pick(0))[0])\n",
        [f"{after_steps(0, 1)} {after_steps(1, 1)} {after_steps(1, 1)}"],
    ),
    "more blocks than threads": (
        STEPS + "let fs = [steps(full([3], i as f32), 3) for i in 0..50]\nprintln((await all(fs)).len(), (await fs[49])[2])\n",
        [f"50 {after_steps(49, 3)}"],
    ),
    "a block that fails": (
        "let x = ones(3)\nlet k = tensor([0, 3])\nlet f = compute(x, k) @async { for i in 0..N: out[i] = x[k[i]] }\nlet y = await f\nprintln(y)\n",
        [],
    ),
    "sizes that don't fit": (
        "def add(a: tensor, b: tensor) { compute(a, b) @async { for i in 0..N: out[i] = a[i] + b[i] } }\nlet y = await add(ones(3), ones(4))\nprintln(y)\n",
        [],
    ),
}  # fmt: skip
FAILING = {"a block that fails": ["0801"], "sizes that don't fit": ["0802"]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_must(name: str) -> None:
    text, lines = PROGRAMS[name]
    assert run(text) == (lines, FAILING.get(name, []))


@pytest.mark.parametrize("name", PROGRAMS)
def test_and_the_same_without_futures(name: str) -> None:
    text, lines = PROGRAMS[name]
    assert "await" not in in_order(text) and "Future" not in in_order(text)
    assert run(in_order(text)) == (lines, FAILING.get(name, []))


@pytest.mark.parametrize("name", PROGRAMS)
def test_and_on_the_emulator(name: str) -> None:
    text, lines = PROGRAMS[name]
    assert run(text.replace(str(LONG), "60").replace(str(WIDE), "40"), "emulator") == (lines, FAILING.get(name, []))
