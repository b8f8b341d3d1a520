"""Random programs, the whole way: loop nests as a textbook might write them (maps, reductions, contractions, windows, chains, scans,
searches, recurrences; random order of loops, bounds, steps, offsets, guards, dtypes, layouts), each written in ZynML and in plain Python
at once. Python, the interpreter, native code at O0, and at O3 on one, two and three threads must agree: to the bit, since all numbers are
small integers, except where a program divides or takes roots.

    python -m tests.random_nests 2000 [first seed]     prints what differs, with the program; exit code 1 if anything does"""

import math
import random
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from attrs import Factory, define, field, frozen

import zynml
from tests.kernels import checks
from zynml import ZynMLError

LIMIT = 4_000
"""Inner steps of a program, so that Python and the interpreter stay quick."""

DTYPES = ("f32", "f32", "f32", "f64", "f64", "i32", "i32", "i64", "i16", "u8", "i8", "f16", "bf16", "u32", "u64", "u16")
REFUSALS = {"ZYN0403", "ZYN0404", "ZYN0405", "ZYN0406"}
"""What may be said of nests whose iterations meet."""

PLAIN_PYTHON = ("f32", "f64", "i32", "i64")
"""Types whose numbers stay so small here that Python's own agree."""


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

    def values(self) -> list[Any]:
        return [self.arrays[name] if name in self.arrays else self.sizes[name] for name in self.arguments]

    def __str__(self) -> str:
        shapes = ", ".join(f"{n}: {a.shape} {a.dtype} strides {a.strides}" for n, a in self.arrays.items())
        return f"seed {self.seed}, {self.family}, sizes {self.sizes}\n{self.text}\n# {shapes}"


def random_program(seed: int, family: str | None = None) -> RandomProgram:
    chance = random.Random(seed)
    family = family or chance.choice(FAMILIES)
    for _ in range(200):
        maker = _Maker(chance, family)
        getattr(maker, f"make_{family}")()
        if maker.work <= LIMIT:
            return maker.finish(seed)
    raise AssertionError(f"no small program of family {family} for seed {seed}")


