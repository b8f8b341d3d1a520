"""Runs from the user's cache: the same output, warnings and errors as without one, and never what isn't true any more."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.fusion.kept_runs import KeptRun
from compiler.launch import tiers
from runtime.cpu import detect
from tests.zyntax.conftest import ROOT, Zyntax

TRAINED = """
param turns: int = 3
def scaled(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def moved(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def total(x: tensor[N]) { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def both(x: tensor[N], y: tensor[N]) {
    let s = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }
    let t = compute(s, x) { for i in 0..N: out[i] = s[i] * x[i] }
    compute(t) { for i in 0..N: out[i] = t[i] - 1.0 }
}
let start = load("start.npy")
mut w = start.clone()
for turn in 0..turns {
    moved(w, scaled(w, 0.5 as f32))
    println(f"{turn}: {total(w):.3f}")
}
let counts = compute(w) -> tensor[2, i32] @kernel(custom) @workgroup(64) {
    for i in global_idx().x..N step grid_dim().x * block_dim().x:
        atomic_add(out[w[i] > 10.0 ? 1 : 0], 1)
}
println(counts)
println(total(both(start, w)))
"""


@pytest.fixture
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(folder / "cache"))
    np.save(folder / "start.npy", np.arange(40, dtype=np.float32))
    return folder / "cache"


@pytest.fixture
def runs(cache: Path, zyntax: Zyntax, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a program, and tells how it was run: `new`, `kept`, or `went on` where it was kept, and a session was needed."""
    started: list[KeptRun] = []
    run = KeptRun.run

    def noted(kept: KeptRun) -> None:
        started.append(kept)
        run(kept)

    monkeypatch.setattr(KeptRun, "run", noted)

    def ran(*arguments: str) -> tuple[str, "subprocess.CompletedProcess[str]"]:
        started.clear()
        done = zyntax("run", *arguments)
        tiers.finish()
        if not started:
            return "new", done
        return "went on" if "session" in started[0].__dict__ else "kept", done

    return ran


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def expected(start: np.ndarray[Any, Any], turns: int) -> str:
    """By NumPy in float64; all numbers are exact in float32, too."""
    w, lines = start.astype(np.float64), []
    for turn in range(turns):
        w = w + w * 0.5
        lines.append(f"{turn}: {w.sum():.3f}")
    counts = [(w <= 10).sum(), (w > 10).sum()]
    return "\n".join([*lines, f"tensor([{counts[0]}, {counts[1]}], shape=[2], dtype=i32)", f"{((start + w) * start - 1).sum()}", ""])


def test_a_program_that_was_run_before_is_run_from_the_cache(runs: Any, folder: Path) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    for way in ("new", "kept", "kept"):
        found, done = runs(name)
        assert (found, done.returncode, done.stderr) == (way, 0, "")
        assert done.stdout == expected(np.arange(40.0), 3)


@pytest.mark.parametrize("count", [0, 1, 31, 1000])
def test_data_of_another_size_need_nothing_new(runs: Any, folder: Path, count: int) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    runs(name)
    start = (np.arange(count) % 16).astype(np.float32)
    np.save(folder / "start.npy", start)
    assert runs(name)[1].stdout == expected(start, 3)


def test_functions_of_several_updates_are_kept(runs: Any, folder: Path) -> None:
    text = """
def step(w: tensor[N], v: tensor[N], x: tensor[N], by: f32) {
    compute(mut v, x) { for i in 0..N: v[i] = v[i] * by + x[i] }
    compute(mut w, v) { for i in 0..N: w[i] = w[i] - v[i] }
}
let x = load("start.npy")
let w = x.clone()
let v = x.clone()
for turn in 0..40: step(w, v, x, 0.5 as f32)
println(w[3], v[3])
"""
    w = v = x = 3.0
    for _ in range(40):
        v = v * 0.5 + x
        w = w - v
    name = written(folder, "steps.zynml", text)
    for way in ("new", "kept"):
        found, done = runs(name)
        assert (found, done.stderr) == (way, "")
        np.testing.assert_allclose([*map(float, done.stdout.split())], [w, v], rtol=1e-5)


def test_data_of_another_type_are_compiled_for_once(runs: Any, folder: Path) -> None:
    name = written(folder, "total.zynml", 'let x = load("start.npy")\nprintln(compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] })\n')
    assert runs(name)[0] == "new"
    np.save(folder / "start.npy", np.arange(5, dtype=np.int64))
    for way in ("went on", "kept"):
        found, done = runs(name)
        assert (found, done.stdout) == (way, "10\n")
    np.save(folder / "start.npy", np.arange(4, dtype=np.float32))
    assert runs(name)[0] == "kept"


def test_another_text_is_another_program(runs: Any, folder: Path) -> None:
    for text in ("println(1)", "println(2)", "println(1)\n"):
        name = written(folder, "changed.zynml", text)
        assert runs(name)[1].stdout == f"{text.strip()[8]}\n"


def test_other_options_are_another_run(runs: Any, folder: Path) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    for option in ((), ("--set", "turns=2"), ("--threads", "1"), ("--floats", "strict"), ("-O", "0")):
        found, done = runs(name, *option)
        assert found == "new"
        assert done.stdout == expected(np.arange(40.0), 2 if "turns=2" in option else 3)
    assert runs(name, "--set", "turns=2")[0] == "kept"


def test_runs_that_tell_of_kernels_look_at_them(runs: Any, folder: Path) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    runs(name)
    for option in (("--explain-placement",), ("--explain-tiers",), ("--sanitize",), ("--emit-to", "stages"), ("--device", "emulator")):
        assert runs(name, *option)[0] == "new"
    assert "trained.zynml:" in runs(name, "--explain-placement")[1].stderr


def test_another_machine_makes_its_own(runs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    runs(name)
    monkeypatch.setattr(detect, "processor", lambda: "another")
    assert runs(name)[0] == "new"


def test_a_changed_import_is_seen(runs: Any, folder: Path) -> None:
    name = written(folder, "main.zynml", "import shapes\nprintln(shapes::area(3))\n")
    written(folder, "shapes.zynml", "def area(side: int): int { side * side }\n")
    assert runs(name)[1].stdout == "9\n"
    found, done = runs(name)
    assert (found, done.stdout) == ("kept", "9\n")
    written(folder, "shapes.zynml", "def area(side: int): int { side * side * side }\n")
    found, done = runs(name)
    assert (found, done.stdout) == ("new", "27\n")
    (folder / "shapes.zynml").unlink()
    found, done = runs(name)
    assert (found, done.returncode) == ("new", 2)


def test_a_module_that_stands_before_one_of_the_library_is_seen(runs: Any, folder: Path) -> None:
    name = written(folder, "main.zynml", "import io\nprintln(1)\n")
    assert (runs(name)[0], runs(name)[0]) == ("new", "kept")
    written(folder, "io.zynml", 'println("mine")\n')
    found, done = runs(name)
    assert (found, done.stdout) == ("new", "mine\n1\n")


def test_a_module_that_changes_while_a_run_needs_it_is_an_error(runs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'import shapes\nlet x = load("start.npy")\nprintln(compute(x) { for i in 0..N: out[i] = x[i] + x[i] })\n'
    name = written(folder, "main.zynml", text)
    written(folder, "shapes.zynml", "def area(side: int): int { side * side }\n")
    runs(name)
    np.save(folder / "start.npy", np.arange(4, dtype=np.int32))
    run = KeptRun.run

    def changed(kept: KeptRun) -> None:
        written(folder, "shapes.zynml", "def area(side: int): int { side }\n")
        run(kept)

    monkeypatch.setattr(KeptRun, "run", changed)
    done = runs(name)[1]
    assert done.returncode == 1
    assert done.stderr.startswith("error[ZYN0807]: `shapes.zynml` was changed while the program ran\n --> main.zynml:3:9\n")
    assert done.stderr.endswith("hint: run it again\n")


def test_warnings_are_said_each_time(runs: Any, folder: Path) -> None:
    first = runs("warns.zynml")[1]
    again = runs("warns.zynml")[1]
    assert "warning[ZYN0601]" in first.stderr
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
    assert runs("warns.zynml", "--strict")[1].returncode == 2


def test_warnings_of_a_launch_are_said_each_time(runs: Any, folder: Path) -> None:
    text = 'def f(x) { compute(x) { for i in 0..N: out[2 * i] = x[i] } }\nlet x = load("start.npy")\nprintln(f(x).shape(0))\n'
    name = written(folder, "warns.zynml", text)
    said = [runs(name)[1] for _ in range(3)]
    assert "warning[ZYN0601]" in said[0].stderr
    assert {done.stderr for done in said} == {said[0].stderr}


FAULTS = {
    "an index of a list": "mut found = [1, 2]\nfor i in 0..4: println(found[i])\n",
    "an index of a tensor": 'let x = load("start.npy")\nprintln(compute(x) { for i in 0..40: out[i] = x[x[i] as int + 1] })\n',
    "a division": "let n = 0\nfor i in 0..3: println(1 / n)\n",
    "shapes": "def f(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }\n"
    'let x = load("start.npy")\nprintln(f(x, x[0:3]))\n',
    "a file": 'println(load("nothing.npy"))\n',
    "an overflow": "mut n = 1\nfor i in 0..100: n = n * 3\nprintln(n)\n",
}


@pytest.mark.parametrize("text", FAULTS.values(), ids=FAULTS)
def test_faults_are_told_as_without_a_cache(runs: Any, folder: Path, text: str) -> None:
    """A run that fails isn't kept: one with a parameter that lets it go well is."""
    guarded = f"param fails: bool = true\nif fails {{\n{text}}}\n"
    name = written(folder, "fails.zynml", guarded)
    first = runs(name)[1]
    assert first.returncode == 1
    found, again = runs(name)
    assert (found, again.stdout, again.stderr) == ("new", first.stdout, first.stderr)


def test_a_fault_of_a_kept_run_is_told_where_it_is(runs: Any, folder: Path) -> None:
    text = 'let at = load("at.npy")\nlet names = ["a", "b"]\nfor i in 0..at.shape(0): println(names[at[i] as int])\n'
    name = written(folder, "picks.zynml", text)
    np.save(folder / "at.npy", np.array([0, 1], np.int64))
    assert runs(name)[1].stdout == "a\nb\n"
    np.save(folder / "at.npy", np.array([1, 2], np.int64))
    found, done = runs(name)
    assert (found, done.returncode, done.stdout) == ("went on", 1, "b\n")
    assert "index 2" in done.stderr and "picks.zynml:3:34" in done.stderr


def test_native_functions_and_hot_loops_are_native_in_a_kept_run(runs: Any, folder: Path) -> None:
    text = (
        "def primes(n: int): int {\n mut found = 0\n for i in 2..n {\n  mut is_prime = true\n  mut d = 2\n"
        "  while d * d <= i and is_prime { if i % d == 0 { is_prime = false }\n d += 1 }\n  if is_prime { found += 1 }\n }\n found\n}\n"
        "println(primes(1000))\nmut sum = 0\nfor i in 0..400000: sum += i % 7\nprintln(sum)\n"
    )
    name = written(folder, "primes.zynml", text)
    shown = f"168\n{sum(i % 7 for i in range(400_000))}\n"
    for way in ("new", "went on"):
        found, done = runs(name)
        assert (found, done.stdout, done.stderr) == (way, shown, "")


def test_tasks_at_once_bring_native_functions_once(runs: Any, folder: Path) -> None:
    text = (
        "def sums(n: int): int {\n mut s = 0\n for i in 0..n: s += i\n s\n}\ndef twice(n: int): int {\n mut s = 0\n for i in 0..n: s += 2 * i\n s\n}\n"
        "async def one(n: int): int { sums(n) + twice(n) }\nlet tasks = [one(10), one(100), one(1000), one(10000)]\n"
        "for task in tasks: println(await task)\n"
    )
    name = written(folder, "tasks.zynml", text)
    shown = "".join(f"{3 * n * (n - 1) // 2}\n" for n in (10, 100, 1000, 10000))
    for way in ("new", "went on"):
        found, done = runs(name)
        assert (found, done.stdout, done.stderr) == (way, shown, "")


def test_main_and_async_functions_run_from_the_cache(runs: Any, folder: Path) -> None:
    text = "async def slow(n: int): int { n * 2 }\nasync def main() { println(await slow(4)) }\nprintln(1)\n"
    name = written(folder, "main.zynml", text)
    for way in ("new", "kept"):
        found, done = runs(name)
        assert (found, done.stdout, done.stderr) == (way, "1\n8\n", "")


def test_random_numbers_and_settings_are_those_of_a_new_run(runs: Any, folder: Path) -> None:
    text = "config { seed: 5 }\nlet x = randn(3, 4)\nprintln(x)\nprintln(compute(x) { for i in 0..3, j in 0..4: out[j, i] = x[i, j] })\n"
    name = written(folder, "drawn.zynml", text)
    shown = {runs(name)[1].stdout for _ in range(3)}
    assert len(shown) == 1


OWN_TYPES = """
struct Point { x: float, y: float }
struct Pair<T> { first: T, second: T }
enum Shape { Circle(Point, float), Square { corner: Point, side: float }, Empty }
impl Add for Point { def add(self, other: Point): Point { Point { x: self.x + other.x, y: self.y + other.y } } }
impl Display for Point { def to_string(self): String { f"<{self.x}, {self.y}>" } }
impl Shape {
    def area(self): float {
        match self {
            Circle(_, r) => 3.0 * r * r
            Square { corner, side } => side * side
            Empty => 0.0
        }
    }
}
def moved(p, by) { p + by }
let sizes = load("start.npy")
let p = moved(Point { x: 1.0, y: 2.0 }, Point { x: 0.5, y: 0.25 })
println(p)
println(Pair { first: 1, second: 2 })
let named = { "wide": Pair { first: p, second: p } }
println(named["wide"].second.x)
for s in [Circle(p, 2.0), Square { corner: p, side: 3.0 }, Empty]: println(f"{s} {s.area()}")
println(compute(sizes) @kernel reduce(+) { for i in 0..N: yield sizes[i] })
println(150ms)
"""
SHOWN = """<1.5, 2.25>
Pair { first: 1, second: 2 }
1.5
Circle(<1.5, 2.25>, 2.0) 12.0
Square { corner: <1.5, 2.25>, side: 3.0 } 9.0
Empty 0.0
780.0
150ms
"""


def test_programs_with_types_and_methods_of_their_own_run_from_the_cache(runs: Any, folder: Path) -> None:
    name = written(folder, "points.zynml", OWN_TYPES)
    for way in ("new", "kept"):
        found, done = runs(name)
        assert (found, done.stdout, done.stderr) == (way, SHOWN, "")


def test_a_type_that_only_a_later_run_meets_is_compiled_for(runs: Any, folder: Path) -> None:
    text = (
        "struct Inner { value: float }\nstruct Outer { inner: Inner, count: int }\ndef made(n: int): Outer { Outer { inner: Inner { value: 1.5 }, count: n } }\n"
        'let x = load("start.npy")\nif x.shape(0) == 2 {\n    mut o: Outer = made(4)\n    o.inner.value = 2\n    println(o)\n}\nprintln(x.shape(0))\n'
    )
    name = written(folder, "later.zynml", text)
    assert runs(name)[1].stdout == "40\n"
    np.save(folder / "start.npy", np.zeros(2, np.float32))
    found, done = runs(name)
    assert found in ("kept", "went on")
    assert done.stdout == "Outer { inner: Inner { value: 2.0 }, count: 4 }\n2\n"


def test_modules_of_the_library_run_from_the_cache(runs: Any, folder: Path) -> None:
    text = (
        "import zynml.vector\nfrom zynml.vector import cosine\nlet x = tensor([[3.0, 4.0], [0.0, 2.0]])\n"
        "println(vector::normalize(x))\nprintln(cosine(x, x))\n"
    )
    name = written(folder, "rows.zynml", text)
    first = runs(name)[1]
    assert first.stdout.startswith("tensor([[0.6, 0.8], [0.0, 1.0]]")
    for _ in range(2):
        found, done = runs(name)
        assert (found, done.stdout, done.stderr) == ("kept", first.stdout, "")
    other = written(folder, "other.zynml", text.replace("3.0, 4.0", "4.0, 3.0"))
    assert [runs(other)[0] for _ in range(2)] == ["new", "kept"]
    np.save(folder / "start.npy", np.array([[3, 4]], np.int32))
    changed = written(folder, "changed.zynml", 'import zynml.vector\nlet x = load("start.npy")\nprintln(vector::normalize(x))\n')
    assert [runs(changed)[1].stdout for _ in range(2)] == ["tensor([[0.6, 0.8]], shape=[1, 2], dtype=f32)\n"] * 2
    np.save(folder / "start.npy", np.array([[3, 4]], np.float64))
    found, done = runs(changed)
    assert (found, done.returncode) == ("kept", 1)
    assert done.stderr.startswith("error[ZYN0807]: expected a tensor of f32, found one of f64\n --> changed.zynml:3:9\n")


def test_a_fault_in_a_method_is_told_where_it_is(runs: Any, folder: Path) -> None:
    text = (
        'struct Row { at: int }\nimpl Row { def name(self): String { let names = ["a", "b"]\n names[self.at] } }\n'
        'let at = load("at.npy")\nfor i in 0..at.shape(0): println(Row { at: at[i] as int }.name())\n'
    )
    name = written(folder, "rows.zynml", text)
    np.save(folder / "at.npy", np.array([0, 1], np.int64))
    assert runs(name)[1].stdout == "a\nb\n"
    np.save(folder / "at.npy", np.array([1, 2], np.int64))
    found, done = runs(name)
    assert (found, done.returncode, done.stdout) == ("went on", 1, "b\n")
    assert "index 2" in done.stderr and "rows.zynml:3:2" in done.stderr


@pytest.mark.parametrize("place", [20, 0.3, 0.6, -1])
def test_a_damaged_entry_is_made_again(runs: Any, folder: Path, cache: Path, place: float) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    runs(name)
    for entry in (cache / "code").glob("*.zyn"):
        held = bytearray(entry.read_bytes())
        held[int(place * len(held)) if 0 < place < 1 else int(place)] ^= 4
        entry.write_bytes(held)
    found, done = runs(name)
    assert (found, done.stdout) == ("new", expected(np.arange(40.0), 3))
    assert runs(name)[0] == "kept"


def test_without_a_cache_nothing_is_kept(runs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    for _ in range(2):
        assert runs(name)[0] == "new"


NOT_NEEDED = ("grammars", "llvmlite", "compiler.driver", "compiler.typed_ast.check", "compiler.lowering.compute", "compiler.hir.build", "zynml.parse")


def test_two_processes_at_once_and_one_that_needs_no_compiler(folder: Path, cache: Path) -> None:
    name = written(folder, "trained.zynml", TRAINED)
    loaded = "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); from zyntax.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ZYNTAX_TIER": "auto"}

    def start(*flags: str) -> "subprocess.Popen[str]":
        command = [sys.executable, *flags, "run", name]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for process in [start("-m", "zyntax") for _ in range(2)]:
        assert process.communicate(timeout=200) == (expected(np.arange(40.0), 3), "")
    out, modules = start("-c", loaded).communicate(timeout=200)
    assert out == expected(np.arange(40.0), 3)
    assert [module for module in modules.split() if module.startswith(NOT_NEEDED)] == []
