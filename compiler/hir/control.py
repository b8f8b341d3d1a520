"""Structured control flow. There is no other: a control-flow graph appears only in LLVM."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Region,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
    optional_region,
    region,
)
from compiler.hir.types import I1, HirType


def _pairs(marks: object) -> tuple[tuple[str, object], ...]:
    items = marks.items() if isinstance(marks, dict) else marks
    return tuple(sorted(items))  # type: ignore[call-overload]


MOST_UNROLLED = 64
"""Turns of a loop that are written out, at most: more code than that no instruction cache likes."""

LOOP_MARKS = ("serial", "parallel", "unroll", "vectorize")
"""Marks of a loop that are a program's annotations; a number, or true."""


@instruction("for", InstructionFamily.CONTROL, Effect.CONTROL)
class For(Instruction):
    """`%r = for i in lo..hi step s carry(%c = %init) place=thread unroll=4 { ... yield %next }`.

    Runs i = lo, lo + step, ... while below `hi` (above it when the step is negative). The region's first parameter is the loop
    variable, of type `index`; the others are the carried values. `place` binds the loop: "time" (plain), "thread", "simd",
    "grid", "warp", "lane", ...; a place other than time asserts that the iterations are independent (up to what is carried by a
    monoid). `marks` are hints for later passes (`pipeline unroll order roles turns`); `written` is the program's
    name of a variable that had to get another one here."""

    carried: tuple[Value, ...] = operands()
    body: Region = region()
    low: Affine = attribute(converter=Affine.of)
    high: Affine = attribute(converter=Affine.of)
    step: int = attribute(1)
    place: str = attribute("time")
    marks: tuple[tuple[str, object], ...] = attribute((), _pairs)

    @property
    def variable(self) -> Value:
        return self.body.parameters[0]

    def mark(self, name: str, default: object = None) -> object:
        return dict(self.marks).get(name, default)

    @property
    def unrolled(self) -> int | None:
        """Turns of the loop that are to be written out, 0: all of them; None: nothing is said, or it can't be."""
        turns = self.mark("unroll")
        if turns is True:
            return 0 if (self.high - self.low).value is not None else None
        return turns if isinstance(turns, int) and turns <= MOST_UNROLLED else None

    @property
    def written(self) -> str:
        """The variable's name in the program."""
        return str(self.mark("written", self.variable.name))

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [value.type for value in self.carried]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.step == 0:
            yield "a step of 0"
        if len(self.body.parameters) != 1 + len(self.carried):
            yield "carried values and the region's parameters differ in number"
        yield from _ends_with_yield(self.body, [value.type for value in self.carried])


@instruction("if", InstructionFamily.CONTROL, Effect.CONTROL)
class If(Instruction):
    """`%r = if %condition { ... yield %a } else { ... yield %b }`; `else` may be missing when there are no results. `if %condition likely`
    and `if %condition unlikely` say how the condition nearly always is."""

    condition: Value = operand()
    then: Region = region()
    otherwise: Region | None = optional_region()
    types: tuple[HirType, ...] = attribute((), tuple)
    likely: bool | None = attribute(None)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return list(self.types)

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.types and self.otherwise is None:
            yield "results without an else"
        for branch in (self.then, self.otherwise):
            if branch is not None:
                yield from _ends_with_yield(branch, list(self.types))


@instruction("while", InstructionFamily.CONTROL, Effect.CONTROL)
class While(Instruction):
    """`%r = while carry(%c = %init) { ... condition %go } do { ... yield %next }`: `before` computes the condition and ends with
    `condition`; `body` runs while it holds. Both regions see the carried values as parameters of `before`; `body` has its own."""

    carried: tuple[Value, ...] = operands()
    before: Region = region()
    body: Region = region()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [value.type for value in self.carried]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not self.before.body or not isinstance(self.before.body[-1], Condition):
            yield "the first region doesn't end with `condition`"
        yield from _ends_with_yield(self.body, [value.type for value in self.carried])


@instruction("condition", InstructionFamily.CONTROL, Effect.CONTROL)
class Condition(Instruction):
    """Ends the first region of a `while`: go on when the value (i1) holds."""

    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("yield", InstructionFamily.CONTROL, Effect.CONTROL)
class Yield(Instruction):
    """Ends a region and gives the values it carries or results in. A region that gives none may leave it out."""

    values: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("break", InstructionFamily.CONTROL, Effect.CONTROL)
class Break(Instruction):
    """Leaves the innermost `for` or `while`. Form A only, in a loop that carries nothing; last in its region."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("continue", InstructionFamily.CONTROL, Effect.CONTROL)
class Continue(Instruction):
    """Goes on with the next iteration of the innermost loop. Form A only, in a loop that carries nothing; last in its region."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("return", InstructionFamily.CONTROL, Effect.CONTROL)
class Return(Instruction):
    """`return %a, %b`: leaves the function, which gives these values."""

    values: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("call", InstructionFamily.CONTROL, Effect.CONTROL)
class Call(Instruction):
    """`%r = call @f(%a, %b) : f32`: a function of the module, or of the host when it is declared external."""

    function: str = attribute()
    arguments: tuple[Value, ...] = operands()
    types: tuple[HirType, ...] = attribute((), tuple)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return list(self.types)


@instruction("attempt", InstructionFamily.CONTROL, Effect.CONTROL)
class Attempt(Call):
    """`%failed = attempt @f(%a, %b)`: calls a function without results and tells whether it failed. What went wrong stays in the record of
    failures, and this function goes on."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [I1]


def _ends_with_yield(branch: Region, types: list[HirType]) -> Iterator[str]:
    last = branch.body[-1] if branch.body else None
    if not types:
        return
    if not isinstance(last, Yield):
        yield "a region that gives values doesn't end with `yield`"
    elif [value.type for value in last.values] != types:
        yield f"yields {', '.join(str(v.type) for v in last.values)} where {', '.join(map(str, types))} is carried"
