"""Loops that read elements at indices which are data, and check these on the way, go in blocks: a block's indices are checked first, in
vectors, and its turns behind that are a loop without checks. LLVM would keep what the checks give in vectors, and take indices out of them
one by one. What the turns go along is fetched a block at a time: beside accesses that lie anywhere, processors follow no stream.

for i in a..b { %k = load %x[i]  check %inside  store %out[i], (load %t[%k]) }
=>  for block in .. { %all = for ahead in block carry(..) { .. %x[ahead] is inside }
                      if %all likely { for i in block ahead=4096 { .. } } else { for i in block { .. check .. } } }

Where elements are only moved, a block is eight turns, checked in one vector and written out."""

from collections.abc import Sequence

from compiler.analysis.fetches import fetches
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Cast, InBounds, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import bytes_of
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field, frozen

TURNS = 8
BLOCK, AHEAD = 512, 4096
"""Bytes of a block of the widest elements, and how far ahead memory is fetched: more lines at once would wait."""

WIDE = ("i32", "i64")
"""Indices that are checked so: narrower ones are seldom checked."""


@frozen(eq=False)
class _Checked:
    """A check, the load of its index, and the extent that the index must be below."""

    check: Check
    load: Load
    below: Affine


def checked_together(function: HirFunction) -> HirFunction:
    """The function (form A) with such loops; itself where it has none."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    checked = {loop: checks for loop in loops if (checks := _checks_of(loop))}
    return _Together(function, checked=checked).run() if checked else function


def _checks_of(loop: For) -> list[_Checked]:
    """The checks of a loop; none where it isn't such a loop."""
    body = loop.body.body
    if loop.step != 1 or loop.carried or any(op.regions for op in body) or any(name != "written" for name, _ in loop.marks):
        return []
    made = {value.name: op for op in body for value in op.results}
    stores = [op for op in body if isinstance(op, Store)]
    checks = [_checked(op, loop, made) for op in body if isinstance(op, Check)]
    own = all(op.where is None and made.keys().isdisjoint(op.symbols) and mem_of(op.mem).noalias for op in stores)
    found = [each for each in checks if each is not None]
    return found if stores and own and len(found) == len(checks) else []


def _checked(check: Check, loop: For, made: dict[str, Instruction]) -> _Checked | None:
    match check.condition.source:
        case InBounds(of=of, below=below) if len(of.names) == 1 and of == Affine.of(min(of.names)) and made.keys().isdisjoint(below.names):
            cast = made.get(min(of.names))
            load = cast.value.source if isinstance(cast, Cast) else None
        case _:
            return None
    if not isinstance(load, Load) or load not in loop.body.body or load.where is not None or not mem_of(load.mem).readonly:
        return None
    mem, steps = mem_of(load.mem), [form.coefficient(loop.variable.name) for form in load.index]
    dense = mem.strides is None or mem.strides[-1].value == 1
    alone = made.keys().isdisjoint(load.symbols) and not any(steps[:-1]) and steps[-1] == 1
    return _Checked(check, load, below) if dense and alone and mem.dtype in WIDE and loop.variable.name not in below.names else None


@define(eq=False)
class _Together(Rebuild):
    checked: dict[For, list[_Checked]] = field(factory=dict, kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if not isinstance(op, For) or op not in self.checked:
            return self.copy(op, into)
        low, high = self.form(op.low), self.form(op.high)
        count = into.op("max", into.index(high - low), into.index(0))
        limit = {each: self.limit(each, into) for each in self.checked[op]}
        place = "time" if op.place == "simd" else op.place
        if fetches(op):
            self.several(op, low, high, count, limit, place, into)
            return []
        turns = BLOCK // max(bytes_of(mem_of(each.mem).dtype) for each in op.body.body if isinstance(each, Load | Store))
        with into.loop("block", 0, Affine.of(count.name).ceildiv(turns), place=place) as (body, loop):
            first = low + Affine.of(loop.variable.name) * turns
            behind = Affine.of(body.op("min", body.index(first + turns), body.index(high)).name)
            with body.branch(self.all_inside(op, limit, first, behind, body)) as (then, otherwise, branch):
                branch.likely = True
                for inner, marks in (then, {"place": "simd", "ahead": AHEAD}), (otherwise, {"nounroll": True}):
                    with inner.loop(op.variable.name, first, behind, **marks) as (one, each):
                        self.turn(op, Affine.of(each.variable.name), inner is then, one)
        return []

    def several(self, op: For, low: Affine, high: Affine, count: Value, limit: dict[_Checked, Value], place: str, into: Builder) -> None:
        """Turns that only move elements are so short that a block is some of them, one behind the other."""
        lanes = "simd" if self.owner.function.axes.get("simd") == Affine.of(TURNS) else self.owner.axis("simd", TURNS)
        middle = low + Affine.of(count.name).floordiv(TURNS) * TURNS
        with into.loop(op.variable.name, low, middle, TURNS, place=place, ahead=AHEAD) as (body, loop):
            first = Affine.of(loop.variable.name)
            (inside,) = body.reduce("and", self.inside(op, limit, first, lanes, body), over=[lanes])
            with body.branch(inside) as (then, otherwise, branch):
                branch.likely = True
                for turn in range(TURNS):
                    self.turn(op, first + turn, True, then)
                with otherwise.loop("turn", 0, TURNS, nounroll=True) as (one, number):
                    self.turn(op, first + number.variable.name, False, one)
        with into.loop(op.variable.name, middle, high, nounroll=True) as (body, loop):
            self.turn(op, Affine.of(loop.variable.name), False, body)

    def limit(self, each: _Checked, into: Builder) -> Value:
        """The extent in the type of the index: its largest number, which then isn't found to be inside, where it is more."""
        dtype = dtype_of(each.load.result)
        return into.cast(into.op("min", into.index(self.form(each.below)), into.const(limits(dtype)[1], "index")), dtype)

    def all_inside(self, op: For, limit: dict[_Checked, Value], first: Affine, behind: Affine, into: Builder) -> Value:
        with into.loop("ahead", first, behind, carried=[into.const(True, "i1")], place="simd") as (body, loop):
            inside = self.inside(op, limit, Affine.of(loop.variable.name), None, body)
            body.yield_(body.both(loop.carried[0], inside))
        return loop.results[0]

    def inside(self, op: For, limit: dict[_Checked, Value], at: Affine, lanes: str | None, into: Builder) -> Value:
        """Whether the indices of a turn are inside, or those of turns in lanes."""
        self.bind(op.variable, into.index(at))
        forms = {op.variable.name: at + lanes if lanes else at}
        inside: Value | None = None
        for each, most in limit.items():
            index = [self.form(form.substitute(forms) if op.variable.name in form.names else form) for form in each.load.index]
            value = into.load(self.values[each.load.mem], index)
            inside = into.both(inside, into.op("ge", value, into.const(0, dtype_of(value))))
            inside = into.both(inside, into.op("lt", value, most))
        assert inside is not None
        return inside

    def turn(self, op: For, at: Affine, unchecked: bool, into: Builder) -> None:
        self.bind(op.variable, into.index(at))
        for each in op.body.body:
            if not isinstance(each, Yield) and not (unchecked and isinstance(each, Check)):
                into.span = each.span
                for old, new in zip(each.results, self.copy(each, into), strict=True):
                    self.bind(old, new)
