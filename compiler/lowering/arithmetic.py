"""Operators on numbers: affine where both sides are, values else. The tree isn't read here; `node` gives only places and words."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.module import FaultSite
from compiler.lowering.body import Body, fault
from compiler.lowering.dtypes import accumulator, hir_name, widened
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import Number, affine, index_value, integer, literal, meet, typed, value_of
from compiler.lowering.ranges import NumberRange, extreme, reached
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from runtime.records import evolve

_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_CONTRACT = ("contract",)
_ACCUMULATE = ("reassoc", "contract")


def accumulating(body: Body, operator: str, dtype: DType) -> tuple[str, ...]:
    """The liberties of an operation that accumulates, by the operator's name in the HIR."""
    return _ACCUMULATE if dtype.is_float and operator in ("add", "mul") and not body.kernel.strict else ()


def in_sum(body: Body, number: Number, into: DType | None) -> Number:
    """The number in the type of the sum that it goes into; itself where it goes into none, or none that is wider."""
    if into is None or number.weak or number.value is None:
        return number
    wide = widened(number.dtype, into)
    return number if wide is number.dtype else typed(body.build.cast(number.value, hir_name(wide)), wide, number.origin)


def kept_in(body: Body, dtype: DType, usual: Callable[[DType], DType] = accumulator) -> DType:
    """The type of a sum: what `@precision(acc=)` says for floats or for ints, else the usual one."""
    given = body.kernel.hints.accumulator
    return DType(given) if given is not None and DType(given).is_float == dtype.is_float else usual(dtype)


def negate(body: Body, number: Number) -> Number:
    if number.literal is not None and number.dtype is not DType.BOOL:
        return literal(-number.literal, None if number.weak else number.dtype)
    if number.form is not None and number.dtype is DType.I64:
        return Number(DType.I64, form=-number.form, weak=number.weak, origin=number.origin)
    dtype = DType.I64 if number.dtype is DType.BOOL else number.dtype
    negated = typed(body.build.op("neg", value_of(body.build, number, dtype)), dtype, number.origin, number.weak)
    return evolve(negated, factors=number.factors)


def binary(body: Body, operator: str, left: Number, right: Number, node: nodes.Node, accumulates: bool = False) -> Number:
    """`left operator right` for + - * / % **; `accumulates`: one of a reduction's steps."""
    if operator == "**":
        return power(body, left, right, node)
    dtype, weak, origin = meet(left, right)
    if dtype is DType.BOOL:
        dtype, weak = DType.I64, False
    if dtype is DType.I64 and left.form is not None and right.form is not None:
        exact = _affine(body, operator, left.form, right.form)
        if exact is not None:
            return Number(dtype, form=exact, literal=exact.value if weak else None, weak=weak, origin=origin)
    if dtype.is_float and weak and left.literal is not None and right.literal is not None:
        folded = _fold(operator, float(left.literal), float(right.literal))
        if folded is not None:
            return literal(folded)
    a, b = value_of(body.build, left, dtype), value_of(body.build, right, dtype)
    if operator in ("/", "%") and not dtype.is_float:
        guard_divisor(body, right, b, node)
    name = _OPERATORS[operator]
    flags = accumulating(body, name, dtype) if accumulates else () if body.kernel.strict or not dtype.is_float else _CONTRACT
    result = typed(body.build.op(name, a, b, flags=flags if operator != "%" else ()), dtype, origin, weak)
    return evolve(result, factors=_factors(body, operator, left, right)) if dtype is DType.I64 else result


def _factors(body: Body, operator: str, left: Number, right: Number) -> frozenset[str]:
    """Names that a launch knows and that would have to be numbers for the result to be affine."""
    unknown = left.factors | right.factors
    if unknown or right.form is None or operator in ("+", "-"):
        return unknown
    operands = (right,) if operator in ("/", "%") else (right, left)
    known = [frozenset(operand.form.names) for operand in operands if operand.form is not None]
    scalars = {scalar.name for scalar in body.signature.scalars}
    fixed = [names for names in known if all(map(body.is_of_launch, names))]
    return min(fixed, key=lambda names: len(names - scalars), default=unknown)


def _fold(operator: str, a: float, b: float) -> float | None:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/" if b != 0:
            return a / b
        case _:
            return None


