"""The scalar functions of kernel bodies: how many arguments each takes, and the instructions it becomes."""

from collections.abc import Callable
from math import sqrt

from compiler.hir import randoms
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.types import is_float
from compiler.lowering.arithmetic import bits, power
from compiler.lowering.body import Body, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.numbers import Number, index_value, integer, literal, meet, typed, value_of
from compiler.lowering.suggest import nearest
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

Make = Callable[[Builder, list[Value]], Value]

_FLOAT_FUNCTIONS = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "erf",
)
_ROUNDING = ("floor", "ceil", "round", "trunc")
_BIT_COUNTS = {"popcount": "popcount", "clz": "leading_zeros", "ctz": "trailing_zeros"}
_COMPOSED = ("sigmoid", "relu", "gelu", "silu")
_RANDOMS = {"random": (randoms.random, DType.F32), "uniform": (randoms.uniform, DType.F64), "normal": (randoms.normal, DType.F64)}
_COUNTS: dict[str, tuple[int, int]] = {
    **dict.fromkeys((*_FLOAT_FUNCTIONS, *_ROUNDING, *_BIT_COUNTS, *_COMPOSED, "abs", "sign", "isnan"), (1, 1)),
    **dict.fromkeys(("atan2", "pow", "bit_and", "bit_or", "bit_xor"), (2, 2)),
    **dict.fromkeys(_RANDOMS, (2, 3)),
    **dict.fromkeys(("min", "max"), (2, 8)),
    **dict.fromkeys(("clamp", "fma", "where"), (3, 3)),
}
NAMES = frozenset(_COUNTS)
_IO = {"print", "println", "eprint", "eprintln", "render", "save", "load", "rand", "randn"}
_INTRINSICS = {
    "thread_idx",
    "block_idx",
    "block_dim",
    "grid_dim",
    "global_idx",
    "lane_id",
    "fence",
    "warp_shuffle",
    "warp_shuffle_up",
    "warp_shuffle_down",
    "warp_shuffle_xor",
    "warp_any",
    "warp_all",
    "warp_ballot",
    "warp_match",
    "warp_sum",
    "block_sum",
    "barrier",
}


_TILES = {"dot", "row_max", "row_sum", "row_min", "transpose", "zeros", "ones", "matmul", "softmax", "sum", "mean"}


def unknown(body: Body, name: str, node: nodes.Call) -> Exception:
    """The error for a call of a name that is no function of kernels."""
    if name in _IO:
        chain = " -> ".join(f"`{caller}`" for caller, _ in body.inlining)
        return fault(
            "0410",
            f"`{name}` can't be called in a kernel",
            node.span,
            hint="kernels compute numbers: print or save the result after the block",
            notes=(f"reached through {chain}",) if chain else (),
        )
    if name in _INTRINSICS or name.startswith("atomic_"):
        kind = body.kind.value if body.kind else "inferred"
        return fault(
            "0413",
            f"`{name}` needs a kernel of kind `custom`{' or `fused`' if name in ('barrier', 'block_sum') else ''}: this one is {kind}",
            node.span,
            hint="add `@kernel(custom)` to the block",
        )
    if name in _TILES:
        raise fault(
            "0109",
            f"`{name}` of tiles isn't supported yet in a kernel",
            node.span,
            hint="loop over the elements: `for k in 0..K: s += a[k] * b[k]`",
        )
    near = nearest(name, NAMES | set(body.signature.functions))
    return fault(
        "0201",
        f"`{name}` is not a function that kernels know",
        node.span,
        hint=f"did you mean {near}?" if near else "known: " + ", ".join(sorted(NAMES)),
    )


def call(body: Body, name: str, values: list[Number], node: nodes.Call) -> Number:
    """The call of a library function on numbers."""
    low, high = _COUNTS[name]
    if not low <= len(values) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        shown = ", ".join("abcdefgh"[:low])
        raise fault(
            "0204",
            f"`{name}` takes {wanted} {'argument' if high == 1 else 'arguments'}, but {len(values)} are given",
            node.span,
            hint=f"write `{name}({shown})`",
        )
    if any(argument.name for argument in node.arguments):
        raise fault("0204", f"`{name}` takes no named arguments in a kernel", node.span)
    match name:
        case "pow":
            return power(body, values[0], values[1], node)
        case "bit_and" | "bit_or" | "bit_xor":
            return bits(body, name.removeprefix("bit_"), values[0], values[1], node)
        case "min" | "max":
            result = values[0]
            for other in values[1:]:
                result = extreme_of(body, name, result, other)
            return result
        case "clamp":
            return extreme_of(body, "max", values[1], extreme_of(body, "min", values[0], values[2]))
        case "abs" | "sign":
            return _unary(body, name, values[0])
        case "isnan":
            if not values[0].dtype.is_float:
                return literal(False)
            return typed(body.build.isnan(value_of(body.build, values[0])), DType.BOOL, DType.BOOL)
        case _ if name in _BIT_COUNTS:
            return _counted_bits(body, name, values[0], node)
        case "atan2":
            return _floats(body, lambda b, v: b.op("atan2", v[0], v[1]), *values)
        case "fma":
            return _fma(body, values)
        case _ if name in _RANDOMS:
            return _random(body, name, values, node)
        case _ if name in _ROUNDING and values[0].dtype.is_int:
            return values[0]
        case _ if name == "relu":
            return extreme_of(body, "max", values[0], literal(0))
        case _ if name in _COMPOSED:
            return _floats(body, lambda b, v: _composed(b, name, v[0]), *values, at_least=DType.F32)
        case _:
            return _floats(body, lambda b, v: b.op(name, v[0]), *values)


