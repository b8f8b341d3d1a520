"""What an expression of a kernel body is while it is lowered: a number (an HIR value, an affine form, or a literal, whichever is
known), a tuple of such, or a tensor. Types of numbers and their conversions; no reading of the tree."""

from collections.abc import Mapping

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.lowering.dtypes import hir_name, join, wrapped
from compiler.typed_ast.types import DType
from runtime.records import frozen


@frozen(eq=False)
class Number:
    """`weak`: takes the other operand's type. `form`: equals this affine form, exactly. `origin`: the join of the dtypes of the tensor
    elements that reach it (None: none does), which is what `out` takes its dtype from. `factors`: names of sizes and ints of the launch
    whose values would give it a form (`g * O + o`)."""

    dtype: DType
    value: Value | None = None
    form: Affine | None = None
    literal: int | float | bool | None = None
    weak: bool = False
    origin: DType | None = None
    factors: frozenset[str] = frozenset()

    @property
    def constant(self) -> int | None:
        """The int, when it is known now."""
        if isinstance(self.literal, int):
            return int(self.literal)
        return self.form.value if self.form is not None else None

    @property
    def shown(self) -> str:
        return self.dtype.value


@frozen(eq=False)
class Tuple:
    """`counts`: where a number is needed, its first element stands for it (`thread_idx()`)."""

    elements: "tuple[Operand, ...]"
    counts: bool = False


@frozen(eq=False)
class Record:
    """A struct's value: the name of its type, and its fields."""

    name: str
    fields: "Mapping[str, Operand]"


@frozen(eq=False)
class Choice:
    """An enum's, optional's or result's value. `cases` are all by name, `tag` counts them; `parts`: those of each case, of one that the
    value isn't any numbers. A case that is missing there has parts of which nothing is known."""

    name: str
    cases: tuple[str, ...]
    tag: Number
    parts: "Mapping[str, Mapping[str, Operand]]"


@frozen(eq=False)
class TensorOperand:
    """A tensor by the name under which the body knows it; `whole` holds the loops of a whole-tensor line."""

    name: str


@frozen(eq=False)
class Nothing:
    """The value of what has none: a statement block, a call for its effect."""


Operand = Number | Tuple | Record | Choice | TensorOperand | Nothing


def integer(value: int) -> Number:
    return Number(DType.I64, form=Affine((), value), literal=value, weak=True)


def affine(form: Affine) -> Number:
    """A weak int: a size, a loop variable, a sum of them."""
    return integer(form.value) if form.value is not None else Number(DType.I64, form=form, weak=True)


def literal(value: int | float | bool, dtype: DType | None = None) -> Number:
    """A literal; weak unless it has a type of its own."""
    if isinstance(value, bool):
        return Number(DType.BOOL, literal=value)
    if dtype is None:
        return integer(value) if isinstance(value, int) else Number(DType.F64, literal=value, weak=True)
    if isinstance(value, int) and dtype.is_int:
        return Number(dtype, form=Affine((), wrapped(value, dtype)), literal=wrapped(value, dtype), origin=dtype)
    return Number(dtype, literal=value, origin=dtype)


def typed(value: Value, dtype: DType, origin: DType | None, weak: bool = False) -> Number:
    return Number(dtype, value=value, origin=origin, weak=weak)


def meet(*numbers: Number) -> tuple[DType, bool, DType | None]:
    """The dtype in which numbers meet, whether that is still weak, and the origin of what they make."""
    strong = [number.dtype for number in numbers if not number.weak]
    weak = [number.dtype for number in numbers if number.weak]
    if not strong:
        dtype = weak[0]
        for other in weak[1:]:
            dtype = join(dtype, other)
        return dtype, True, origin_of(dtype, *numbers)
    dtype = strong[0]
    for other in strong[1:]:
        dtype = join(dtype, other)
    if DType.F64 in weak and not dtype.is_float:
        dtype = DType.F64
    elif weak and dtype is DType.BOOL:
        dtype = DType.I64
    return dtype, False, origin_of(dtype, *numbers)


def origin_of(dtype: DType, *numbers: Number) -> DType | None:
    """The join of the numbers' origins, as far as it is of the same class as the type they meet in."""
    origin: DType | None = None
    for number in numbers:
        if number.origin is not None:
            origin = number.origin if origin is None else join(origin, number.origin)
    if origin is not None and ((dtype.is_float and not origin.is_float) or (origin is DType.BOOL and dtype is not DType.BOOL)):
        return dtype
    return origin


def value_of(build: Builder, number: Number, dtype: DType | None = None) -> Value:
    """The number as an HIR value of the dtype (its own by default), built where `build` stands."""
    target = dtype or number.dtype
    name = hir_name(target)
    if number.literal is not None and number.value is None:
        if target.is_float:
            return build.const(_as_float(number.literal), name)
        if target is DType.BOOL:
            return build.const(bool(number.literal), name)
        whole = int(number.literal) if number.literal == number.literal and abs(number.literal) != float("inf") else 0
        return build.const(wrapped(whole, target), name)
    if number.value is not None:
        return _converted(build, number.value, number.dtype, target)
    assert number.form is not None
    if number.form.value is not None:
        return value_of(build, literal(number.form.value), target)
    position = build.index(number.form)
    if target is DType.BOOL:
        return build.op("ne", position, build.const(0, "index"))
    return build.cast(position, name)


def index_value(build: Builder, number: Number) -> Value:
    """An int as a value of type `index`."""
    if number.form is not None:
        return build.const(number.form.value, "index") if number.form.value is not None else build.index(number.form)
    return build.cast(value_of(build, number), "index")


def _as_float(value: int | float | bool) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _converted(build: Builder, value: Value, source: DType, target: DType) -> Value:
    if source is target:
        return value
    if source is DType.BOOL and target.is_float:
        return build.cast(build.cast(value, "i32"), hir_name(target))
    return build.cast(value, hir_name(target))
