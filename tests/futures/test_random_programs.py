"""Random programs of blocks, views and writes, whose blocks are slow enough to be under way meanwhile: each prints what a model in NumPy
says, where every block runs at once."""

import random
from typing import Any

import numpy as np
import pytest

import zynml

HEAD = """
def add(x: tensor, n: i64): Future<tensor> {
    compute(x, n) @async {
        for i in 0..N:
            var s = x[i]
            for k in 0..n: s = s + 1.0
            out[i] = s
    }
}
def bump(x: tensor) {
    mut y = x
    compute(mut y) { for i in 0..N: y[i] = y[i] + 3.0 }
}
def bump_later(x: tensor): Future<tensor> {
    mut y = x
    compute(mut y) @async { for i in 0..N: y[i] = y[i] * 2.0 }
}
"""
SIZE, SLOW, CASES, STEPS = 600, 20_000, 40, 14


class Case:
    """One function under way: its text, and the values that its names have when all is done in order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.printed: list[float] = []
        self.tensors: dict[str, Any] = {}
        self.futures: dict[str, Any] = {}
        self.new("ones", f"ones({SIZE})", np.ones(SIZE))
        for _ in range(STEPS):
            self.chance.choice([self.start, self.start, self.write, self.fill, self.update, self.later, self.view, self.take, self.show])()
        for name in self.futures:
            self.print(f"(await {name})", self.futures[name])
        for name in self.tensors:
            self.print(name, self.tensors[name])

    def new(self, kind: str, text: str, value: Any) -> None:
        name = f"t{len(self.tensors)}"
        self.lines.append(f"mut {name} = {text}")
        self.tensors[name] = value

    def promise(self, text: str, value: Any) -> None:
        name = f"f{len(self.futures)}"
        self.lines.append(f"let {name} = {text}")
        self.futures[name] = value

    def pick(self) -> tuple[str, Any]:
        return self.chance.choice(list(self.tensors.items()))

    def start(self) -> None:
        name, value = self.pick()
        count = self.chance.choice([1, SLOW])
        self.promise(f"add({name}, {count})", value + count)

    def write(self) -> None:
        name, value = self.pick()
        place = self.chance.choice([0, -1, len(value) // 2])
        self.lines.append(f"{name}[{place}] = 7.0")
        value[place] = 7

    def fill(self) -> None:
        name, value = self.pick()
        self.lines.append(f"{name}.fill(5.0)")
        value[:] = 5

    def update(self) -> None:
        name, value = self.pick()
        self.lines.append(f"bump({name})")
        value += 3

    def later(self) -> None:
        name, value = self.pick()
        self.promise(f"bump_later({name})", value)
        value *= 2

    def view(self) -> None:
        name, value = self.pick()
        if len(value) > 4:
            low, step = self.chance.randrange(3), self.chance.choice([1, 2])
            self.new("view", f"{name}[{low}:{len(value) - 1}:{step}]", value[low : len(value) - 1 : step])

    def take(self) -> None:
        if self.futures:
            name, value = self.chance.choice(list(self.futures.items()))
            self.new("awaited", f"await {name}", value)

    def show(self) -> None:
        if self.futures:
            name, value = self.chance.choice(list(self.futures.items()))
            self.print(f"(await {name})", value)

    def print(self, text: str, value: Any) -> None:
        self.lines.append(f"println({text}.sum() as f64)")
        self.printed.append(float(value.sum()))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case(seed) for seed in range(CASES)]


@pytest.fixture(scope="module")
def program(cases: list[Case]) -> Any:
    functions = (f"def case{n}() {{\n    " + "\n    ".join(case.lines) + "\n}\n" for n, case in enumerate(cases))
    return zynml.compile(HEAD + "".join(functions))


@pytest.mark.parametrize("number", range(CASES))
def test_a_random_program_prints_what_numpy_says(number: int, cases: list[Case], program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    getattr(program, f"case{number}")()
    found = [float(line) for line in capsys.readouterr().out.split()]
    assert found == pytest.approx(cases[number].printed, rel=1e-6)