def extreme_of(body: Body, operator: str, left: Number, right: Number) -> Number:
    """`min` or `max`; of two indices it stays one, known to be either."""
    dtype, weak, origin = meet(left, right)
    if dtype is DType.I64 and left.form is not None and right.form is not None:
        if left.constant is not None and right.constant is not None:
            return literal(min(left.constant, right.constant) if operator == "min" else max(left.constant, right.constant))
        extreme = body.build.op(operator, index_value(body.build, left), index_value(body.build, right))
        body.here.opaque.add(extreme.name)
        difference = left.form - right.form if operator == "max" else right.form - left.form
        body.here.facts.cases[extreme.name] = ((left.form, (difference,)), (right.form, (-difference,)))
        _remember_bound(body, operator, extreme.name, left.form, right.form)
        return Number(dtype, form=Affine.of(extreme.name), weak=weak, origin=origin)
    extreme = body.build.op(operator, value_of(body.build, left, dtype), value_of(body.build, right, dtype))
    return typed(extreme, dtype, origin, weak)


def _remember_bound(body: Body, operator: str, name: str, left: Affine, right: Affine) -> None:
    """What sizes bound the result by: either side of a `min`; of `max(0, i)` the side that isn't constant."""
    bounds = body.here.upper
    sides = [bounds.get(str(form), form) for form in (left, right)]
    if operator == "max":
        sides = [form for form in sides if form.value is None]
        if len(sides) != 1:
            return
    for form in sides:
        if form.value is None and all(body.here.is_size(symbol) for symbol in form.names):
            bounds[name] = form


def _unary(body: Body, name: str, number: Number) -> Number:
    dtype = DType.I64 if number.dtype is DType.BOOL else number.dtype
    return typed(body.build.op(name, value_of(body.build, number, dtype)), dtype, number.origin, number.weak)


def _counted_bits(body: Body, name: str, number: Number, node: nodes.Call) -> Number:
    """How many bits of an int are 1, or stand above or below those: an i32, as on GPUs."""
    if not number.dtype.is_int or number.dtype is DType.BOOL:
        written = node.function.value if isinstance(node.function, nodes.Field) else node.arguments[0].value
        message = f"`{name}` counts bits of ints, and `{words(written)}` is {number.shown}"
        raise fault("0203", message, written.span, hint="convert it with `as u32`")
    counted = body.build.op(_BIT_COUNTS[name], value_of(body.build, number))
    return typed(body.build.cast(counted, "i32"), DType.I32, DType.I32)


def _fma(body: Body, values: list[Number]) -> Number:
    dtype, weak, origin = meet(*values)
    a, b, c = (value_of(body.build, value, dtype) for value in values)
    if dtype.is_float:
        return typed(body.build.fma(a, b, c), dtype, origin, weak)
    return typed(body.build.add(body.build.mul(a, b), c), dtype, origin, weak)


def _random(body: Body, name: str, values: list[Number], node: nodes.Call) -> Number:
    """A random number by its counter: seed, i and perhaps j are ints."""
    for value, argument in zip(values, node.arguments, strict=False):
        if not value.dtype.is_int:
            message = f"`{name}` counts in ints, and `{words(argument.value)}` is {value.shown}"
            raise fault("0203", message, argument.span, hint="write `as u64` behind it if that is meant")
    make, dtype = _RANDOMS[name]
    counters = [value_of(body.build, value, DType.U64) for value in (*values, integer(0))[:3]]
    return typed(make(body.build, *counters), dtype, dtype)


def _floats(body: Body, make: Make, *values: Number, at_least: DType | None = None) -> Number:
    """A function of floats: ints become f64 first; `at_least` computes narrow floats in a wider type and rounds once."""
    dtype, weak, origin = meet(*values)
    if not dtype.is_float:
        dtype = DType.F64
        origin = dtype if origin is not None else None
    inner = at_least if at_least is not None and dtype.bits < at_least.bits else dtype
    result = make(body.build, [value_of(body.build, value, inner) for value in values])
    return typed(body.build.cast(result, hir_name(dtype)), dtype, origin, weak)


def _composed(build: Builder, name: str, x: Value) -> Value:
    """sigmoid x = 1 / (1 + exp(-x)); silu x = x * sigmoid x; gelu x = x/2 * (1 + erf(x / sqrt 2))."""
    dtype = str(x.type)
    assert is_float(dtype)
    unit = build.const(1.0, dtype)
    if name == "gelu":
        inner = build.op("erf", build.op("mul", x, build.const(1.0 / sqrt(2.0), dtype)))
        return build.op("mul", build.op("mul", x, build.const(0.5, dtype)), build.op("add", unit, inner))
    sigmoid = build.op("div", unit, build.op("add", unit, build.op("exp", build.op("neg", x))))
    return build.op("mul", x, sigmoid) if name == "silu" else sigmoid
