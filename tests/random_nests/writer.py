"""Writes a program in ZynML and in Python at once: loops, expressions, places; and keeps account of the arrays and the work that it makes."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import Factory, define, field, frozen

from tests.kernels import checks

DTYPES = ("f32", "f32", "f32", "f64", "f64", "i32", "i32", "i64", "i16", "u8", "i8", "f16", "bf16", "u32", "u64", "u16")


@frozen
class Loop:
    """A loop variable: its least and greatest value, and how many it takes at most. `last`: the words of its greatest value where
    reading backwards is simple."""

    name: str
    bottom: int
    top: int
    count: int
    last: str | None = None


def extent_of(loop: Loop) -> str:
    """The words of a plain loop's end."""
    assert loop.last is not None
    return loop.last.removesuffix(" - 1")


@frozen
class Both:
    """An expression in both languages."""

    ours: str
    python: str


@frozen(eq=False)
class RandomProgram:
    seed: int
    family: str
    dtype: str
    text: str
    python: str
    arrays: dict[str, checks.Array]
    sizes: dict[str, int]
    arguments: tuple[str, ...]
    exact: bool
    results: tuple[str, ...]
    may_refuse: bool = False
    exact_sums: bool = False
    """Whether sums of narrow ints go in a type that holds them, so that Python's own ints agree."""

    def values(self) -> list[Any]:
        return [self.arrays[name] if name in self.arrays else self.sizes[name] for name in self.arguments]

    def __str__(self) -> str:
        shapes = ", ".join(f"{n}: {a.shape} {a.dtype} strides {a.strides}" for n, a in self.arrays.items())
        return f"seed {self.seed}, {self.family}, sizes {self.sizes}\n{self.text}\n# {shapes}"


