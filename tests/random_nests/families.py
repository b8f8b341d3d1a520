"""The families of random programs: a method each."""

import numpy as np

from tests.kernels import checks
from tests.random_nests.writer import Both, Loop, RandomProgram, Writer, extent_of
from tests.shrinking import Choices, RecordedRandom

LIMIT = 4_000
"""Inner steps of a program, so that Python and the interpreter stay quick."""


def random_program(seed: int, family: str | None = None, choices: Choices | None = None) -> RandomProgram:
    """The program of a seed, or the one that these choices make of it."""
    chance = RecordedRandom(seed, Choices() if choices is None else choices)
    family = family or chance.choice(FAMILIES)
    for _ in range(200):
        maker = Families(chance, family)
        getattr(maker, f"make_{family}")()
        if maker.work <= LIMIT:
            return maker.finish(seed)
    raise AssertionError(f"no small program of family {family} for seed {seed}")


class Families(Writer):
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

    def make_sides(self) -> None:
        """A variable, or an element, that gathers on either side of a branch or on both."""
        if self.dtype in ("f16", "bf16"):
            self.dtype = "f32"
        in_memory = self.chance.random() < 0.4
        if in_memory:
            loops = self.nest(self.chance.choice((2, 3)))
            target = self.target(self.chance.sample(loops, self.chance.choice((1, len(loops) - 1))))
            outer, inner = loops, loops[:0]
        else:
            outer = self.nest(self.chance.choice((1, 1, 2)))
            start = self.number(self.chance.choice((0, 0, 2)))
            self.both(f"var s = {start.ours}", f"s = {start.python}")
            inner = self.nest(self.chance.choice((1, 1, 2)), outer)
            loops = [*outer, *inner]
        word = self.chance.choice(("+", "+", "max", "min"))

        def gather() -> None:
            value = self.expression(loops, 1)
            if in_memory:
                self.store(target, value, combine="+")
            elif word == "+":
                self.both(f"s += {value.ours}", f"s += {value.python}")
                self.spent()
            else:
                self.both(f"s = {word}(s, {value.ours})", f"s = {word}(s, {value.python})")
                self.spent()

        self.sides(self.condition(loops), *self.chance.choice(((None, gather), (None, gather), (gather, None), (gather, gather))))
        if in_memory:
            return
        self.close(len(inner), loops=False)
        del self.around[len(self.around) - len(inner) :]
        self.store(self.target(outer), Both("s", "s"))

    def make_best(self) -> None:
        """The extreme of a row by comparison, and perhaps where it is: the first of equals, or the last. Comparisons with NaN don't hold."""
        if self.dtype in ("f16", "bf16"):
            self.dtype = "f32"
        outer, located = self.nest(1, style="plain"), self.chance.random() < 0.6
        least = self.chance.random() < 0.5
        start = self.number(self.chance.choice((60, 60, 2)) if least else 0 if self.dtype.startswith("u") else self.chance.choice((-60, -60, 1)))
        self.both(f"var best = {start.ours} as {self.dtype}", f"best = {start.python}")
        if located:
            self.both("var at = 7", "at = 7")
        inner = self.open_loop(self.chance.choice(("plain", "plain", "plain", "down", "step")), outer)
        element = self.read([*outer, inner])
        if self.is_float and self.chance.random() < 0.5:
            array = self.arrays[element.ours.partition("[")[0]]
            array[np.random.default_rng(self.chance.randrange(1 << 30)).random(array.shape) < 0.2] = np.nan
        self.both(f"let e = {element.ours}", f"e = {element.python}")
        sign, turned = self.chance.choice(("<", "<=") if least else (">", ">=")), {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        test = f"e {sign} best" if self.chance.random() < 0.5 else f"best {turned[sign]} e"

        def take() -> None:
            self.both("best = e")
            if located:
                self.both(f"at = {inner.name}")

        if self.chance.random() < 0.7:
            self.sides(Both(test, test), take, None)
        else:
            self.sides(Both(f"not ({test})", f"not ({test})"), None, take)
        self.spent()
        self.close()
        row, extent = outer[0].name, extent_of(outer[0])
        self.header = f"@kernel(fused) -> (y: tensor[{extent}, {self.dtype}], z: tensor[{extent}, i64])" if located else ""
        self.results = ("y", "z") if located else ("out",)
        self.store(row, Both("best", "best"), "y" if located else "out")
        if located:
            self.store(row, Both("at", "at"), "z")

    def make_narrow(self) -> None:
        """Sums of narrow ints whose products their own type doesn't hold: a variable of theirs is an i32."""
        self.dtype = self.chance.choice(("i8", "i16"))
        self.exact_sums = True
        low, high = {"i8": (-128, 128), "i16": (-200, 201)}[self.dtype]
        outer = self.nest(self.chance.choice((1, 1, 2)), style="plain")
        self.both("var s = 0", "s = 0")
        inner = self.nest(self.chance.choice((1, 2)), outer, style="plain")
        value = self.product([*outer, *inner], low, high)
        sign = self.chance.choice("++-")
        self.both(f"s {sign}= {value.ours}", f"s {sign}= {value.python}")
        self.spent()
        self.close(len(inner), loops=False)
        del self.around[len(self.around) - len(inner) :]
        self.store(self.target(outer), Both("s", "s"))

    def make_wide(self) -> None:
        """`out[...] += a * b` into elements that are wider than both: multiplied as wide as they are."""
        self.dtype = self.chance.choice(("i8", "i16"))
        self.exact_sums = True
        low, high = {"i8": (-128, 128), "i16": (-200, 201)}[self.dtype]
        loops = self.nest(self.chance.choice((2, 3)), style="plain")
        kept = self.chance.sample(loops, self.chance.choice((1, len(loops) - 1)))
        self.header = f"-> tensor[{', '.join(extent_of(loop) for loop in kept)}, {self.chance.choice(('i32', 'i64'))}]"
        self.store(", ".join(loop.name for loop in kept), self.product(loops, low, high), combine="+")

    def product(self, loops: list[Loop], low: int, high: int) -> Both:
        """An element of narrow ints, or a product of two."""
        factors = []
        for _ in range(self.chance.choice((1, 2, 2))):
            places = [self.place(self.chance.sample(loops, min(len(loops), self.chance.choice((1, 1, 2)))))]
            name = self.input([extent for _, extent in places], low=low, high=high)
            index = ", ".join(words for words, _ in places)
            factors.append(Both(f"{name}[{index}]", f"{name}[{index}].item()"))
        return Both(" * ".join(one.ours for one in factors), " * ".join(one.python for one in factors))

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


FAMILIES = tuple(name.removeprefix("make_") for name in vars(Families) if name.startswith("make_"))
