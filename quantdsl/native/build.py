"""Writes host functions: one `FunctionCode` a function, with a current place that blocks move.

    program = Program("desk")
    with program.function("clip", {"q": I64, "limit": I64}, results=[I64]) as b:
        q, limit = b.parameters
        with b.when(b.gt(q, limit)):
            b.give(limit)
        b.give(q)

Int arithmetic is checked: a result that its type can't hold stops, with the operands and the place in the program. A pointer names memory;
`b.at(p, "levels", i, "price")` is the address of a part of it, `b.get` and `b.put` read and write numbers there."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.control import Attempt, Break, Call, Continue, If, Return
from compiler.hir.core import dtype_of
from compiler.hir.host import Checked, Clear, Copy, Cycles, Element, Local, Member, Narrow, Quotient, Read, Saturating, Write, pointee
from compiler.hir.instruction import Region, Value
from compiler.hir.module import FaultSite, HirExecutionConstraints, HirFunction, HirModule, Linkage
from compiler.hir.numbers import limits
from compiler.hir.types import DTYPES, HirType, Pointer, Tile, is_float, is_signed
from compiler.source import Span
from runtime.records import frozen

Number = Value | int | float | bool
"""A value, or a constant that takes the type of its neighbour."""

Part = str | Value | int
"""A step of a path: the name of a field, or the index of an element."""

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "shl": "<<", "shr": ">>"}


class ModuleBuilder:
    """A module of host functions under construction."""

    def __init__(self, name: str) -> None:
        self.module = HirModule(name)
        self._declared: dict[str, FunctionBuilder] = {}

    def declare(
        self,
        name: str,
        parameters: Mapping[str, HirType],
        results: Sequence[HirType] = (),
        *,
        internal: bool = False,
        attributes: Sequence[str] = ("noalias",),
        constraints: HirExecutionConstraints | None = None,
    ) -> None:
        """Say what a function takes and gives, so that it can be called; `define` writes it. `noalias` says that its pointers never point
        to the same memory."""
        builder = FunctionBuilder(name)
        function = builder.function
        function.results, function.attributes, function.constraints = tuple(results), tuple(attributes), constraints
        function.linkage = Linkage.INTERNAL if internal else Linkage.EXPORTED
        for label, type in parameters.items():
            builder.parameter(label, type)
        self._declared[name] = builder
        self.module.add(function)

    @contextmanager
    def define(self, name: str, span: Span | None = None) -> "Iterator[FunctionCode]":
        """Write a declared function; one that gives no results returns at its end."""
        builder = self._declared.pop(name)
        function = builder.function
        function.span = span
        body = FunctionCode(self, builder, function.parameters)
        with body.place(span):
            yield body
        if not body.ended:
            assert not function.results, f"@{name} ends without a result"
            body.give()
        function.sites = tuple(body.sites)

    @contextmanager
    def function(
        self,
        name: str,
        parameters: Mapping[str, HirType],
        results: Sequence[HirType] = (),
        *,
        internal: bool = False,
        attributes: Sequence[str] = ("noalias",),
        constraints: HirExecutionConstraints | None = None,
        span: Span | None = None,
    ) -> "Iterator[FunctionCode]":
        """Declare and define."""
        self.declare(name, parameters, results, internal=internal, attributes=attributes, constraints=constraints)
        with self.define(name, span) as body:
            yield body

    def external(
        self, name: str, parameters: Mapping[str, HirType], results: Sequence[HirType] = (), effects: str | Sequence[str] | None = None
    ) -> None:
        """Declare a function of C. `effects`: "none", or of "alloc" and "io"; None: not said."""
        builder = FunctionBuilder(name)
        for label, type in parameters.items():
            builder.parameter(label, type)
        made = builder.function
        made.results, made.linkage, made.link_name = tuple(results), Linkage.EXTERNAL, name
        said = [effects] if isinstance(effects, str) else effects or []
        made.attributes = tuple(f"effects.{effect}" for effect in said)
        self.module.add(made)

    def imported(
        self, name: str, parameters: Mapping[str, HirType], results: Sequence[HirType] = (), *, attributes: Sequence[str] = ("noalias",)
    ) -> None:
        """Declare an exported function of another module, found when both are linked. Its pointers may point to other types there."""
        self.declare(name, parameters, results, attributes=attributes)
        self._declared.pop(name).function.linkage = Linkage.IMPORTED

    def has(self, name: str) -> bool:
        return name in self.module.functions


@frozen
class NativeVariable:
    """A variable of a function: `b.variable(0)`; `b.now(v)` reads it, `b.set(v, x)` changes it."""

    slot: Value
    dtype: str


class FunctionCode:
    """One function being written. `here` is where the next instruction goes."""

    def __init__(self, program: ModuleBuilder, builder: FunctionBuilder, parameters: list[Value]) -> None:
        self.program, self.builder, self.parameters = program, builder, parameters
        self.here: Builder = builder.body
        self.sites: list[FaultSite] = []

    @property
    def function(self) -> HirFunction:
        return self.builder.function

    @property
    def ended(self) -> bool:
        """Whether nothing behind the current place is reached."""
        return _ends(self.here.region)

    @contextmanager
    def place(self, span: Span | None) -> Iterator[None]:
        """What is written inside comes from there."""
        with self.here.at(span):
            yield

    def site(self, code: str, message: str, label: str = "", hint: str | None = None) -> int:
        """The number of a failure's words at the current place; `{0}`, `{1}` are its values."""
        made = FaultSite(code, self.here.span, message, label, hint)
        if made not in self.sites:
            self.sites.append(made)
        return self.sites.index(made)

    # ---- numbers ----

    def const(self, value: int | float | bool, type: HirType | str) -> Value:
        return self.here.const(value, type)

    def number(self, value: Number, like: Value | str) -> Value:
        """A constant as a value of the type of `like`; a value as it is."""
        return value if isinstance(value, Value) else self.const(value, like if isinstance(like, str) else dtype_of(like))

    def pair(self, a: Number, b: Number) -> tuple[Value, Value]:
        if isinstance(a, Value):
            return a, self.number(b, a)
        assert isinstance(b, Value), "two constants"
        return self.number(a, b), b

    def arithmetic(self, operation: str, a: Number, b: Number) -> Value:
        """`add sub mul div rem shl shr`: of ints checked, of floats as IEEE says."""
        x, y = self.pair(a, b)
        dtype = dtype_of(x)
        if is_float(dtype):
            return self.here.op(operation, x, y)
        if operation in ("div", "rem"):
            message = f"{{0}} {SIGNS[operation]} {{1}} has no value in {dtype}"
        else:
            message = f"{{0}} {SIGNS[operation]} {{1}} doesn't fit {dtype}"
        return self.here.emit(Checked(operation=operation, left=x, right=y, site=self.site("0806", message))).result

    def add(self, a: Number, b: Number) -> Value:
        return self.arithmetic("add", a, b)

    def sub(self, a: Number, b: Number) -> Value:
        return self.arithmetic("sub", a, b)

    def mul(self, a: Number, b: Number) -> Value:
        return self.arithmetic("mul", a, b)

    def div(self, a: Number, b: Number) -> Value:
        return self.arithmetic("div", a, b)

    def rem(self, a: Number, b: Number) -> Value:
        return self.arithmetic("rem", a, b)

    def neg(self, a: Value) -> Value:
        return self.here.op("neg", a) if is_float(dtype_of(a)) else self.sub(0, a)

    def magnitude(self, a: Value) -> Value:
        """|a|; of an int checked."""
        if is_float(dtype_of(a)) or not is_signed(dtype_of(a)):
            return self.here.op("abs", a)
        site = self.site("0806", f"|{{0}}| doesn't fit {dtype_of(a)}")
        low = self.const(-(1 << (DTYPES[dtype_of(a)] - 1)), dtype_of(a))
        self.here.check(self.here.op("ne", a, low), a, code="0806", site=site)
        return self.here.op("abs", a)

    def wrapping(self, operation: str, a: Number, b: Number) -> Value:
        """`add sub mul and or xor shl shr min max`, modulo the type."""
        return self.here.op(operation, *self.pair(a, b))

    def saturating(self, operation: str, a: Number, b: Number) -> Value:
        x, y = self.pair(a, b)
        return self.here.emit(Saturating(operation=operation, left=x, right=y)).result

    def compare(self, operator: str, a: Number, b: Number) -> Value:
        return self.here.op(operator, *self.pair(a, b))

    def eq(self, a: Number, b: Number) -> Value:
        return self.compare("eq", a, b)

    def ne(self, a: Number, b: Number) -> Value:
        return self.compare("ne", a, b)

    def lt(self, a: Number, b: Number) -> Value:
        return self.compare("lt", a, b)

    def le(self, a: Number, b: Number) -> Value:
        return self.compare("le", a, b)

    def gt(self, a: Number, b: Number) -> Value:
        return self.compare("gt", a, b)

    def ge(self, a: Number, b: Number) -> Value:
        return self.compare("ge", a, b)

    def both(self, *conditions: Value) -> Value:
        """All of them; each is computed."""
        return self._fold("and", conditions)

    def either(self, *conditions: Value) -> Value:
        return self._fold("or", conditions)

    def _fold(self, operation: str, conditions: Sequence[Value]) -> Value:
        made = conditions[0]
        for condition in conditions[1:]:
            made = self.here.op(operation, made, condition)
        return made

    def negate(self, condition: Value) -> Value:
        return self.here.op("not", condition)

    def select(self, condition: Value, then: Number, otherwise: Number) -> Value:
        return self.here.select(condition, *self.pair(then, otherwise))

    def smaller(self, a: Number, b: Number) -> Value:
        return self.here.op("min", *self.pair(a, b))

    def larger(self, a: Number, b: Number) -> Value:
        return self.here.op("max", *self.pair(a, b))

    def cast(self, value: Value, to: str) -> Value:
        """To a type that holds every number of the value's own, or to a float; else the bits wrap. `narrow` is the checked one."""
        return self.here.cast(value, to)

    def narrow(self, value: Value, to: str) -> Value:
        """The same number in an int type; a float is cut toward zero."""
        site = self.site("0806", f"{{0}} doesn't fit {to}")
        return self.here.emit(Narrow(value=value, to=to, site=site)).result

    def quotient(self, a: Number, b: Number, rounding: str) -> Value:
        """a / b made whole: `toward_zero nearest_even floor ceil away`."""
        if not isinstance(a, Value):
            a, b = self.pair(a, b)
        b = self.number(b, {"i128": "i64", "u128": "u64"}.get(dtype_of(a), dtype_of(a)))
        site = self.site("0806", f"{{0}} / {{1}} has no value in {dtype_of(a)}")
        return self.here.emit(Quotient(left=a, right=b, rounding=rounding, site=site)).result

    def muldiv(self, a: Number, b: Number, c: Number, rounding: str) -> Value:
        """a * b / c in the type of a, through 128 bits: only the result must fit."""
        x, y = self.pair(a, b)
        dtype = dtype_of(x)
        z = self.number(c, dtype)
        wide = "i128" if is_signed(dtype) else "u128"
        words = {"code": "0806", "message": f"{{0}} * {{1}} / {{2}} has no value in {dtype}"}
        self.require(self.ne(z, 0), x, y, z, **words)
        product = self.wrapping("mul", self.cast(x, wide), self.cast(y, wide))
        divisor = self.cast(z, wide.replace("128", "64"))
        whole = self.here.emit(Quotient(left=product, right=divisor, rounding=rounding, site=-1)).result
        low, high = limits(dtype)
        fits = self.le(whole, high)
        self.require(self.both(fits, self.ge(whole, low)) if low else fits, x, y, z, **words)
        return self.cast(whole, dtype)

    # ---- memory ----

    def local(self, type: HirType) -> Value:
        """Memory of this call, all zero."""
        return self.here.emit(Local(type=Pointer(type))).result

    def at(self, base: Value, *path: Part, proved: bool = False) -> Value:
        """The address of a part: names are fields, values and numbers indices, which are checked unless they are `proved` inside."""
        for part in path:
            if isinstance(part, str):
                base = self.here.emit(Member(field_=part, pointer=base)).result
                continue
            site = -1 if proved else self.site("0801", "index {0} in an array of {1}")
            base = self.here.emit(Element(pointer=base, at=self.number(part, "i64"), site=site)).result
        return base

    def row(self, base: Value, index: Number, count: Number, proved: bool = False) -> Value:
        """The address of an element of an open array that has `count` of them."""
        site = -1 if proved else self.site("0801", "index {0} in an array of {1}")
        held = {"pointer": base, "at": self.number(index, "i64"), "count": self.number(count, "i64")}
        return self.here.emit(Element(**held, site=site)).result

    def get(self, base: Value, *path: Part, proved: bool = False) -> Value:
        """The number there."""
        return self.here.emit(Read(pointer=self.at(base, *path, proved=proved))).result

    def put(self, base: Value, *path_and_value: Part | Number, proved: bool = False) -> None:
        """Write a number: `b.put(p, "levels", i, "price", x)`."""
        *path, value = path_and_value
        place = self.at(base, *path, proved=proved)  # type: ignore[arg-type]
        type = pointee(place)
        assert isinstance(type, Tile), f"{type} is no number"
        assert not isinstance(value, str)
        self.here.emit(Write(pointer=place, value=self.number(value, type.dtype)))

    def copy(self, to: Value, source: Value) -> None:
        self.here.emit(Copy(to=to, from_=source))

    def clear(self, place: Value) -> None:
        self.here.emit(Clear(pointer=place))

    # ---- variables ----

    def variable(self, initial: Value) -> NativeVariable:
        return NativeVariable(self.here.slot(initial), dtype_of(initial))

    def now(self, variable: NativeVariable) -> Value:
        return self.here.get(variable.slot)

    def set(self, variable: NativeVariable, value: Number) -> None:
        self.here.set(variable.slot, self.number(value, variable.dtype))

    # ---- control ----

    @contextmanager
    def _inside(self, region: Region) -> Iterator[None]:
        before = self.here
        self.here = before.child(region)
        yield
        self.here = before

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What runs only where the condition holds."""
        op = If(condition=condition)
        with self._inside(op.then):
            yield
        self.here.emit(op)

    @contextmanager
    def choice(self, condition: Value) -> "Iterator[OpenBranches]":
        """`with b.choice(c) as c: with c.then(): ... ; with c.otherwise(): ...`."""
        op = If(condition=condition, otherwise=Region())
        yield OpenBranches(self, op)
        self.here.emit(op)

    @contextmanager
    def loop(self, low: Number, high: Number, step: int = 1) -> Iterator[Value]:
        """`for i in low..high`; gives i as an i64."""
        with self.here.loop("i", self._index(low), self._index(high), step) as (inner, handle):
            before, self.here = self.here, inner
            yield self.cast(handle.variable, "i64")
            self.here = before

    def _index(self, end: Number) -> Affine:
        if isinstance(end, Value):
            return Affine.of(self.cast(end, "index").name)
        return Affine.of(int(end))

    @contextmanager
    def repeat(self) -> Iterator[None]:
        """A loop without a bound, left by `leave`."""
        with self.here.repeat() as (before, inner):
            before.condition(before.const(True, "i1"))
            outer, self.here = self.here, inner
            yield
            self.here = outer

    def leave(self) -> None:
        """`break`."""
        self.here.break_()

    def again(self) -> None:
        """`continue`."""
        self.here.continue_()

    def give(self, *values: Number) -> None:
        """`return`."""
        types = self.function.results
        assert len(values) == len(types), f"{len(values)} values returned for {len(types)}"
        made = tuple(self.number(v, t.dtype) for v, t in zip(values, types, strict=True) if isinstance(t, Tile))
        self.here.emit(Return(values=made))

    def call(self, name: str, *arguments: Number) -> list[Value]:
        """The results of a function of the program."""
        target = self.program.module.functions[name]
        return self.here.emit(Call(function=name, arguments=self._arguments(target, arguments), types=target.results)).results

    def attempt(self, name: str, *arguments: Number) -> Value:
        """Call a function that gives nothing, of the program or imported; whether it failed (i1). What went wrong stays in the record of
        failures, and this function goes on. What the function wrote until then stays written."""
        target = self.program.module.functions[name]
        return self.here.emit(Attempt(function=name, arguments=self._arguments(target, arguments))).result

    def _arguments(self, target: HirFunction, arguments: Sequence[Number]) -> tuple[Value, ...]:
        made = [self.number(a, p.type.dtype) if isinstance(p.type, Tile) else a for a, p in zip(arguments, target.parameters, strict=True)]
        assert all(isinstance(a, Value) for a in made), f"a number for a pointer of @{target.name}"
        return tuple(made)  # type: ignore[arg-type]

    def cycles(self) -> Value:
        """The processor's counter of cycles (i64); only differences mean something."""
        return self.here.emit(Cycles()).result

    # ---- failures ----

    def require(self, condition: Value, *values: Value, code: str, message: str, label: str = "", hint: str | None = None) -> None:
        """Stop where the condition doesn't hold."""
        self.here.check(condition, *values, code=code, site=self.site(code, message, label, hint))


def _ends(region: Region) -> bool:
    """Whether nothing behind a region is reached: it leaves, or all branches of an `if` at its end do."""
    last = region.body[-1] if region.body else None
    if isinstance(last, If):
        return last.otherwise is not None and _ends(last.then) and _ends(last.otherwise)
    return isinstance(last, Return | Break | Continue)


class OpenBranches:
    """The two branches of an `if` being written."""

    def __init__(self, body: FunctionCode, op: If) -> None:
        self.body, self.op = body, op

    @contextmanager
    def then(self) -> Iterator[None]:
        with self.body._inside(self.op.then):
            yield

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        assert self.op.otherwise is not None
        with self.body._inside(self.op.otherwise):
            yield