@define(eq=False)
class _Maker:
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
        dtype = dtype or self.dtype
        shape = [extent + self.chance.choice((0, 0, 1)) for extent in extents]
        chance = np.random.default_rng(self.chance.randrange(1 << 30))
        low = max(low, 0) if dtype.startswith("u") else low
        self.arrays[name] = checks.laid_out(chance.integers(low, high, shape).astype(checks.DTYPES[dtype]), self.chance.choice(checks.LAYOUTS))
        return name

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

    # ---- families ----

    def make_map(self) -> None:
        loops = self.nest(self.chance.choice((1, 2, 2, 3)))
        index = self.target(loops)
        guarded = self.chance.random() < 0.3
        if guarded:
            self.open_if(self.condition(loops))
        self.store(index, self.expression(loops, 3))

    def make_reduction(self) -> None:
        """A variable that gathers, over one or more loops, inside the loops that the result keeps."""
        outer = self.nest(self.chance.choice((1, 1, 2)))
        operator = self.chance.choice(("+", "+", "+", "-", "max", "min"))
        if self.dtype.startswith("u") and operator == "-":
            operator = "+"
        start = self.number({"max": -50, "min": 50}.get(operator, self.chance.choice((0, 0, 2)))) if not self.dtype.startswith("u") else self.number(0)
        self.both(f"var s = {start.ours}", f"s = {start.python}")
        inner = self.nest(self.chance.choice((1, 1, 2)), outer)
        loops = [*outer, *inner]
        guarded = self.chance.random() < 0.3
        if guarded:
            self.open_if(self.condition(loops))
        value = self.expression(loops)
        if operator in "+-":
            self.both(f"s {operator}= {value.ours}", f"s {operator}= {value.python}")
        else:
            self.both(f"s = {operator}(s, {value.ours})", f"s = {operator}(s, {value.python})")
        self.spent()
        self.close(len(inner) + guarded, loops=False)
        del self.around[len(self.around) - len(inner) :]
        result = Both("s", "s")
        if self.chance.random() < 0.3:
            other = self.expression(outer)
            result = Both(f"s + {other.ours}", f"s + {other.python}")
        self.store(self.target(outer), result)

    def make_memory(self) -> None:
        """`out[...] += e` in a nest of any order."""
        if self.dtype in ("f16", "bf16"):
            self.dtype = "f32"
        loops = self.nest(self.chance.choice((2, 3)))
        kept = self.chance.sample(loops, self.chance.choice((1, len(loops) - 1)))
        index = self.target(kept)
        if self.chance.random() < 0.3:
            self.open_if(self.condition(loops))
        self.store(index, self.expression(loops), combine="+")

    def make_contraction(self) -> None:
        extents = {"i": "N", "j": "M", "k": "K"}
        batch = self.chance.random() < 0.25
        if batch:
            extents["b"] = self.chance.choice(("N", "M", "K"))
        through_memory = self.chance.random() < 0.5 and self.dtype not in ("f16", "bf16")
        order = self.chance.sample(list(extents), len(extents)) if through_memory else [*(["b"] if batch else []), "i", "j", "k"]
        made: dict[str, Loop] = {}
        kept = ["b", "i", "j"] if batch else ["i", "j"]
        keep = self.chance.sample(kept, len(kept))
        for name in order:
            if name == "k" and not through_memory:
                self.both("var s = 0.0" if self.is_float else "var s = 0", "s = 0")
            style = self.chance.choice(("plain", "plain", "plain", "plain", "offset", "step", "down"))
            made[name] = self.open_loop(style, size=extents[name])
        a_axes = self.chance.sample([*(["b"] if batch else []), "i", "k"], 2 + batch)
        b_axes = self.chance.sample([*(["b"] if batch else []), "k", "j"], 2 + batch)
        factors = []
        for axes in (a_axes, b_axes):
            name = self.input([made[axis].top + 1 for axis in axes])
            index = ", ".join(made[axis].name for axis in axes)
            item = f"{name}[{index}].item()" if self.dtype != "bf16" else f"float({name}[{index}])"
            factors.append(Both(f"{name}[{index}]", item))
        product = Both(f"{factors[0].ours} * {factors[1].ours}", f"{factors[0].python} * {factors[1].python}")
        target = ", ".join(made[name].name for name in keep)
        if through_memory:
            self.store(target, product, combine="+")
            return
        self.both(f"s += {product.ours}", f"s += {product.python}")
        self.spent()
        self.close()
        self.store(target, Both("s", "s"))

    def make_window(self) -> None:
        """A sum over a window that may hang over the border."""
        two = self.chance.random() < 0.5
        outer = self.nest(2 if two else 1, style="plain")
        stride, dilation, padding = self.chance.choice((1, 1, 2)), self.chance.choice((1, 1, 2)), self.chance.choice((0, 1, 2))
        guarded = padding > 0 or self.chance.random() < 0.3
        self.both("var s = 0.0" if self.is_float else "var s = 0", "s = 0")
        inner = [self.open_loop("constant") for _ in outer]
        reach = [stride * o.top + dilation * i.top for o, i in zip(outer, inner, strict=True)]
        extents = [max(1, self.chance.choice((r + 1 - 2 * padding, r - padding))) if guarded else r + 1 for r in reach]
        name = self.input(extents)
        shape = self.arrays[name].shape
        weights = self.input([i.top + 1 for i in inner])
        places = []
        for o, i in zip(outer, inner, strict=True):
            place = self.name("p")
            form = f"{stride} * {o.name} + {dilation} * {i.name} - {padding}"
            self.both(f"let {place} = {form}", f"{place} = {form}")
            places.append(place)
        if guarded:
            tests = " and ".join(f"{place} >= 0 and {place} < {extent}" for place, extent in zip(places, shape, strict=True))
            self.open_if(Both(tests, tests))
        index, w = ", ".join(places), ", ".join(i.name for i in inner)
        item = (lambda text: f"{text}.item()") if self.dtype != "bf16" else (lambda text: f"float({text})")
        self.both(f"s += {name}[{index}] * {weights}[{w}]", f"s += {item(f'{name}[{index}]')} * {item(f'{weights}[{w}]')}")
        self.spent()
        self.close(len(inner) + guarded, loops=False)
        del self.around[len(self.around) - len(inner) :]
        self.store(", ".join(o.name for o in outer), Both("s", "s"))

    def make_chain(self) -> None:
        """Rows (or columns) that are reduced, and then met again by what came of it."""
        self.header = "@kernel(fused)"
        outer = self.nest(1, style="plain")
        size = self.chance.choice(("N", "M", "K"))
        name = ""

        def element(loop: Loop) -> Both:
            index = f"{outer[0].name}, {loop.name}" if rows else f"{loop.name}, {outer[0].name}"
            return Both(f"{name}[{index}]", f"{name}[{index}].item()" if self.dtype != "bf16" else f"float({name}[{index}])")

        rows = self.chance.random() < 0.5
        extents = [outer[0].top + 1, self.sizes[size]]
        name = self.input(extents if rows else extents[::-1])
        low = self.number(-50) if not self.dtype.startswith("u") else self.number(0)
        self.both(f"var m = {low.ours}", f"m = {low.python}")
        one = self.open_loop("plain", size=size)
        self.both(f"m = max(m, {element(one).ours})", f"m = max(m, {element(one).python})")
        self.spent()
        self.close()
        self.both("var s = 0.0" if self.is_float else "var s = 0", "s = 0")
        one = self.open_loop("plain", size=size)
        if self.chance.random() < 0.3:
            self.open_if(self.condition([*outer, one]))
            self.both(f"s += m - {element(one).ours}", f"s += m - {element(one).python}")
            self.close(1, loops=False)
        else:
            self.both(f"s += m - {element(one).ours}", f"s += m - {element(one).python}")
        self.spent()
        self.close()
        one = self.open_loop("plain", size=size)
        turn = [outer[0].name, one.name] if rows == (self.chance.random() < 0.8) else [one.name, outer[0].name]
        self.store(", ".join(turn), Both(f"({element(one).ours} - m) + s", f"({element(one).python} - m) + s"))

    def make_recurrence(self) -> None:
        outer = self.nest(1, style="plain")
        self.both("var h = 0.0" if self.is_float else "var h = 0", "h = 0")
        one = self.open_loop(self.chance.choice(("plain", "offset", "step")), outer)
        value = self.expression([*outer, one], 1)
        self.both(f"h = max(h, {self.number(0).ours}) + {value.ours}", f"h = max(h, 0) + {value.python}")
        if self.chance.random() < 0.3:
            bound = self.number(20)
            self.both(f"if h > {bound.ours}: break", f"if h > {bound.python}: break")
        self.store(f"{outer[0].name}, {one.name}", Both("h", "h"))

    def make_search(self) -> None:
        """A loop that ends when it has found something."""
        outer = self.nest(self.chance.choice((1, 2)), style="plain")
        self.both("var n = 0", "n = 0")
        one = self.open_loop("plain", outer)
        skip, stop = self.condition([*outer, one]), self.condition([*outer, one])
        self.both(f"if {skip.ours}: continue", f"if {skip.python}: continue")
        self.both(f"if {stop.ours}: break", f"if {stop.python}: break")
        self.both("n += 1")
        self.spent()
        self.close()
        self.store(", ".join(o.name for o in outer), Both(f"n as {self.dtype}", "n"))

    def make_halves(self) -> None:
        """Two results, or two writes that share a result."""
        loops = self.nest(self.chance.choice((1, 2)), style="plain")
        names = [loop.name for loop in loops]
        if self.chance.random() < 0.5:
            rest = "".join(f", {name}" for name in names[1:])
            self.store(f"2 * {names[0]}{rest}", self.expression(loops))
            self.store(f"2 * {names[0]} + 1{rest}", self.expression(loops))
            return
        dims = ", ".join(extent_of(loop) for loop in loops)
        self.header = f"-> (y: tensor[{dims}, {self.dtype}], z: tensor[{dims}, {self.dtype}])"
        self.results = ("y", "z")
        self.store(", ".join(names), self.expression(loops), "y")
        self.store(", ".join(names), self.expression(loops), "z")

    def make_copy(self) -> None:
        """`d[i] = ...`: a copy of an input, changed."""
        loops = self.nest(self.chance.choice((1, 2)), style=self.chance.choice(("plain", "offset", "step")))
        name = self.input([loop.top + 1 for loop in loops])
        index = ", ".join(loop.name for loop in loops)
        value = self.expression(loops)
        item = f"{name}[{index}].item()" if self.dtype != "bf16" else f"float({name}[{index}])"
        self.both(f"{name}[{index}] = {name}[{index}] + {value.ours}", f"out[({index},)] = {item} + {value.python}")
        self.spent()
        self.results = (f"copy of {name}",)

    def make_yield(self) -> None:
        """`@kernel(reduce)` over all loops or some."""
        operator = self.chance.choice(("+", "+", "max", "min"))
        number = self.chance.choice((1, 2, 2, 3))
        axes = None if self.chance.random() < 0.4 else tuple(sorted(self.chance.sample(range(number), self.chance.randint(1, number))))
        shown = "" if axes is None else f", axis={axes[0] if len(axes) == 1 else axes}"
        self.header = f"@kernel(reduce, {operator}{shown})"
        style = "plain" if axes is not None or operator != "+" else None
        loops = self.nest(number, style=style)
        value = self.expression(loops)
        kept = [loop.name for axis, loop in enumerate(loops) if axes is not None and axis not in axes]
        key = f"({''.join(f'{name}, ' for name in kept)})"
        joined = f"out[{key}] + ({value.python})" if operator == "+" else f"{operator}(out[{key}], {value.python})"
        self.both(f"yield {value.ours}", f"out[{key}] = {joined} if {key} in out else {value.python}")
        self.spent()
        if operator != "+" and any(loop.count == 0 for loop in loops):
            self.work = LIMIT + 1  # an empty extreme is an error: another program

    def make_scan(self) -> None:
        number = self.chance.choice((1, 2))
        axis = self.chance.randrange(number)
        reverse = self.chance.random() < 0.3
        self.header = f"@kernel(scan, {self.chance.choice(('+', 'max'))}, axis={axis}{', reverse=true' if reverse else ''})"
        loops = self.nest(number, style="plain")
        if reverse:
            # Python walks every loop backwards: only the scanned one matters.
            self.python = [line.replace(" in range(", " in reversed(range(").replace("):", ")):") for line in self.python]
        value = self.expression(loops)
        names = [loop.name for loop in loops]
        before = ", ".join(f"{name} {'+' if reverse else '-'} 1" if place == axis else name for place, name in enumerate(names))
        key, last = f"({', '.join(names)},)", f"({before},)"
        joined = f"out[{last}] + {value.python}" if "+" in self.header else f"max(out[{last}], {value.python})"
        self.both(f"yield {value.ours}", f"out[{key}] = {joined} if {last} in out else {value.python}")
        self.spent()

    def make_argument(self) -> None:
        """Where the extreme is, and what it is."""
        word = self.chance.choice(("argmin", "argmax"))
        loops = self.nest(self.chance.choice((1, 2)), style="plain")
        by_rows = len(loops) == 2 and self.chance.random() < 0.5
        self.header = f"@kernel(reduce, {word}{', axis=1' if by_rows else ''})"
        value = self.expression(loops)
        names = [loop.name for loop in loops]
        index = names[-1] if by_rows or len(names) == 1 else f"({', '.join(names)})"
        self.both(f"yield ({value.ours}, {index})", f"value = {value.python}")
        key = f"({names[0]},)" if by_rows else "()"
        better = f"value {'<' if word == 'argmin' else '>'} y[{key}]"
        if by_rows or len(names) == 1:
            self.python.append("    " * self.depth + f"if {key} not in y or {better}: y[{key}], z[{key}] = value, {names[-1]}")
        else:
            self.python.append("    " * self.depth + f"if {key} not in y or {better}: y[{key}], z[{key}], w[{key}] = value, {names[0]}, {names[1]}")
        self.spent()
        self.results = ("y", "z") if by_rows or len(names) == 1 else ("y", "(z, w)")
        if any(loop.count == 0 for loop in loops):
            self.work = LIMIT + 1  # nothing to find is an error: another program

    def make_sorted(self) -> None:
        """Keys in order, and where they came from."""
        loops = self.nest(self.chance.choice((1, 2)), style="plain")
        axis = self.chance.randrange(len(loops))
        down = self.chance.random() < 0.5
        self.header = f"@kernel(sort, axis={axis}{', descending=true' if down else ''})"
        value = self.expression(loops)
        names = [loop.name for loop in loops]
        rest = "".join(f"{name}, " for place, name in enumerate(names) if place != axis)
        self.both(f"yield ({value.ours}, {names[axis]})", f"rows.setdefault(({rest}), []).append(({value.python}, {names[axis]}))")
        self.python += [
            "for rest, row in rows.items():",
            f"    for place, (key, source) in enumerate(sorted(row, key=lambda pair: pair[0], reverse={down})):",
            f"        at = (*rest[:{axis}], place, *rest[{axis}:])",
            "        y[at], z[at] = key, source",
        ]
        self.spent()
        self.results = ("y", "z")

    def make_steps(self) -> None:
        """A nest that fills a result, and a second one that reads it, elsewhere than it was written."""
        first = self.nest(2, style="plain")
        dims = ", ".join(extent_of(loop) for loop in first)
        turned = self.chance.random() < 0.5
        shape = ", ".join(reversed(dims.split(", "))) if turned else dims
        self.header = f"@kernel(fused) -> (y: tensor[{dims}, {self.dtype}], z: tensor[{shape}, {self.dtype}])"
        self.results = ("y", "z")
        names = ", ".join(loop.name for loop in first)
        self.store(names, self.expression(first), "y")
        self.close(2)
        sizes = [next(size for size in "NMK" if self.sizes[size] == loop.count) for loop in first]
        second = [self.open_loop("plain", size=size) for size in sizes]
        names = ", ".join(loop.name for loop in second)
        other = self.expression(second)
        target = ", ".join(loop.name for loop in (second[::-1] if turned else second))
        self.store(target, Both(f"y[{names}] * {self.number(2).ours} + {other.ours}", f"y[({names},)] * 2 + {other.python}"), "z")

    def make_branches(self) -> None:
        """`if`, `elif`, `else` with names and writes of their own."""
        loops = self.nest(self.chance.choice((1, 2)))
        index = self.target(loops)
        first, second = self.condition(loops), self.condition(loops)
        value = self.expression(loops)
        self.both(f"let t = {value.ours}", f"t = {value.python}")
        self.both("var u = t", "u = t")
        self.open_if(first)
        other = self.expression(loops)
        self.both(f"u = u + {other.ours}", f"u = u + {other.python}")
        self.close(1, loops=False)
        self.both(f"elif {second.ours}:", f"elif {second.python}:")
        self.depth += 1
        third = self.expression(loops)
        self.both(f"let t = {third.ours}", f"t2 = {third.python}")
        self.both(f"u = t * {self.number(2).ours}", "u = t2 * 2")
        self.close(1, loops=False)
        if self.chance.random() < 0.5:
            self.both("else:")
            self.depth += 1
            self.both(f"u = u - {self.number(1).ours}" if not self.dtype.startswith("u") else "u = u + 1", f"u = u - {self.number(1).python}" if not self.dtype.startswith("u") else "u = u + 1")
            self.close(1, loops=False)
        self.store(index, Both("u", "u"))

    def make_wild(self) -> None:
        """An input written and read at any elements, so that iterations meet: in order, or refused."""
        if self.dtype in ("f16", "bf16"):
            self.dtype = "f32"
        self.may_refuse = True
        loops = self.nest(self.chance.choice((1, 2, 2, 3)))
        rank = self.chance.choice((1, 1, 2))
        name = self.name("d")
        extents = [1] * rank

        def element() -> str:
            words = []
            for axis in range(rank):
                place, extent = self.place(self.chance.sample(loops, min(len(loops), self.chance.choice((0, 1, 1, 1, 2)))))
                if self.chance.random() < 0.15:
                    place, extent = f"({place}) % 3", 3
                extents[axis] = max(extents[axis], extent)
                words.append(place)
            return ", ".join(words)

        for _ in range(self.chance.choice((1, 1, 2))):
            guarded = self.chance.random() < 0.25
            if guarded:
                self.open_if(self.condition(loops))
            target, value = element(), self.expression(loops, 1)
            source = target if self.chance.random() < 0.4 else element()
            sign = "+" if self.dtype.startswith("u") else self.chance.choice("++-")
            self.both(
                f"{name}[{target}] = {name}[{source}] {sign} {value.ours}",
                f"out[({target},)] = out.get(({source},), {name}[{source}].item()) {sign} {value.python}",
            )
            self.spent()
            if guarded:
                self.close(1, loops=False)
        chance = np.random.default_rng(self.chance.randrange(1 << 30))
        self.arrays[name] = checks.laid_out(chance.integers(0, 3, extents).astype(checks.DTYPES[self.dtype]), self.chance.choice(checks.LAYOUTS))
        self.results = (f"copy of {name}",)

    def make_carried(self) -> None:
        """A variable that lives on from iteration to iteration, read in between or at the end."""
        self.may_refuse = True
        if self.dtype in ("f16", "bf16"):
            self.dtype = "f32"
        outer = self.nest(self.chance.choice((0, 0, 1)), style="plain")
        start = self.number(0)
        self.both(f"var h = {start.ours} as {self.dtype}", f"h = {start.python}")
        loops = [*outer, *self.nest(self.chance.choice((1, 1, 2)), outer)]
        for _ in range(self.chance.choice((1, 2))):
            guarded = self.chance.random() < 0.4
            if guarded:
                self.open_if(self.condition(loops))
            value = self.expression(loops, 1)
            two = self.number(2).ours
            step = self.chance.choice(("h + {}", "max(h, {})", "{}", f"min(h, {two}) + {{}}", f"h * {two} - h + {{}}"))
            self.both("h = " + step.format(value.ours), "h = " + step.format(value.python))
            if guarded:
                self.close(1, loops=False)
            if self.chance.random() < 0.3:
                bound = self.number(60)
                self.both(f"if h > {bound.ours}: h = {self.number(1).ours}", f"if h > {bound.python}: h = 1")
        self.store(self.target(loops), Both("h", "h"))

    # ---- the end ----

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
            seed, self.family, self.dtype, text, "\n".join(self.python), self.arrays, self.sizes, (*self.arrays, *words), self.exact, self.results, self.may_refuse
        )


