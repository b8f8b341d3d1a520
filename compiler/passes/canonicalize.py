"""Algebra that is exact for the dtype: a table of rules, and branches whose condition is known. No rule changes a bit of any result:
floats keep their signed zeros, infinities and NaNs, so that x + 0.0 stays where x - 0.0 goes."""

from collections.abc import Sequence

from compiler.analysis.accesses import affine_value
from compiler.hir import numbers
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import If, Yield
from compiler.hir.core import Binary, Cast, Compare, Const, InBounds, Index, Select, Unary, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES, FLOATS, SIGNED, Tile, is_float
from compiler.passes.ranges import range_of_form
from compiler.passes.rewrite import Rewriting, rule
from runtime.records import define, field


def canonicalize(function: HirFunction) -> HirFunction:
    """The function with every rule of `RULES` applied."""
    return Canonicalizing(function, RULES).run()


def constant(value: Value) -> int | float | bool | None:
    """The number, when the value is one."""
    op = value.source
    if isinstance(op, Const):
        return op.value
    if isinstance(op, Index):
        return op.of.value
    return None


def _is(value: Value, number: int | float) -> bool:
    """The constant of just this sign and value."""
    known = constant(value)
    if known is None or known != number:
        return False
    return not is_float(dtype_of(value)) or str(float(known)) == str(float(number))


def _const(into: Builder, number: int | float | bool, like: Value) -> Value:
    assert isinstance(like.type, Tile)
    return into.const(number, like.type)


@rule(Binary)
def fold_constants(op: Binary, into: Builder) -> Value | None:
    "two numbers  =>  the number that the interpreter gives"
    a, b = constant(op.left), constant(op.right)
    if a is None or b is None or op.left.type != op.right.type:
        return None
    dtype = dtype_of(op.left)
    if dtype == "index" and op.operator in ("add", "sub", "mul"):
        return None  # `fold_indices` makes an index of it
    if is_float(dtype):
        folded = _float_result(op.operator, float(a), float(b))
        return None if folded is None else _const(into, numbers.ROUND[dtype](folded), op.left)
    result = _int_result(op.operator, int(a), int(b), dtype)
    return None if result is None else _const(into, numbers.wrap(result, dtype), op.left)


def _float_result(operator: str, a: float, b: float) -> float | None:
    match operator:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return numbers.divide(a, b)
        case "min":
            return numbers.smaller(a, b)
        case "max":
            return numbers.larger(a, b)
        case _:
            return None


def _int_result(operator: str, a: int, b: int, dtype: str) -> int | None:
    match operator:
        case "add":
            return a ^ b if dtype == "i1" else a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case _:
            return None


@rule(Binary)
def fold_indices(op: Binary, into: Builder) -> Value | None:
    "index arithmetic that is affine  =>  one `index`"
    if dtype_of(op.left) != "index" or op.operator not in ("add", "sub", "mul"):
        return None
    a, b = affine_value(op.left), affine_value(op.right)
    if a is None or b is None:
        return None
    if op.operator == "mul":
        if a.value is None and b.value is None:
            return None
        return into.index(b * a.value if a.value is not None else a * (b.value or 0))
    return into.index(a + b if op.operator == "add" else a - b)


@rule(Binary)
def neutral_on_the_right(op: Binary, into: Builder) -> Value | None:
    "x + 0 (ints), x - 0, x * 1, x / 1, x | 0, x ^ 0, x << 0, x >> 0  =>  x"
    floating = is_float(dtype_of(op.left))
    neutral: dict[str, float] = {"sub": 0, "mul": 1, "div": 1} if floating else {
        "add": 0, "sub": 0, "mul": 1, "div": 1, "or": 0, "xor": 0, "shl": 0, "shr": 0
    }  # fmt: skip
    if floating:
        neutral["add"] = -0.0  # x + 0.0 turns -0.0 into 0.0, x + -0.0 turns nothing
    if op.operator in neutral and _is(op.right, neutral[op.operator]):
        return op.left
    return None