def _affine(body: Body, operator: str, left: Affine, right: Affine) -> Affine | None:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*" if right.value is not None:
            return left * right.value
        case "*" if left.value is not None:
            return right * left.value
        case "/" | "%" if right.value:
            if left.value is not None:
                quotient = abs(left.value) // abs(right.value) * (1 if (left.value < 0) == (right.value < 0) else -1)
                return Affine((), quotient if operator == "/" else left.value - quotient * right.value)
            if right.value > 0:
                return _divided(body, operator, left, right.value)
            return None
        case _:
            return None


def _divided(body: Body, operator: str, form: Affine, divisor: int) -> Affine | None:
    """The quotient or remainder by a positive constant of a form that isn't negative: a floor over sizes, else a named index."""
    if divisor == 1:
        return form if operator == "/" else Affine()
    if body.final and not body.here.facts.proves(form) and not _asked_at_launch(body, form, divisor):
        return None
    if any(name in body.here.opaque for name in form.names):
        return None if not body.final else _named_quotient(body, operator, form, divisor)
    if all(body.here.is_size(name) for name in form.names):
        quotient = form.floordiv(divisor)
        return quotient if operator == "/" else form - quotient * divisor
    return _named_quotient(body, operator, form, divisor)


def _asked_at_launch(body: Body, form: Affine, divisor: int) -> bool:
    """Whether an extent's quotient over sizes (`(H - 3) / 2 + 1`) may be a floor, since the launch refuses sizes that are too small
    for it. Where the division leaves nothing over, the floor is right whatever the sign."""
    bounds = [bound for loop in body.here.ranges for bound in (loop.low, loop.last)]
    if body.here.extent is None or body.here.path or not all(map(body.here.is_size, form.names)):
        return False
    if not all(map(body.here.is_size, (name for bound in bounds for name in bound.names))):
        return False
    said = f"`{words(body.here.extent)}` divides {{left}} by {divisor}, which needs larger sizes"
    left_over = form - form.floordiv(divisor) * divisor
    running = tuple(loop.extent for loop in body.here.ranges)
    body.equations.append(Equation(form, Affine(), ">=", Diagnostic("0802", said, body.here.extent.span), (*running, left_over)))
    return True


def _named_quotient(body: Body, operator: str, form: Affine, divisor: int) -> Affine:
    if not form.terms or all(coefficient % divisor == 0 for _, coefficient in form.terms):
        quotient = form.floordiv(divisor)
        return quotient if operator == "/" else form - quotient * divisor
    quotient = named(body, form.floordiv(divisor))
    if all(loop.name != str(quotient) for loop in body.here.ranges):
        low, high = extreme(form, body.here.ranges, upper=False), extreme(form, body.here.ranges, upper=True)
        of = frozenset(form.names) if reached(form, body.here.ranges) else frozenset()
        body.here.enter_range(NumberRange(str(quotient), low.floordiv(divisor), high.floordiv(divisor), exact=False, of=of))
        body.here.facts.at_least_zero(form - quotient * divisor)
        body.here.facts.at_least_zero(quotient * divisor + (divisor - 1) - form)
    if operator == "/":
        return quotient
    rest = named(body, form - quotient * divisor)
    if all(loop.name != str(rest) for loop in body.here.ranges):
        body.here.enter_range(NumberRange(str(rest), Affine(), Affine((), divisor - 1), exact=False))
        body.here.facts.equal(rest, form - quotient * divisor)
    return rest


def named(body: Body, form: Affine) -> Affine:
    """The form as a value of type `index` of its own, by its name."""
    return Affine.of(body.build.index(form).name)


def opaque(body: Body, value: Value) -> Affine:
    """A value of type `index` as a symbol of which nothing is known yet."""
    body.here.opaque.add(value.name)
    return Affine.of(value.name)


def form_of(body: Body, number: Number) -> Affine:
    """An int as an affine form: itself, or the name of its value."""
    if number.form is not None:
        return number.form
    body.factors |= number.factors
    return opaque(body, index_value(body.build, number))


def guard_divisor(body: Body, divisor: Number, value: Value, node: nodes.Node) -> None:
    """A run-time check that an int divisor isn't zero, unless that is known. What the sizes of a call make 0 may divide in no iteration."""
    if isinstance(node, nodes.Binary) and isinstance(node.right, nodes.IntLiteral) and divisor.constant == 0:
        raise fault("0806", f"division by zero in `{words(node)}`", node.span, hint="divide by a number other than 0")
    if divisor.constant:
        return
    if divisor.form is not None and body.final and (body.here.facts.proves(divisor.form - 1) or body.here.facts.proves(-divisor.form - 1)):
        return
    zero = value_of(body.build, integer(0), divisor.dtype) if divisor.value is not None else None
    if zero is None or zero.type != value.type:
        zero = body.build.cast(body.build.const(0, "index"), str(value.type))
    site = body.site(FaultSite("0806", node.span, f"division by zero in `{words(node)}`", hint="guard the division with `if`"))
    body.build.check(body.build.op("ne", value, zero), code="0806", site=site)


