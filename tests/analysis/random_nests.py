"""Seeded random nests in form A: maps, reductions, contractions, windows, scans, chains through scratch memory; any loop order,
steps, offsets, guards, triangular bounds. All numbers are small integers, so that any order of summation gives the same bits."""

import random
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
from attrs import define, field, frozen

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.hir.types import INDEX, Mem, Tile
from tests.shrinking import Choices, RecordedRandom

FAMILIES = ("map", "reduction", "memory", "contraction", "window", "chain", "scan", "arg", "mixed", "sides")
"""Families that always have a field. `wild` is one more: anything goes, so that most of it has none."""

REASSOCIATES = ("reassoc", "contract")


@frozen
class Variable:
    """A loop variable: its name, and a form that is greater than all its values."""

    name: str
    above: Affine


@frozen(eq=False)
class RandomNest:
    family: str
    function: HirFunction
    sizes: dict[str, int]

    def __str__(self) -> str:
        return f"{self.family}, sizes {self.sizes}\n{print_function(self.function)}"

    def arguments(self, seed: int) -> list[object]:
        """Fresh arguments: sizes, then memories filled with small integers (results with -7, so that an untouched element shows)."""
        generator = np.random.default_rng(seed)
        made: list[object] = []
        for parameter in self.function.parameters:
            if isinstance(parameter.type, Mem):
                shape = [dim.evaluate(self.sizes.__getitem__) for dim in parameter.type.dims]
                dtype = {"f32": np.float32, "i32": np.int32, "i64": np.int64, "f64": np.float64}[parameter.type.dtype]
                if parameter.type.readonly:
                    made.append(generator.integers(-3, 4, shape).astype(dtype))
                else:
                    made.append(np.full(shape, -7, dtype))
            else:
                made.append(self.sizes[parameter.name])
        return made


def random_nest(seed: int, family: str | None = None, choices: Choices | None = None) -> RandomNest:
    """The nest of a seed, or the one that these choices make of it."""
    chance = RecordedRandom(seed, Choices() if choices is None else choices)
    family = family or chance.choice(FAMILIES)
    maker = _Maker(chance, FunctionBuilder(f"{family}_{seed}"))
    for name in ("N", "M", "K"):
        maker.sizes[name] = chance.choice((0, 1, 2, 3, 3, 4, 5))
        maker.owner.parameter(name, INDEX)
    builders: dict[str, Callable[[], None]] = {
        "map": maker.map,
        "reduction": maker.reduction,
        "memory": maker.memory,
        "contraction": maker.contraction,
        "window": maker.window,
        "chain": maker.chain,
        "scan": maker.scan,
        "arg": maker.arg,
        "mixed": maker.mixed,
        "sides": maker.sides,
        "wild": maker.wild,
    }
    builders[family]()
    return RandomNest(family, maker.owner.finish(), maker.sizes)


