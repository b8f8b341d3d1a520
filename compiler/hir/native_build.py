"""Writes native functions: one `FunctionCode` a function. Numbers and memory have operators (`expressions.py`); blocks, calls and returns
are written here.

    program = ModuleBuilder("account")
    with program.function("buy", {"account": Pointer(ACCOUNT), "lots": I64, "price": I64}, results=[I64]) as b:
        account, lots, price = b.parameters
        with b.when(account.cash < lots * price):
            b.ret(-1)
        account.cash -= lots * price
        b.ret(account.cash)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import Attempt, Break, Call, Continue, If, Return
from compiler.hir.host import Cycles
from compiler.hir.instruction import Region, Value
from compiler.hir.module import HirExecutionConstraints, HirFunction, HirModule, Linkage
from compiler.hir.native_expressions import Expr, InstructionWriter, Number, Record
from compiler.hir.types import HirType, Tile
from compiler.source import Span


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
        body = FunctionCode(self, builder)
        with body.place(span):
            yield body
        if not body.ended:
            assert not function.results, f"@{name} ends without a result"
            body.ret()
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
        self,
        name: str,
        parameters: Mapping[str, HirType],
        results: Sequence[HirType] = (),
        effects: str | Sequence[str] | None = None,
        attributes: Sequence[str] = (),
    ) -> None:
        """Declare a function of C. `effects`: "none", or of "alloc" and "io"; None: not said. `attributes`: "nobuiltin" says that a
        call is a call, whatever the compiler knows of the function."""
        builder = FunctionBuilder(name)
        for label, type in parameters.items():
            builder.parameter(label, type)
        made = builder.function
        made.results, made.linkage, made.link_name = tuple(results), Linkage.EXTERNAL, name
        said = [effects] if isinstance(effects, str) else effects or []
        made.attributes = (*attributes, *(f"effects.{effect}" for effect in said))
        self.module.add(made)

    def imported(
        self, name: str, parameters: Mapping[str, HirType], results: Sequence[HirType] = (), *, attributes: Sequence[str] = ("noalias",)
    ) -> None:
        """Declare an exported function of another module, found when both are linked. Its pointers may point to other types there."""
        self.declare(name, parameters, results, attributes=attributes)
        self._declared.pop(name).function.linkage = Linkage.IMPORTED

    def has(self, name: str) -> bool:
        return name in self.module.functions


class FunctionCode(InstructionWriter):
    """One function being written."""

    def __init__(self, program: ModuleBuilder, builder: FunctionBuilder) -> None:
        super().__init__(builder.body)
        self.program, self.builder = program, builder

    @property
    def parameters(self) -> list[Record]:
        return [self.of(parameter) for parameter in self.function.parameters]

    @property
    def function(self) -> HirFunction:
        return self.builder.function

    @property
    def ended(self) -> bool:
        """Whether nothing behind `here` is reached."""
        return _ends(self.here.region)

    @contextmanager
    def place(self, span: Span | None) -> Iterator[None]:
        """What is written inside comes from there."""
        with self.here.at(span):
            yield

    # ---- blocks ----

    @contextmanager
    def when(self, condition: Expr, likely: bool | None = None) -> Iterator[None]:
        """What runs only where the condition holds; `likely`: whether it nearly always does, or doesn't."""
        op = If(condition=condition.hir, likely=likely)
        with self.here.inside(op.then):
            yield
        self.here.emit(op)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What runs where the condition of the `when` just before doesn't hold."""
        op = self.here.region.body[-1] if self.here.region.body else None
        assert isinstance(op, If) and op.otherwise is None, "no `when` stands before"
        op.otherwise = Region()
        with self.here.inside(op.otherwise):
            yield

    @contextmanager
    def loop(self, low: Number, high: Number, step: int = 1) -> Iterator[Expr]:
        """`for i in low..high`; gives i as an i64."""
        with self.here.loop("i", self._index(low), self._index(high), step) as (inner, handle), self.here.inside(inner.region):
            yield self.of(handle.variable).cast("i64")

    def _index(self, end: Number) -> Affine:
        if isinstance(end, Expr):
            return Affine.of(end.cast("index").hir.name)
        return Affine.of(int(end))

    @contextmanager
    def repeat(self) -> Iterator[None]:
        """A loop without a bound, left by `break_`."""
        with self.here.repeat() as (before, inner), self.here.inside(inner.region):
            before.condition(before.const(True, "i1"))
            yield

    def break_(self) -> None:
        """`break`."""
        self.here.break_()

    def continue_(self) -> None:
        """`continue`."""
        self.here.continue_()

    def ret(self, *values: Number) -> None:
        """`return`."""
        types = self.function.results
        assert len(values) == len(types), f"{len(values)} values returned for {len(types)}"
        made = tuple(self.number(v, t.dtype).hir for v, t in zip(values, types, strict=True) if isinstance(t, Tile))
        self.here.emit(Return(values=made))

    def call(self, name: str, *arguments: Number) -> list[Expr]:
        """The results of a function of the program."""
        target = self.program.module.functions[name]
        call = self.here.emit(Call(function=name, arguments=self._arguments(target, arguments), types=target.results))
        return [Expr(self, result) for result in call.results]

    def attempt(self, name: str, *arguments: Number) -> Expr:
        """Call a function that gives nothing, of the program or imported; whether it failed (i1). What went wrong stays in the record of
        failures, and this function goes on. What the function wrote until then stays written."""
        target = self.program.module.functions[name]
        return self.emit(Attempt(function=name, arguments=self._arguments(target, arguments)))

    def _arguments(self, target: HirFunction, arguments: Sequence[Number]) -> tuple[Value, ...]:
        made: list[Value] = []
        for argument, parameter in zip(arguments, target.parameters, strict=True):
            if isinstance(parameter.type, Tile):
                argument = self.number(argument, parameter.type.dtype)
            assert isinstance(argument, Expr), f"a number for a pointer of @{target.name}"
            made.append(argument.hir)
        return tuple(made)

    def cycles(self) -> Expr:
        """The processor's counter of cycles (i64); only differences mean something."""
        return self.emit(Cycles())


def _ends(region: Region) -> bool:
    """Whether nothing behind a region is reached: it leaves, or all branches of an `if` at its end do."""
    last = region.body[-1] if region.body else None
    if isinstance(last, If):
        return last.otherwise is not None and _ends(last.then) and _ends(last.otherwise)
    return isinstance(last, Return | Break | Continue)