def power(body: Body, base: Number, exponent: Number, node: nodes.Node) -> Number:
    """Small int exponents are products; other powers are of floats."""
    if base.literal is not None and exponent.literal is not None and base.weak and exponent.weak:
        try:
            folded = base.literal**exponent.literal
        except (OverflowError, ZeroDivisionError):
            folded = float("inf")
        if isinstance(folded, (int, float)):
            return literal(folded)
    whole = exponent.literal if isinstance(exponent.literal, int) and not isinstance(exponent.literal, bool) else exponent.constant
    if isinstance(exponent.literal, float) and exponent.weak and exponent.literal.is_integer() and base.dtype.is_float:
        whole = int(exponent.literal)
    if whole is not None and 0 <= whole <= (64 if base.dtype.is_int else 4):
        return _product_of(body, base, whole, node)
    if base.dtype.is_int and exponent.dtype.is_int:
        raise fault(
            "0109",
            f"`{words(node)}` isn't supported yet in a kernel: a power of ints needs a constant exponent of 0 to 64",
            node.span,
            hint="write the exponent as a literal, or `(a as f64) ** b`; the exclusive or of bits is `bit_xor(a, b)`",
        )
    dtype, weak, origin = meet(base, exponent)
    result = body.build.op("pow", value_of(body.build, base, dtype), value_of(body.build, exponent, dtype))
    return typed(result, dtype, origin, weak)


def _product_of(body: Body, base: Number, count: int, node: nodes.Node) -> Number:
    if count == 0:
        return literal(1.0 if base.dtype.is_float else 1, None if base.weak else base.dtype)
    result: Number | None = None
    square = base
    while count:
        if count & 1:
            result = square if result is None else binary(body, "*", result, square, node)
        count >>= 1
        if count:
            square = binary(body, "*", square, square, node)
    assert result is not None
    return result


def bits(body: Body, operator: str, left: Number, right: Number, node: nodes.Node) -> Number:
    """and, or, xor, shl, shr of ints (and, or, xor of bools)."""
    dtype, weak, origin = meet(left, right)
    if dtype.is_float:
        raise fault(
            "0208", f"`{words(node)}` needs ints: it has {left.shown} and {right.shown}", node.span, hint="convert with `as i32` first"
        )
    if operator in ("shl", "shr") and not left.weak:
        dtype, weak, origin = left.dtype, False, left.origin
    result = body.build.op(operator, value_of(body.build, left, dtype), value_of(body.build, right, dtype))
    return typed(result, dtype, origin, weak)


def compare(body: Body, operator: str, left: Number, right: Number) -> Value:
    """The truth value of a comparison."""
    name = COMPARISONS[operator]
    if left.form is not None and right.form is not None:
        return body.build.op(name, _position(body, left.form), _position(body, right.form))
    dtype, _, _ = meet(left, right)
    return body.build.op(name, value_of(body.build, left, dtype), value_of(body.build, right, dtype))


def _position(body: Body, form: Affine) -> Value:
    return index_value(body.build, affine(form))


def comparison_facts(body: Body, operator: str, left: Number, right: Number) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    """Forms that are at least 0 where the comparison holds, and where it doesn't."""
    body.factors |= left.factors | right.factors
    a, b = left.form, right.form
    if a is None or b is None:
        return (), ()
    match operator:
        case "<":
            return (b - a - 1,), (a - b,)
        case "<=":
            return (b - a,), (a - b - 1,)
        case ">":
            return (a - b - 1,), (b - a,)
        case ">=":
            return (a - b,), (b - a - 1,)
        case "==":
            return (a - b, b - a), _apart(body, a - b)
        case _:
            return _apart(body, a - b), (a - b, b - a)


def _apart(body: Body, difference: Affine) -> tuple[Affine, ...]:
    """What follows from a difference that isn't 0, where its sign is known."""
    for form in (difference, -difference):
        if form.value is None and body.here.facts.proves(form):
            return (form - 1,)
    return ()