@define(eq=False)
class _Maker:
    chance: random.Random
    owner: FunctionBuilder
    sizes: dict[str, int] = field(factory=dict)
    count: int = 0
    dtype: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dtype = self.chance.choice(("f32", "i32", "f64"))

    # ---- pieces ----

    def number(self, builder: Builder, value: int, dtype: str | None = None) -> Value:
        dtype = dtype or self.dtype
        return builder.const(float(value) if dtype.startswith("f") else value, dtype)

    def input(self, dims: list[Affine], dtype: str | None = None) -> Value:
        self.count += 1
        return self.owner.parameter(f"x{self.count}", Mem(dtype or self.dtype, tuple(dims), readonly=True))

    def result(self, dims: list[Affine], name: str = "out", dtype: str | None = None) -> Value:
        return self.owner.parameter(name, Mem(dtype or self.dtype, tuple(dims)))

    def loops(
        self, stack: ExitStack, builder: Builder, number: int, plain: bool = False, within: list[Variable] | None = None
    ) -> tuple[Builder, list[Variable]]:
        """Nested loops; with `plain`, from 0 by 1 to a size."""
        variables: list[Variable] = []
        for _ in range(number):
            self.count += 1
            size = self.chance.choice(("N", "M", "K"))
            low, high, step = 0, Affine.of(size), 1
            style = (
                "plain"
                if plain
                else self.chance.choice(("plain", "plain", "offset", "step", "down", "triangle", "triangle low", "constant"))
            )
            outer = [*(within or []), *variables]
            above = high
            name = f"v{self.count}"
            low_form = Affine.of(low)
            if style == "offset":
                low_form, high = Affine.of(self.chance.choice((1, 2))), high + self.chance.choice((0, 1, 2))
                above = high
            elif style == "step":
                step, low_form = self.chance.choice((2, 3)), Affine.of(self.chance.choice((0, 1)))
            elif style == "down":
                low_form, high, step = high - 1, Affine.of(-1), self.chance.choice((-1, -2))
            elif style == "triangle" and outer:
                around = self.chance.choice(outer)
                high, above = Affine.of(around.name) + self.chance.choice((0, 1, 2)), around.above + 2
            elif style == "triangle low" and outer:
                around = self.chance.choice(outer)
                low_form = Affine.of(around.name)
                above = high
            elif style == "constant":
                high = above = Affine.of(self.chance.choice((1, 2, 3)))
            builder, _handle = stack.enter_context(builder.loop(name, low_form, high, step))
            variables.append(Variable(name, above + 1))
        return builder, variables

    def position(self, variables: list[Variable]) -> tuple[Affine, Affine]:
        """An affine index over some variables, and an extent that holds it."""
        form, extent = Affine.of(self.chance.choice((0, 0, 1))), Affine.of(2)
        for variable in variables:
            factor = self.chance.choice((1, 1, 1, 2))
            form, extent = form + Affine.of(variable.name) * factor, extent + variable.above * factor
        return form, extent

    def read(self, builder: Builder, variables: list[Variable]) -> Value:
        """A load of a new input at random affine indices."""
        rank = self.chance.choice((1, 1, 2))
        places = [self.position(self.chance.sample(variables, min(len(variables), self.chance.choice((0, 1, 1, 2))))) for _ in range(rank)]
        return builder.load(self.input([extent for _, extent in places]), [form for form, _ in places])

    def expression(self, builder: Builder, variables: list[Variable], depth: int = 2) -> Value:
        kind = self.chance.choice(("load", "load", "number", "index", "add", "sub", "mul", "max", "select", "neg")) if depth else "load"
        match kind:
            case "load":
                return self.read(builder, variables)
            case "number":
                return self.number(builder, self.chance.choice((-2, -1, 0, 1, 3)))
            case "index":
                form = Affine.of(self.chance.choice((0, 1)))
                for variable in variables:
                    form = form + Affine.of(variable.name) * self.chance.choice((0, 1))
                return builder.cast(builder.index(form), self.dtype)
            case "neg":
                return builder.op("neg", self.expression(builder, variables, depth - 1))
            case "select":
                a, b = self.expression(builder, variables, depth - 1), self.expression(builder, variables, depth - 1)
                return builder.select(self.condition(builder, variables), a, b)
            case operator:
                a, b = self.expression(builder, variables, depth - 1), self.expression(builder, variables, depth - 1)
                return builder.op(operator, a, b, flags=("contract",))

    def condition(self, builder: Builder, variables: list[Variable]) -> Value:
        if variables and self.chance.random() < 0.6:
            form = Affine.of(self.chance.choice((0, 1)))
            for variable in self.chance.sample(variables, min(2, len(variables))):
                form = form + Affine.of(variable.name)
            left = builder.index(form)
            return builder.op(
                self.chance.choice(("lt", "le", "gt", "ge", "eq", "ne")), left, builder.index(self.chance.choice(("N", "M", 1, 2)))
            )
        return builder.op(self.chance.choice(("lt", "ge")), self.read(builder, variables), self.number(builder, 0))

    def target(self, variables: list[Variable]) -> tuple[list[Affine], list[Affine]]:
        """An injective index over all variables, and its extents."""
        order = self.chance.sample(variables, len(variables))
        index, dims = [], []
        for variable in order:
            factor, offset = self.chance.choice((1, 1, 2)), self.chance.choice((0, 0, 1))
            index.append(Affine.of(variable.name) * factor + offset)
            dims.append(variable.above * factor + offset + 1)
        return index, dims

    def maybe(self, stack: ExitStack, builder: Builder, variables: list[Variable], likely: float = 0.3) -> Builder:
        """The builder, sometimes under a condition."""
        if self.chance.random() < likely:
            return stack.enter_context(builder.when(self.condition(builder, variables)))
        return builder

    def monoid(self) -> str:
        return self.chance.choice(("add", "add", "add", "max", "min", *(("mul", "xor") if self.dtype == "i32" else ())))

    def start(self, builder: Builder, monoid: str) -> Value:
        plain = {"add": 0, "mul": 1, "xor": 0, "max": -50, "min": 50}[monoid]
        return self.number(builder, self.chance.choice((plain, plain, 2)))

    def combine(self, builder: Builder, monoid: str, a: Value, b: Value) -> Value:
        if self.chance.random() < 0.3:
            a, b = b, a
        return builder.op(monoid, a, b, flags=REASSOCIATES)

    # ---- families ----

    def map(self) -> None:
        with ExitStack() as stack:
            builder, variables = self.loops(stack, self.owner.body, self.chance.choice((1, 2, 3)))
            index, dims = self.target(variables)
            builder = self.maybe(stack, builder, variables)
            builder.store(self.result(dims), self.expression(builder, variables, 3), index)

    def reduction(self) -> None:
        with ExitStack() as stack:
            builder, outer = self.loops(stack, self.owner.body, self.chance.choice((0, 1, 2)))
            monoid = self.monoid()
            slot = builder.slot(self.start(builder, monoid), "acc")
            with ExitStack() as inside:
                inner, variables = self.loops(inside, builder, self.chance.choice((1, 2)), within=outer)
                inner = self.maybe(inside, inner, [*outer, *variables])
                inner.set(slot, self.combine(inner, monoid, inner.get(slot), self.expression(inner, [*outer, *variables])))
            index, dims = self.target(outer)
            value = builder.get(slot)
            if self.chance.random() < 0.4:
                value = builder.add(value, self.expression(builder, outer))
            builder.store(self.result(dims), value, index)

    def memory(self) -> None:
        """C[p] = C[p] (+) e in any loop order, C set before or not."""
        with ExitStack() as stack:
            builder, variables = self.loops(stack, self.owner.body, self.chance.choice((2, 3)))
            kept = self.chance.sample(variables, self.chance.choice((1, len(variables) - 1)))
            index, dims = self.target(kept)
            out = self.result(dims)
            monoid = self.monoid()
            builder = self.maybe(stack, builder, variables)
            old = builder.load(out, index)
            builder.store(out, self.combine(builder, monoid, old, self.expression(builder, variables)), index)

    def contraction(self) -> None:
        with ExitStack() as stack:
            extents = {"i": "N", "j": "M", "k": "K"}
            order = self.chance.sample(["i", "j", "k"], 3)
            dims_a, dims_b = self.chance.sample(["i", "k"], 2), self.chance.sample(["k", "j"], 2)
            narrow = {"f32": "f32", "i32": "i32", "f64": "f32"}[self.dtype]
            a = self.input([Affine.of(extents[d]) for d in dims_a], narrow)
            b = self.input([Affine.of(extents[d]) for d in dims_b], narrow)
            out = self.result([Affine.of("N"), Affine.of("M")])
            builder = self.owner.body
            if self.chance.random() < 0.5:
                with builder.loop("i", 0, "N") as (one, _), one.loop("j", 0, "M") as (two, _):
                    two.store(out, self.number(two, self.chance.choice((0, 1))), ["i", "j"])
                rename = {v: f"{v}b" for v in "ijk"}
            else:
                rename = {v: v for v in "ijk"}
            for name in order:
                builder, _ = stack.enter_context(builder.loop(rename[name], 0, extents[name]))
            x = builder.cast(builder.load(a, [rename[d] for d in dims_a]), self.dtype)
            y = builder.cast(builder.load(b, [rename[d] for d in dims_b]), self.dtype)
            old = builder.load(out, [rename["i"], rename["j"]])
            builder.store(out, builder.add(old, builder.mul(x, y), REASSOCIATES), [rename["i"], rename["j"]])

    def window(self) -> None:
        """A guarded window sum: pad or border test."""
        with ExitStack() as stack:
            x, w = self.input([Affine.of("N"), Affine.of("M")]), self.input([Affine.of(3), Affine.of(2)])
            builder, variables = self.loops(stack, self.owner.body, 2, plain=True)
            index, dims = self.target(variables)
            slot = builder.slot(self.number(builder, 0), "acc")
            with builder.loop("r", 0, 3) as (one, _), one.loop("s", 0, 2) as (two, _):
                p = Affine.of(variables[0].name) * self.chance.choice((1, 2)) + "r" - 1
                q = Affine.of(variables[1].name) + Affine.of("s") * self.chance.choice((1, 2)) - self.chance.choice((0, 1))
                zero = two.index(0)
                tests = [two.op("ge", two.index(p), zero), two.op("lt", two.index(p), two.index("N"))]
                tests += [two.op("ge", two.index(q), zero), two.op("lt", two.index(q), two.index("M"))]
                if self.chance.random() < 0.5:
                    with ExitStack() as inside:
                        here = two
                        for test in tests:
                            here = inside.enter_context(here.when(test))
                        here.set(slot, here.add(here.get(slot), here.mul(here.load(x, [p, q]), here.load(w, ["r", "s"])), REASSOCIATES))
                else:
                    both = tests[0]
                    for test in tests[1:]:
                        both = two.op("and", both, test)
                    with two.branch(both, [Tile(self.dtype)]) as (then, otherwise, op):
                        then.yield_(then.load(x, [p, q]))
                        otherwise.yield_(self.number(otherwise, self.chance.choice((0, 1))))
                    two.set(slot, two.add(two.get(slot), two.mul(op.results[0], two.load(w, ["r", "s"])), REASSOCIATES))
            builder.store(self.result(dims), builder.get(slot), index)

    def chain(self) -> None:
        """Through scratch memory: one nest writes it, another reads it, whole or shifted; or per row, inside a loop."""
        body = self.owner.body
        shift = self.chance.choice((0, 0, 1, 2))
        if self.chance.random() < 0.5:
            scratch = body.alloc(Mem(self.dtype, (Affine.of("N") + 3, Affine.of("M"))), "scratch")
            with body.loop("a", 0, Affine.of("N") + shift) as (one, _), one.loop("b", 0, "M") as (two, _):
                value = self.expression(two, [Variable("a", Affine.of("N") + 3), Variable("b", Affine.of("M"))])
                two.store(scratch, value, ["a", "b"])
            out = self.result([Affine.of("M"), Affine.of("N")])
            with body.loop("i", 0, "N") as (one, _), one.loop("j", 0, "M") as (two, _):
                here = [Variable("i", Affine.of("N")), Variable("j", Affine.of("M"))]
                value = two.add(two.load(scratch, [Affine.of("i") + shift, "j"]), self.expression(two, here))
                two.store(out, value, ["j", "i"])
        else:
            scratch = body.alloc(Mem(self.dtype, (Affine.of("M"),)), "scratch")
            out = self.result([Affine.of("N"), Affine.of("M")])
            with body.loop("i", 0, "N") as (row, _):
                outer = [Variable("i", Affine.of("N"))]
                with row.loop("j", 0, "M") as (one, _):
                    one.store(scratch, self.expression(one, [*outer, Variable("j", Affine.of("M"))]), ["j"])
                most = row.slot(self.number(row, -40), "most")
                with row.loop("t", 0, "M") as (one, _):
                    one.set(most, one.op("max", one.get(most), one.load(scratch, ["t"])))
                with row.loop("u", 0, "M") as (one, _):
                    one.store(out, one.sub(one.load(scratch, ["u"]), one.get(most)), ["i", "u"])

    def scan(self) -> None:
        with ExitStack() as stack:
            builder, outer = self.loops(stack, self.owner.body, self.chance.choice((0, 1)), plain=True)
            monoid = self.chance.choice(("add", "max", "min"))
            slot = builder.slot(self.start(builder, monoid), "running")
            out = self.result([*(v.above for v in outer), Affine.of("K")])
            before = self.chance.random() < 0.4
            low, high, step = (Affine.of(0), Affine.of("K"), 1) if self.chance.random() < 0.7 else (Affine.of("K") - 1, Affine.of(-1), -1)
            with builder.loop("k", low, high, step) as (inner, _):
                here = [*outer, Variable("k", Affine.of("K"))]
                at = [*(v.name for v in outer), "k"]
                if before:
                    inner.store(out, inner.get(slot), at)
                with ExitStack() as inside:
                    under = self.maybe(inside, inner, here)
                    under.set(slot, self.combine(under, monoid, under.get(slot), self.expression(under, here)))
                if not before:
                    inner.store(out, inner.get(slot), at)

    def arg(self) -> None:
        """The place of an extreme, by comparison."""
        with ExitStack() as stack:
            builder, outer = self.loops(stack, self.owner.body, self.chance.choice((0, 1)), plain=True)
            least = self.chance.random() < 0.5
            best = builder.slot(self.number(builder, 60 if least else -60), "best")
            at = builder.slot(builder.const(-1, "i64"), "at")
            with builder.loop("k", 0, "K") as (inner, _):
                x = self.expression(inner, [*outer, Variable("k", Affine.of("K"))])
                with inner.when(inner.op("lt" if least else "gt", x, inner.get(best))) as then:
                    then.set(best, x)
                    then.set(at, then.cast(then.index("k"), "i64"))
            index, dims = self.target(outer)
            builder.store(self.result(dims), builder.get(best), index)
            builder.store(self.result(dims, "place", "i64"), builder.get(at), index)

    def mixed(self) -> None:
        """A sum over one loop, its result used in a second one, then added to in a third."""
        body = self.owner.body
        out = self.result([Affine.of("N"), Affine.of("M")])
        with body.loop("i", 0, "N") as (row, _):
            outer = [Variable("i", Affine.of("N"))]
            slot = row.slot(self.number(row, 0), "s")
            with row.loop("k", 0, "K") as (one, _):
                one.set(slot, one.add(one.get(slot), self.expression(one, [*outer, Variable("k", Affine.of("K"))]), REASSOCIATES))
            with row.loop("j", 0, "M") as (one, _):
                one.store(out, one.add(one.get(slot), self.expression(one, [*outer, Variable("j", Affine.of("M"))])), ["i", "j"])
        for number in range(self.chance.choice((0, 1, 2))):
            i, j, k = (f"{v}{number}z" for v in "ijk")
            names = {i: "N", j: "M", k: "K"}
            with ExitStack() as stack:
                builder = body
                for name in self.chance.sample([i, j, k], 3):
                    builder, _ = stack.enter_context(builder.loop(name, 0, names[name]))
                here = [Variable(n, Affine.of(s)) for n, s in names.items()]
                old = builder.load(out, [i, j])
                builder.store(out, builder.add(old, self.expression(builder, here), REASSOCIATES), [i, j])

    def sides(self) -> None:
        """A slot, or an element, that a branch folds into on its other side, or on both."""
        with ExitStack() as stack:
            builder, outer = self.loops(stack, self.owner.body, 1)
            in_memory = self.chance.random() < 0.4
            monoid = self.monoid()
            index, dims = self.target(outer)
            out = self.result(dims)
            slot = builder.slot(self.start(builder, monoid), "acc")
            with ExitStack() as inside:
                inner, variables = self.loops(inside, builder, self.chance.choice((1, 2)), within=outer)
                here = [*outer, *variables]
                with inner.branch(self.condition(inner, here)) as (then, otherwise, _):
                    for side in self.chance.choice(((otherwise,), (then, otherwise))):
                        value = self.expression(side, here, 1)
                        if in_memory:
                            side.store(out, self.combine(side, monoid, side.load(out, index), value), index)
                        else:
                            side.set(slot, self.combine(side, monoid, side.get(slot), value))
            if not in_memory:
                builder.store(out, builder.get(slot), index)

    def wild(self) -> None:
        """Stores and loads of a few memories, slots, branches and loops at random: mostly not parallel, often not liftable."""
        body = self.owner.body
        size = Affine.of(12)
        mems = [self.result([size], "out"), self.result([size, Affine.of(9)], "two"), body.alloc(Mem(self.dtype, (size,)), "scratch")]
        with body.loop("z", 0, 12) as (fill, _):
            fill.store(mems[2], self.number(fill, 1), ["z"])
            if self.chance.random() < 0.7:
                fill.store(mems[0], self.number(fill, 2), ["z"])
            with fill.loop("y", 0, 9) as (inner, _):
                inner.store(mems[1], self.number(inner, 3), ["z", "y"])
        slots = [body.slot(self.number(body, 0), "s"), body.slot(self.number(body, 1), "t")]
        for _ in range(self.chance.choice((1, 2))):
            self.block(body, [], mems, slots, 3)
        body.store(mems[0], body.get(slots[0]), [11])

    def block(self, builder: Builder, variables: list[str], mems: list[Value], slots: list[Value], depth: int) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            kind = self.chance.choice(("loop", "loop", "store", "add", "set", "fold", "if", "local"))
            match kind:
                case "loop" if depth and len(variables) < 3:
                    self.count += 1
                    name = f"w{self.count}"
                    low, high, step = self.chance.choice(((0, 3, 1), (0, 4, 1), (1, 4, 1), (3, -1, -1), (0, 4, 2)))
                    if variables and self.chance.random() < 0.2:
                        high_form: Affine | int = Affine.of(variables[-1]) + 1
                        low, step = 0, 1
                    else:
                        high_form = high
                    with builder.loop(name, low, high_form, step) as (inner, _):
                        self.block(inner, [*variables, name], mems, slots, depth - 1)
                case "if" if depth:
                    with builder.when(self.test(builder, variables, mems, slots)) as inner:
                        self.block(inner, variables, mems, slots, depth - 1)
                case "store":
                    mem = self.chance.choice(mems)
                    builder.store(mem, self.value(builder, variables, mems, slots), self.place(variables, mem))
                case "add":
                    mem = self.chance.choice(mems)
                    at = self.place(variables, mem)
                    builder.store(mem, self.combine(builder, "add", builder.load(mem, at), self.value(builder, variables, mems, slots)), at)
                case "set":
                    builder.set(self.chance.choice(slots), self.value(builder, variables, mems, slots))
                case "local":
                    slots = [*slots, builder.slot(self.value(builder, variables, mems, slots), "u")]
                case _:
                    slot = self.chance.choice(slots)
                    monoid = self.chance.choice(("add", "max"))
                    builder.set(slot, self.combine(builder, monoid, builder.get(slot), self.value(builder, variables, mems, slots)))

    def place(self, variables: list[str], mem: Value) -> list[Affine]:
        rank = mem.type.rank if isinstance(mem.type, Mem) else 1
        if rank == 2:
            return [self.at(variables), self.at(variables)]
        return [self.at(variables)]

    def at(self, variables: list[str]) -> Affine:
        form = Affine.of(self.chance.choice((0, 0, 1, 2)))
        for name in self.chance.sample(variables, min(len(variables), self.chance.choice((0, 1, 1, 1, 2)))):
            form = form + name
        return form

    def value(self, builder: Builder, variables: list[str], mems: list[Value], slots: list[Value], depth: int = 2) -> Value:
        match self.chance.choice(("load", "slot", "number", "index", "op", "op") if depth else ("slot", "number", "index")):
            case "load":
                mem = self.chance.choice(mems)
                return builder.load(mem, self.place(variables, mem))
            case "slot":
                return builder.get(self.chance.choice(slots))
            case "number":
                return self.number(builder, self.chance.choice((0, 1, 2)))
            case "index":
                return builder.cast(builder.index(self.at(variables)), self.dtype)
            case _:
                a, b = (self.value(builder, variables, mems, slots, depth - 1) for _ in range(2))
                return builder.op(self.chance.choice(("add", "sub", "max", "min")), a, b, flags=REASSOCIATES)

    def test(self, builder: Builder, variables: list[str], mems: list[Value], slots: list[Value]) -> Value:
        if variables and self.chance.random() < 0.7:
            return builder.op(
                self.chance.choice(("lt", "gt", "eq")), builder.index(self.at(variables)), builder.index(self.chance.choice((1, 2)))
            )
        return builder.op("lt", self.value(builder, variables, mems, slots, 1), self.number(builder, 2))