@define(eq=False)
class Writer:
    chance: random.Random
    family: str
    dtype: str = ""
    sizes: dict[str, int] = Factory(dict)
    mode: str = ""
    lines: list[str] = Factory(list)
    python: list[str] = Factory(list)
    arrays: dict[str, checks.Array] = Factory(dict)
    depth: int = 0
    count: int = 0
    around: list[int] = Factory(list)
    work: int = 0
    exact: bool = True
    header: str = ""
    results: tuple[str, ...] = ("out",)
    may_refuse: bool = False
    exact_sums: bool = False
    shared: list[str] = Factory(list)
    """Inputs whose memory later ones may view, too."""
    inexact_allowed: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dtype = self.chance.choice(DTYPES)
        self.mode = self.chance.choice(("scalar", "captured", "literal", "dims"))
        large = self.chance.choice(("N", "M", "K"))
        for name in ("N", "M", "K"):
            self.sizes[name] = self.chance.choice((7, 17, 33, 40, 70, 130, 300, 530) if name == large else (0, 1, 2, 3, 3, 4, 5, 9))
        self.inexact_allowed = self.dtype in ("f32", "f64") and self.chance.random() < 0.25

    @property
    def is_float(self) -> bool:
        return self.dtype in checks.FLOATS

    # ---- text ----

    def both(self, ours: str, python: str | None = None) -> None:
        self.lines.append("    " * self.depth + ours)
        self.python.append("    " * self.depth + (python if python is not None else ours))

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def size(self, name: str) -> str:
        return str(self.sizes[name]) if self.mode == "literal" else name

    def number(self, value: int) -> Both:
        shown = f"{value}.0" if self.is_float else str(value)
        return Both(f"({shown})" if value < 0 else shown, f"({shown})")

    def open_loop(self, style: str | None = None, within: list[Loop] | None = None, size: str | None = None) -> Loop:
        """Writes the head of a loop; what follows is its body until `close`."""
        chance = self.chance
        size = size or chance.choice(("N", "M", "K"))
        extent, words = self.sizes[size], self.size(size)
        outer = within or []
        styles = ("plain", "plain", "plain", "offset", "step", "down", "down", "constant", "inclusive", "triangle", "triangle low")
        style = style or chance.choice(styles)
        if style.startswith("triangle") and not outer:
            style = "plain"
        name = self.name("v")
        last = None
        match style:
            case "offset":
                a, b = chance.choice((1, 2)), chance.choice((0, 1, 2))
                ours, python = f"{a}..{words} + {b}", f"range({a}, {words} + {b})"
                bottom, top = a, extent + b - 1
            case "step":
                a, step = chance.choice((0, 1)), chance.choice((2, 3))
                ours, python = f"{a}..{words} step {step}", f"range({a}, {words}, {step})"
                bottom, top = a, extent - 1
            case "down":
                step = chance.choice((1, 1, 2))
                ours, python = f"{words} - 1..-1 step -{step}", f"range({words} - 1, -1, -{step})"
                bottom, top = 0, extent - 1
            case "constant":
                high = chance.choice((1, 2, 3))
                ours, python = f"0..{high}", f"range({high})"
                bottom, top = 0, high - 1
            case "inclusive":
                ours, python = f"0..={words}", f"range({words} + 1)"
                bottom, top = 0, extent
            case "triangle":
                one, extra = chance.choice(outer), chance.choice((0, 1))
                ours, python = f"0..{one.name} + {extra}" if extra else f"0..{one.name}", f"range({one.name} + {extra})"
                bottom, top = 0, one.top + extra - 1
            case "triangle low":
                one = chance.choice(outer)
                ours, python = f"{one.name}..{words}", f"range({one.name}, {words})"
                bottom, top = one.bottom, extent - 1
            case _:
                ours, python = f"0..{words}", f"range({words})"
                bottom, top = 0, extent - 1
                last = f"{words} - 1"
        self.both(f"for {name} in {ours}:", f"for {name} in {python}:")
        self.depth += 1
        loop = Loop(name, bottom, max(top, bottom), max(0, top - bottom + 1), last)
        self.around.append(loop.count)
        return loop

    def open_if(self, condition: Both) -> None:
        self.both(f"if {condition.ours}:", f"if {condition.python}:")
        self.depth += 1

    def sides(self, condition: Both, then: Callable[[], None] | None, otherwise: Callable[[], None] | None) -> None:
        """`if c { ... } else { ... }`, where either side may be empty."""
        for number, side in enumerate((then, otherwise)):
            head = f"if {condition.ours} {{" if number == 0 else "} else {"
            self.both(head, f"if {condition.python}:" if number == 0 else "else:")
            self.depth += 1
            if side is None:
                self.python.append("    " * self.depth + "pass")
            else:
                side()
            self.depth -= 1
        self.lines.append("    " * self.depth + "}")

    def close(self, number: int = 1, loops: bool = True) -> None:
        self.depth -= number
        if loops:
            del self.around[len(self.around) - number :]

    def spent(self) -> None:
        """Counts a statement that runs in every iteration around it."""
        self.work += max(1, math.prod(max(1, count) for count in self.around))

    # ---- expressions ----

    def place(self, loops: list[Loop]) -> tuple[str, int]:
        """An affine index over some loops, and the extent that it needs."""
        offset = self.chance.choice((0, 0, 0, 1))
        top, words = offset, [str(offset)] if offset else []
        for loop in loops:
            if loop.last is not None and self.chance.random() < 0.15:
                words.append(f"{loop.last} - {loop.name}")
                top += loop.top
            else:
                factor = self.chance.choice((1, 1, 1, 1, 2))
                words.append(loop.name if factor == 1 else f"{factor} * {loop.name}")
                top += factor * loop.top
        return " + ".join(words) or "0", max(0, top) + 1

    def input(self, extents: list[int], dtype: str | None = None, low: int = -2, high: int = 3) -> str:
        name = self.name("x")
        ordinary = dtype is None and (low, high) == (-2, 3)
        dtype = dtype or self.dtype
        shape = [extent + self.chance.choice((0, 0, 1)) for extent in extents]
        if ordinary:
            self.shared.append(name)
            if self.chance.random() < 0.2 and (view := self.overlapping(shape)) is not None:
                self.arrays[name] = view
                return name
        chance = np.random.default_rng(self.chance.randrange(1 << 30))
        low = max(low, 0) if dtype.startswith("u") else low
        self.arrays[name] = checks.laid_out(chance.integers(low, high, shape).astype(checks.DTYPES[dtype]), self.chance.choice(checks.LAYOUTS))
        return name

    def overlapping(self, shape: list[int]) -> checks.Array | None:
        """A view of this shape into an earlier input's memory, in some direction; None where none is large enough."""
        for array in (self.arrays[name] for name in self.shared if name in self.arrays):
            for turned in (array, array.T, array[::-1]):
                if turned.ndim == len(shape) and all(have >= want for have, want in zip(turned.shape, shape, strict=True)):
                    starts = [self.chance.randint(0, have - want) for have, want in zip(turned.shape, shape, strict=True)]
                    return turned[tuple(slice(start, start + want) for start, want in zip(starts, shape, strict=True))]
        return None

    def read(self, loops: list[Loop]) -> Both:
        places = [self.place(self.chance.sample(loops, min(len(loops), self.chance.choice((0, 1, 1, 1, 2))))) for _ in range(self.chance.choice((1, 1, 2)))]
        name = self.input([extent for _, extent in places])
        index = ", ".join(words for words, _ in places)
        return Both(f"{name}[{index}]", f"{name}[{index}].item()" if self.dtype != "bf16" else f"float({name}[{index}])")

    def gather(self, loops: list[Loop]) -> Both:
        """An element whose index is data."""
        words, extent = self.place(self.chance.sample(loops, min(1, len(loops))))
        indices = self.input([extent], self.chance.choice(("i32", "i64", "u8")), 0, 6)
        name = self.input([6])
        return Both(f"{name}[{indices}[{words}]]", f"{name}[int({indices}[{words}])].item()" if self.dtype != "bf16" else f"float({name}[int({indices}[{words}])])")

    def expression(self, loops: list[Loop], depth: int = 2) -> Both:
        kinds = ["read", "read", "number", "index", "add", "sub", "mul", "max", "min", "select", "neg", "gather", "abs"]
        if self.inexact_allowed:
            kinds += ["quotient", "root"]
        if self.dtype.startswith("u"):
            kinds = [kind for kind in kinds if kind not in ("neg", "sub", "abs")]
        match self.chance.choice(kinds) if depth else "read":
            case "read":
                return self.read(loops)
            case "gather":
                return self.gather(loops)
            case "number":
                return self.number(self.chance.choice((0, 1, 3) if self.dtype.startswith("u") else (-2, -1, 0, 1, 3)))
            case "index":
                if not loops:
                    return self.number(1)
                words, _ = self.place(self.chance.sample(loops, 1))
                return Both(f"(({words}) as {self.dtype})", f"(({words}) * {'1.0' if self.is_float else '1'})")
            case "neg":
                one = self.expression(loops, depth - 1)
                return Both(f"(-{one.ours})", f"(-{one.python})")
            case "abs":
                one = self.expression(loops, depth - 1)
                return Both(f"abs({one.ours})", f"abs({one.python})")
            case "quotient":
                self.exact = False
                a, b = self.expression(loops, depth - 1), self.expression(loops, depth - 1)
                return Both(f"({a.ours} / (1.5 + abs({b.ours})))", f"({a.python} / (1.5 + abs({b.python})))")
            case "root":
                self.exact = False
                one = self.expression(loops, depth - 1)
                return Both(f"sqrt(abs({one.ours}))", f"math.sqrt(abs({one.python}))")
            case "select":
                a, b, c = self.expression(loops, depth - 1), self.expression(loops, depth - 1), self.condition(loops)
                return Both(f"({c.ours} ? {a.ours} : {b.ours})", f"({a.python} if {c.python} else {b.python})")
            case ("max" | "min") as word:
                a, b = self.expression(loops, depth - 1), self.expression(loops, depth - 1)
                return Both(f"{word}({a.ours}, {b.ours})", f"{word}({a.python}, {b.python})")
            case word:
                sign = {"add": "+", "sub": "-", "mul": "*"}[word]
                a, b = self.expression(loops, depth - 1), self.expression(loops, depth - 1)
                return Both(f"({a.ours} {sign} {b.ours})", f"({a.python} {sign} {b.python})")

    def condition(self, loops: list[Loop]) -> Both:
        sign = self.chance.choice(("<", "<=", ">", ">=", "==", "!="))
        if loops and self.chance.random() < 0.7:
            left = " + ".join(loop.name for loop in self.chance.sample(loops, min(len(loops), self.chance.choice((1, 2)))))
            right = self.chance.choice((self.size("N"), self.size("M"), "1", "2", "4"))
            words = f"{left} {sign} {right}"
            if self.chance.random() < 0.2:
                words = f"({left}) % 2 == {self.chance.choice((0, 1))}"
            return Both(words, words)
        one = self.read(loops)
        zero = self.number(0)
        return Both(f"{one.ours} {sign} {zero.ours}", f"{one.python} {sign} {zero.python}")

    def target(self, loops: list[Loop]) -> str:
        """An index over all the loops that meets no element twice."""
        words = []
        for loop in self.chance.sample(loops, len(loops)):
            if loop.last is not None and self.chance.random() < 0.15:
                words.append(f"{loop.last} - {loop.name}")
                continue
            factor, offset = self.chance.choice((1, 1, 1, 2)), self.chance.choice((0, 0, 0, 1))
            words.append((f"{factor} * {loop.name}" if factor > 1 else loop.name) + (f" + {offset}" if offset else ""))
        return ", ".join(words)

    def store(self, index: str, value: Both, result: str = "out", combine: str = "") -> None:
        key = f"({index},)" if index else "()"
        if combine:
            self.both(f"{result}[{index}] {combine}= {value.ours}", f"{result}[{key}] = {result}.get({key}, 0) {combine} ({value.python})")
        else:
            self.both(f"{result}[{index}] = {value.ours}", f"{result}[{key}] = {value.python}")
        self.spent()

    def nest(self, number: int, within: list[Loop] | None = None, style: str | None = None) -> list[Loop]:
        loops: list[Loop] = []
        for _ in range(number):
            loops.append(self.open_loop(style, [*(within or []), *loops]))
        return loops

    def finish(self, seed: int) -> RandomProgram:
        words = {"scalar": "NMK", "captured": "NMK", "literal": "", "dims": ""}[self.mode]
        parameters, inputs = [], []
        if self.mode == "dims":
            for size in "NMK":
                self.arrays[f"s{size}"] = np.zeros(self.sizes[size], np.uint8)
        for name, array in self.arrays.items():
            dtype = next(n for n, d in checks.DTYPES.items() if d == array.dtype)
            dims = [name[1:]] if name.startswith("s") else ["?"] * array.ndim
            parameters.append(f"{name}: tensor[{', '.join(dims)}, {dtype}]")
            inputs.append(name)
        parameters += [f"{name}: int" for name in words]
        if self.mode == "scalar":
            inputs += words
        body = "\n".join("        " + line for line in self.lines)
        text = f"def f({', '.join(parameters)}) {{\n    compute({', '.join(inputs)}) {self.header} {{\n{body}\n    }}\n}}\n"
        return RandomProgram(
            seed, self.family, self.dtype, text, "\n".join(self.python), self.arrays, self.sizes, (*self.arrays, *words), self.exact, self.results, self.may_refuse, self.exact_sums
        )