@rule(Binary)
def constants_go_right(op: Binary, into: Builder) -> Value | None:
    "3 * x  =>  x * 3, for what commutes exactly"
    commutes = op.operator in ("add", "mul", "and", "or", "xor")
    if commutes and constant(op.left) is not None and constant(op.right) is None:
        return neutral_on_the_right.replace(Binary(operator=op.operator, left=op.right, right=op.left), into) or into.op(
            op.operator, op.right, op.left, flags=op.flags
        )
    return None


@rule(Binary)
def vanishing_ints(op: Binary, into: Builder) -> Value | None:
    "x * 0, x & 0, x - x, x ^ x  =>  0 (ints)"
    if is_float(dtype_of(op.left)):
        return None
    if (op.operator in ("mul", "and") and _is(op.right, 0)) or (op.operator in ("sub", "xor") and op.left is op.right):
        return _const(into, numbers.wrap(0, dtype_of(op.left)), op.left)
    return None


@rule(Binary)
def same_on_both_sides(op: Binary, into: Builder) -> Value | None:
    "min(x, x), max(x, x), x & x, x | x  =>  x"
    return op.left if op.left is op.right and op.operator in ("min", "max", "and", "or") else None


@rule(Binary)
def known_truth(op: Binary, into: Builder) -> Value | None:
    "p and true, p or false  =>  p;  p and false  =>  false;  p or true  =>  true"
    if dtype_of(op.left) != "i1" or op.operator not in ("and", "or"):
        return None
    for value, other in ((op.left, op.right), (op.right, op.left)):
        known = constant(value)
        if known is not None:
            return other if bool(known) == (op.operator == "and") else _const(into, bool(known), other)
    return None


@rule(Unary)
def twice_undone(op: Unary, into: Builder) -> Value | None:
    "-(-x), not not x  =>  x;  abs(abs x)  =>  abs x;  abs(-x)  =>  abs x (floats)"
    inner = op.value.source
    if not isinstance(inner, Unary):
        return None
    if op.operator in ("neg", "not") and inner.operator == op.operator:
        return inner.value
    if op.operator == "abs" and inner.operator == "abs":
        return op.value
    if op.operator == "abs" and inner.operator == "neg" and is_float(dtype_of(op.value)):
        return into.op("abs", inner.value)
    return None


@rule(Unary)
def fold_negation(op: Unary, into: Builder) -> Value | None:
    "the negative, or the opposite, of a number"
    known = constant(op.value)
    if known is None:
        return None
    dtype = dtype_of(op.value)
    if op.operator == "neg":
        return _const(into, -float(known) if is_float(dtype) else numbers.wrap(-int(known), dtype), op.value)
    if op.operator == "not" and dtype == "i1":
        return _const(into, not known, op.value)
    return None


@rule(Compare)
def fold_comparisons(op: Compare, into: Builder) -> Value | None:
    "affine forms a constant apart, or two numbers  =>  true or false"
    a, b = affine_value(op.left), affine_value(op.right)
    if a is not None and b is not None:
        distance: float | None = (a - b).value
    else:
        x, y = constant(op.left), constant(op.right)
        if x is None or y is None:
            return None
        if x != x or y != y:
            return into.const(op.operator == "ne", Tile("i1"))
        distance = 0 if x == y else -1 if x < y else 1
    if distance is None:
        return None
    holds = {
        "eq": distance == 0, "ne": distance != 0, "lt": distance < 0, "le": distance <= 0, "gt": distance > 0, "ge": distance >= 0,
    }  # fmt: skip
    return into.const(holds[op.operator], Tile("i1"))


@rule(InBounds)
def fold_inbounds(op: InBounds, into: Builder) -> Value | None:
    "a constant index in a constant extent"
    if op.of.value is None:
        return None
    if op.of.value < 0:
        return into.const(False, Tile("i1"))
    return None if op.below.value is None else into.const(op.of.value < op.below.value, Tile("i1"))