FAMILIES = tuple(name.removeprefix("make_") for name in vars(_Maker) if name.startswith("make_"))


# ---- running ---------------------------------------------------------------------------------------------------------


def expected(program: RandomProgram) -> list[dict[tuple[int, ...], float]]:
    """What Python computes: the elements that are written, for each result."""
    names: dict[str, Any] = {**program.sizes, **program.arrays, "math": math, **{name: {} for name in ("out", "y", "z", "w", "rows")}}
    exec(compile(program.python, "<random program>", "exec"), names)
    if program.results == ("y", "(z, w)"):
        return [names["y"], names["z"], names["w"]]
    return [names["y"], names["z"]] if program.results == ("y", "z") else [names["out"]]


def run(program: RandomProgram) -> None:
    """Runs the program every way there is. Raises AssertionError where two disagree, ZynMLError where it isn't accepted."""
    try:
        fast = checks.launched_with(zynml.compile(program.text), *program.values())
    except ZynMLError as error:
        if program.may_refuse and set(error.codes) <= REFUSALS:
            return
        raise
    plain = zynml.compile(program.text, opt="0", threads=1).f(*program.values())
    _same(program, fast, plain, "O3 and O0")
    if program.dtype in PLAIN_PYTHON:
        values = _flat(fast)
        for got, want in zip(values, expected(program), strict=True):
            _equal(program, got, want)


