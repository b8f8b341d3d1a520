"""The builder: appends instructions, names and types their results, and makes equal pure instructions one.

f = FunctionBuilder("saxpy")
x = f.parameter("x", Mem("f32", ["N"])) ...
b = f.body
with b.loop("i", 0, "N") as (inner, i):
    inner.store(out, inner.add(inner.mul(a, inner.load(x, ["i"])), inner.load(y, ["i"])), ["i"])
function = f.finish()
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, TypeVar

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.control import Break, Condition, Continue, For, If, While, Yield
from compiler.hir.core import (
    BINARY,
    COMPARE,
    UNARY,
    Binary,
    Cast,
    Compare,
    Const,
    Contract,
    Fma,
    InBounds,
    Index,
    IsNan,
    Reduce,
    Scan,
    Select,
    Unary,
    dtype_of,
)
from compiler.hir.instruction import Effect, Instruction, Region, Role, Value, ValueScope
from compiler.hir.memory import Alloc, Check, GetSlot, Load, MakeSlot, SetSlot, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, HirType, Mem, Tile
from compiler.source import Span

_I = TypeVar("_I", bound=Instruction)


class FunctionBuilder:
    """A function under construction: its names, its scope, and the builder of its body."""

    def __init__(self, name: str, form: Form = Form.NEST, axes: dict[str, AffineLike] | None = None) -> None:
        self.function = HirFunction(name, form=form)
        self.function.axes = {n: Affine.of(e) for n, e in (axes or {}).items()}
        self.scope = ValueScope(self.function.axes, {})
        self._taken: set[str] = set(self.function.axes)
        self._counters: dict[str, int] = {}
        self.body = Builder(self, self.function.body)

    def axis(self, name: str, extent: AffineLike) -> str:
        """Declare an axis; the name is made unique if it is taken by anything else."""
        name = self.fresh(name)
        self.function.axes[name] = Affine.of(extent)
        return name

    def parameter(self, name: str, type: HirType) -> Value:
        value = self.value(name, type)
        self.function.parameters.append(value)
        return value

    def value(self, name: str, type: HirType) -> Value:
        value = Value(self.fresh(name), type)
        self.scope.types[value.name] = type
        return value

    def fresh(self, name: str) -> str:
        """`name`, or `name` with the next free number behind it."""
        if name and name not in self._taken:
            self._taken.add(name)
            return name
        base = name.rstrip("0123456789") or "t"
        while True:
            number = self._counters.get(base, 0)
            self._counters[base] = number + 1
            candidate = f"{base}{number}"
            if candidate not in self._taken:
                self._taken.add(candidate)
                return candidate

    def finish(self) -> HirFunction:
        return self.function


class Builder:
    """Appends to a region. Pure instructions equal to one already made here or in an enclosing region are not made twice."""

    def __init__(self, owner: FunctionBuilder, region: Region, parent: "Builder | None" = None) -> None:
        self.owner = owner
        self.region = region
        self.parent = parent
        self.span: Span | None = parent.span if parent else None
        self._made: tuple[dict[Any, Instruction], ...] = ({}, *parent._made) if parent else ({},)
        """Pure instructions by what makes them equal: those of this region, then those of the regions around."""

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """What is appended inside comes from there."""
        before, self.span = self.span, span or self.span
        yield
        self.span = before

    def child(self, region: Region) -> "Builder":
        return Builder(self.owner, region, self)

    @contextmanager
    def inside(self, region: Region, alone: bool = False) -> Iterator[None]:
        """What is appended meanwhile goes into that region. `alone`: it may end up elsewhere, so that nothing made around is used there."""
        before = self.region, self._made
        self.region, self._made = region, ({},) if alone else ({}, *self._made)
        try:
            yield
        finally:
            self.region, self._made = before

    def emit(self, op: _I, name: str = "", repeats: bool = True) -> _I:
        """Append an instruction; its results are made here, called after `name`. Where it isn't pure, `repeats` says whether it may
        give something else when it is made again."""
        key = _key(op) if (op.effects is Effect.PURE or not repeats) and not op.regions else None
        if key is not None:
            for made in self._made:
                if key in made:
                    return made[key]  # type: ignore[return-value]
        op.span = op.span or self.span
        for number, type in enumerate(op.result_types(self.owner.scope)):
            value = self.owner.value(name if number == 0 else f"{name or 't'}{number}", type)
            value.source = op
            op.results.append(value)
        self.region.body.append(op)
        if key is not None:
            self._made[0][key] = op
        return op

    # ---- plain ----

    def const(self, value: int | float | bool, type: HirType | str = "f32", name: str = "") -> Value:
        return self.emit(Const(value=value, type=Tile(type) if isinstance(type, str) else type), name).result

    def op(self, operator: str, *values: Value, flags: Iterable[str] = (), name: str = "") -> Value:
        """Any plain instruction by its operator: `op("add", a, b)`, `op("exp", x)`, `op("lt", a, b)`."""
        if operator in BINARY:
            left, right = values
            return self.emit(Binary(operator=operator, left=left, right=right, flags=tuple(flags)), name).result
        if operator in COMPARE:
            left, right = values
            return self.emit(Compare(operator=operator, left=left, right=right), name).result
        assert operator in UNARY, operator
        (value,) = values
        return self.emit(Unary(operator=operator, value=value, flags=tuple(flags)), name).result

    def add(self, a: Value, b: Value, flags: Iterable[str] = ()) -> Value:
        return self.op("add", a, b, flags=flags)

    def sub(self, a: Value, b: Value, flags: Iterable[str] = ()) -> Value:
        return self.op("sub", a, b, flags=flags)

    def mul(self, a: Value, b: Value, flags: Iterable[str] = ()) -> Value:
        return self.op("mul", a, b, flags=flags)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.emit(Fma(a=a, b=b, c=c)).result

    def isnan(self, value: Value) -> Value:
        return self.emit(IsNan(value=value)).result

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return self.emit(Select(condition=condition, then=then, otherwise=otherwise)).result

    def cast(self, value: Value, to: str) -> Value:
        """The value in another type; itself when it has that type already."""
        return value if dtype_of(value) == to else self.emit(Cast(value=value, to=to)).result

    def index(self, of: AffineLike, name: str = "") -> Value:
        return self.emit(Index(of=Affine.of(of)), name).result

    def named(self, form: AffineLike) -> Affine:
        """The form, computed here once: a name."""
        return Affine.of(self.index(form).name)

    def count(self, form: AffineLike) -> Value:
        """How many: the form, or 0 where it is negative."""
        return self.op("max", self.index(form), self.const(0, "index"))

    def product(self, values: Sequence[Value]) -> Value:
        return reduce(self.mul, values)

    def digits(self, number: Value, counts: Sequence[Value], names: Sequence[str] = ()) -> list[Value]:
        """The number's digits in a mixed radix, the last one fastest; the first, which has no count, is all that is left."""
        digits: list[Value] = []
        for count, name in zip(reversed(counts), reversed(names or [""] * len(counts)), strict=True):
            digits.insert(0, self.op("rem", number, count, name=name))
            number = self.op("div", number, count)
        return [number, *digits]

    def next_digits(self, digits: Sequence[Value], extents: Sequence[Value]) -> list[Value]:
        """The digits of the next number in the mixed radix of these extents; the first just goes on."""
        result: list[Value] = []
        one, zero = self.const(1, "index"), self.const(0, "index")
        turned: Value | None = None
        for digit, extent in zip(reversed(digits), reversed(extents), strict=True):
            after = self.add(digit, one) if turned is None else self.select(turned, self.add(digit, one), digit)
            turned = self.op("eq", after, extent) if turned is None else self.op("and", turned, self.op("eq", after, extent))
            result.insert(0, after if digit is digits[0] else self.select(turned, zero, after))
        return result

    def both(self, left: Value | None, right: Value) -> Value:
        """A condition and one more."""
        return right if left is None else self.op("and", left, right)

    def none_negative(self, forms: Iterable[AffineLike]) -> Value | None:
        """Whether all forms are at least 0; None: of no forms."""
        held: Value | None = None
        for form in forms:
            held = self.both(held, self.op("ge", self.index(form), self.const(0, "index")))
        return held

    def inbounds(self, of: AffineLike, below: AffineLike) -> Value:
        return self.emit(InBounds(of=Affine.of(of), below=Affine.of(below))).result

    # ---- monoids ----

    def reduce(self, monoid: str, *values: Value, over: Sequence[str], flags: Iterable[str] = ()) -> list[Value]:
        return self.emit(Reduce(monoid=monoid, values=values, over=tuple(over), flags=tuple(flags))).results

    def scan(
        self, monoid: str, value: Value, over: str, exclusive: bool = False, reverse: bool = False, flags: Iterable[str] = ()
    ) -> Value:
        return self.emit(Scan(monoid=monoid, value=value, over=(over,), exclusive=exclusive, reverse=reverse, flags=tuple(flags))).result

    def contract(self, a: Value, b: Value, over: Sequence[str], to: str, accumulator: Value | None = None) -> Value:
        return self.emit(Contract(a=a, b=b, accumulator=accumulator, over=tuple(over), to=to)).result

    # ---- memory ----

    def load(
        self, mem: Value, index: Sequence[AffineLike], where: Value | None = None, pad: float | int | bool | None = None, name: str = ""
    ) -> Value:
        return self.emit(Load(mem=mem, index=tuple(index), where=where, pad=pad), name).result

    def store(self, mem: Value, value: Value, index: Sequence[AffineLike], where: Value | None = None) -> Store:
        return self.emit(Store(mem=mem, value=value, index=tuple(index), where=where))

    def slot(self, initial: Value, name: str = "") -> Value:
        return self.emit(MakeSlot(initial=initial), name).result

    def get(self, slot: Value) -> Value:
        return self.emit(GetSlot(slot=slot)).result

    def set(self, slot: Value, value: Value) -> None:
        self.emit(SetSlot(slot=slot, value=value))

    def alloc(self, type: Mem, name: str = "") -> Value:
        return self.emit(Alloc(type=type), name).result

    def check(self, condition: Value, *values: Value, code: str, site: int) -> None:
        self.emit(Check(condition=condition, values=values, code=code, site=site))

    # ---- control ----

    @contextmanager
    def loop(
        self,
        variable: str,
        low: AffineLike,
        high: AffineLike,
        step: int = 1,
        carried: Sequence[Value] = (),
        place: str = "time",
        **marks: object,
    ) -> "Iterator[tuple[Builder, LoopHandle]]":
        """`with b.loop("i", 0, "N") as (inner, loop):` builds the body through `inner`; `loop.variable`, `loop.carried` are the
        region's parameters; end a loop that carries with `inner.yield_(...)`; after the block `loop.results` are the final values."""
        index = self.owner.value(variable, INDEX)
        params = [self.owner.value(v.name, v.type) for v in carried]
        op = For(
            carried=tuple(carried),
            body=Region([index, *params]),
            low=Affine.of(low),
            high=Affine.of(high),
            step=step,
            place=place,
            marks=marks,
        )
        handle = LoopHandle(op)
        yield self.child(op.body), handle
        self.emit(op)

    @contextmanager
    def when(self, condition: Value) -> "Iterator[Builder]":
        """An `if` without results and without else."""
        op = If(condition=condition)
        yield self.child(op.then)
        self.emit(op)

    @contextmanager
    def branch(
        self, condition: Value, types: Sequence[HirType] = (), likely: bool | None = None
    ) -> "Iterator[tuple[Builder, Builder, If]]":
        """An `if` with both branches; with `types`, end both with `yield_`, and read `op.results` after the block."""
        op = If(condition=condition, otherwise=Region(), types=tuple(types), likely=likely)
        assert op.otherwise is not None
        yield self.child(op.then), self.child(op.otherwise), op
        self.emit(op)

    @contextmanager
    def repeat(self) -> "Iterator[tuple[Builder, Builder]]":
        """A `while` that carries nothing: `(before, body)`; end `before` with `condition`."""
        op = While()
        yield self.child(op.before), self.child(op.body)
        self.emit(op)

    def condition(self, value: Value) -> None:
        self.emit(Condition(value=value))

    def yield_(self, *values: Value) -> None:
        self.emit(Yield(values=values))

    def break_(self) -> None:
        self.emit(Break())

    def continue_(self) -> None:
        self.emit(Continue())