@rule(Select)
def known_choice(op: Select, into: Builder) -> Value | None:
    "p ? x : x  =>  x;  true ? x : y  =>  x;  (not p) ? x : y  =>  p ? y : x"
    if op.then is op.otherwise:
        return op.then
    known = constant(op.condition)
    if known is not None:
        return op.then if known else op.otherwise
    inner = op.condition.source
    if isinstance(inner, Unary) and inner.operator == "not":
        return into.select(inner.value, op.otherwise, op.then)
    return None


@rule(Cast)
def casts(op: Cast, into: Builder) -> Value | None:
    "x as its own type  =>  x;  there and back through a wider type  =>  x;  a number as a type  =>  the number"
    if dtype_of(op.value) == op.to:
        return op.value
    inner = op.value.source
    if isinstance(inner, Cast) and dtype_of(inner.value) == op.to and _holds(dtype_of(inner.value), inner.to):
        return inner.value
    known = constant(op.value)
    if known is not None and isinstance(op.value.type, Tile):
        return into.const(numbers.convert(known, dtype_of(op.value), op.to), Tile(op.to, op.value.type.axes))
    return None


def _holds(dtype: str, wider: str) -> bool:
    """Every number of `dtype` is one of `wider`."""
    if is_float(dtype):
        return wider in FLOATS and FLOATS[wider] > FLOATS[dtype] and not dtype.startswith("f8")
    if is_float(wider):
        return DTYPES[dtype] <= {"f64": 32, "f32": 16, "f16": 8, "bf16": 8}.get(wider, 0)
    if dtype in SIGNED:
        return wider in SIGNED and DTYPES[wider] > DTYPES[dtype]
    return DTYPES[wider] > DTYPES[dtype]


RULES = (
    fold_constants,
    fold_indices,
    neutral_on_the_right,
    vanishing_ints,
    same_on_both_sides,
    known_truth,
    constants_go_right,
    twice_undone,
    fold_negation,
    fold_comparisons,
    fold_inbounds,
    known_choice,
    casts,
)


@define(eq=False)
class Canonicalizing(Rewriting):
    """Rules, and structure: a branch whose condition is known is its taken side; a check that holds is none."""

    defined: dict[str, Value] = field(factory=dict, init=False)

    def bind(self, old: Value, new: Value) -> None:
        super().bind(old, new)
        self.defined[new.name] = new

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, InBounds) and op.below.value is not None:
            bounds = range_of_form(self.form(op.of), self.defined)
            if bounds is not None and bounds[0] >= 0 and bounds[1] < op.below.value:
                return [into.const(True, Tile("i1"))]
        if isinstance(op, Check) and constant(self.values[op.condition]):
            return []
        if isinstance(op, If):
            known = constant(self.values[op.condition])
            if known is not None:
                return self.side(op, bool(known), into)
        if isinstance(op, Cast) and (choice := self.numbers_chosen(self.values[op.value])) is not None:
            condition, sides = choice
            return [into.select(condition, *(into.const(numbers.convert(side, dtype, op.to), Tile(op.to)) for side, dtype in sides))]
        return super().instruction(op, into)

    def numbers_chosen(self, value: Value) -> tuple[Value, list[tuple[float | int | bool, str]]] | None:
        """The condition and the numbers with their types of the choice that a value is, by itself or as an index: whoever casts it
        chooses between the numbers cast."""
        source = value.source
        if isinstance(source, Index) and len(source.of.terms) == 1 and source.of == Affine.of(name := source.of.names[0]):
            source = self.defined[name].source if name in self.defined else None
        if not isinstance(source, Select) or (isinstance(value.type, Tile) and value.type.axes):
            return None
        sides = [(number, dtype_of(side)) for side in (source.then, source.otherwise) if (number := constant(side)) is not None]
        return (source.condition, sides) if len(sides) == 2 else None

    def side(self, op: If, holds: bool, into: Builder) -> Sequence[Value]:
        taken = op.then if holds else op.otherwise
        if taken is None:
            return []
        given: list[Value] = []
        for inner in taken.body:
            into.span = inner.span
            if isinstance(inner, Yield):
                given = [self.values[value] for value in inner.values]
                continue
            for old, new in zip(inner.results, self.instruction(inner, into), strict=True):
                self.bind(old, new)
        return given