def _flat(value: Any) -> list[Any]:
    return [part for one in value for part in _flat(one)] if isinstance(value, tuple) else [value]


def _same(program: RandomProgram, one: Any, other: Any, what: str) -> None:
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            _same(program, a, b, what)
        return
    a, b = np.asarray(one).astype(np.float64), np.asarray(other).astype(np.float64)
    assert a.shape == b.shape, what
    if program.exact:
        np.testing.assert_array_equal(a, b, what)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max(initial=1), err_msg=what)


def _equal(program: RandomProgram, got: Any, want: dict[tuple[int, ...], float]) -> None:
    array = np.asarray(got).astype(np.float64)
    full = np.zeros(array.shape)
    if program.results[0].startswith("copy of"):
        full[...] = program.arrays[program.results[0].removeprefix("copy of ")]
    for index, value in want.items():
        full[index] = value
    if program.exact:
        np.testing.assert_array_equal(array, full, "native code and Python")
    else:
        np.testing.assert_allclose(array, full, rtol=1e-5, atol=1e-5 * np.abs(full).max(initial=1), err_msg="native code and Python")


def main(count: int, first: int = 0, say: Callable[[str], None] = print) -> int:
    """Runs `count` programs; the number of them that went wrong."""
    started, wrong, steps = perf_counter(), 0, 0
    families: dict[str, int] = {}
    for seed in range(first, first + count):
        program = random_program(seed)
        families[program.family] = families.get(program.family, 0) + 1
        try:
            run(program)
            steps += 1
        except (AssertionError, ZynMLError, ValueError, IndexError, KeyError, TypeError) as error:
            wrong += 1
            say(f"---- {program}\n{type(error).__name__}: {error}\n")
    say(f"{count} programs, {wrong} wrong, {perf_counter() - started:.0f} s; " + ", ".join(f"{name} {n}" for name, n in sorted(families.items())))
    return wrong


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if main(*(numbers or [2000])) else 0)