class LoopHandle:
    """A loop being built: its variable, the values it carries inside, and its results once it is closed."""

    def __init__(self, op: For) -> None:
        self.op = op

    @property
    def variable(self) -> Value:
        return self.op.variable

    @property
    def carried(self) -> list[Value]:
        return self.op.body.parameters[1:]

    @property
    def results(self) -> list[Value]:
        return self.op.results


def _key(op: Instruction) -> tuple[Any, ...]:
    """What makes two pure instructions equal: class, operands by identity, attributes by value. -0.0 and 0.0, 1 and True differ."""
    parts: list[Any] = [type(op)]
    for name, role in op.roles():
        value = getattr(op, name)
        if role is Role.OPERAND or role is Role.OPTIONAL:
            parts.append(id(value))
        elif role is Role.OPERANDS:
            parts.append(tuple(map(id, value)))
        elif role is Role.ATTRIBUTE:
            parts.append(value if type(value) is str else (type(value), repr(value)))
    return tuple(parts)


def declared(function: HirFunction) -> FunctionBuilder:
    """A builder that knows the names of a function."""
    owner = FunctionBuilder(function.name, function.form, dict(function.axes))
    inside = [op for top in function.body.body for op in top.walk()]
    made = [value for op in inside for value in (*op.results, *(v for region in op.regions for v in region.parameters))]
    for value in (*function.parameters, *made):
        owner.scope.types[owner.fresh(value.name)] = value.type
    return owner
