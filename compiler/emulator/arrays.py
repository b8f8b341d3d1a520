"""The meaning of instructions on tiles, by NumPy: what `interpret.py` calls for values with axes. Operands come aligned; the
numbers obey the same rules as in `numbers.py`."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.emulator.fault import KernelFault, fault
from compiler.hir import numbers
from compiler.hir.types import DTYPES, is_float
from runtime.bits import counted_bits

Array = np.ndarray[Any, Any]

NUMPY: dict[str, Any] = {
    "i1": np.dtype(np.bool_),
    **{name: np.dtype(f"int{name[1:]}") for name in ("i8", "i16", "i32", "i64")},
    **{name: np.dtype(f"uint{name[1:]}") for name in ("u8", "u16", "u32", "u64")},
    "index": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""NumPy's type for each of ours."""

STORED: dict[str, Any] = {
    **NUMPY,
    "f16": np.dtype(np.uint16),
    "bf16": np.dtype(np.uint16),
    "f8e4m3": np.dtype(np.uint8),
    "f8e5m2": np.dtype(np.uint8),
}
"""How memories are held: as types that a memoryview understands."""


def stored(array: Array, dtype: str, name: str) -> Array:
    """The array's memory seen as the interpreter holds it; no copy."""
    wanted = STORED[dtype]
    if array.dtype == wanted:
        return array
    if array.dtype == NUMPY[dtype] or (array.dtype.itemsize == wanted.itemsize and array.dtype.kind in "iub" and wanted.kind in "iub"):
        return array.view(wanted)
    raise ZyntaxError(Diagnostic("0901", f"%{name} holds {dtype}, not {array.dtype}"))


def new_memory(dtype: str, dims: tuple[int, ...]) -> Array:
    """Scratch memory, filled with what shows when it is read before it is written: NaN, or a pattern."""
    memory = np.zeros(dims, STORED[dtype])
    if dtype in ("f32", "f64"):
        memory.fill(math.nan)
    elif dtype != "i1" and memory.size:
        memory.view(np.uint8).reshape(-1)[:] = 0x7F if is_float(dtype) else 0x5A
    return memory


def table_of(dtype: str, dims: tuple[int, ...], values: tuple[int | float, ...]) -> Array:
    """A constant array of a module, as memory."""
    source = "f64" if is_float(dtype) else "i64"
    table = np.array([numbers.convert(v, "f64" if isinstance(v, float) else source, dtype) for v in values], NUMPY[dtype])
    return table.reshape(dims).view(STORED[dtype])


class RingQueue:
    """A ring at run time: entries in order, of which the first `got` have been read and not yet freed."""

    def __init__(self, stages: int) -> None:
        self.stages = stages
        self.entries: deque[tuple[Any, ...]] = deque()
        self.got = 0

    def has_room(self) -> bool:
        return len(self.entries) < self.stages

    def has_entry(self) -> bool:
        return self.got < len(self.entries)

    def put(self, values: tuple[Any, ...]) -> None:
        if not self.has_room():
            raise fault(f"a ring of {self.stages} stages is full: what is put here would wait for ever")
        self.entries.append(values)

    def get(self) -> tuple[Any, ...]:
        if not self.has_entry():
            raise fault("a ring is empty: what is got here would wait for ever")
        self.got += 1
        return self.entries[self.got - 1]

    def free(self) -> None:
        if self.got == 0:
            raise fault("a ring has nothing to free: each entry that was got is freed once")
        self.entries.popleft()
        self.got -= 1


def run_roles(**roles: Iterator[Callable[[], bool]]) -> None:
    """Runs roles beside each other; each gives what it waits for when it waits."""
    waiting = {name: (role, next(role)) for name, role in roles.items()}
    while waiting:
        name = next((name for name, (_, is_ready) in waiting.items() if is_ready()), None)
        if name is None:
            raise fault(f"at rings that are full or empty {' and '.join(f'`{name}`' for name in waiting)} would wait for ever")
        role, _ = waiting[name]
        following = next(role, None)
        if following is None:
            del waiting[name]
        else:
            waiting[name] = role, following


# ---- making arrays -----------------------------------------------------------------------------------------------


@lru_cache(4096)
def axis_values(extent: int, shape: tuple[int, ...]) -> Array:
    return _kept(np.arange(extent, dtype=np.int64).reshape(shape))


def objects(items: Sequence[Any]) -> Array:
    """An array that refers to these, whatever they are."""
    return np.fromiter(items, object, len(items))


@lru_cache(64)
def lane_numbers(count: int) -> Array:
    return _kept(np.arange(count))


def stored_bits(value: Any, dtype: str) -> Any:
    """Numbers as memory holds them."""
    return np.asarray(value).astype(NUMPY[dtype], copy=False).view(STORED[dtype])


def alike(values: list[Array]) -> list[Array]:
    """Arrays to be joined along the first axis: when one refers to rows, all do."""
    if all(value.dtype == object for value in values) or not any(value.dtype == object for value in values):
        return values
    return [value if value.dtype == object else objects(list(value)) for value in values]


def settled(value: Array) -> Array:
    """Rows that an array refers to, as they are now, in one array."""
    return np.stack(list(value)) if value.dtype == object else value


def spread(value: Any, shape: tuple[int, ...], dtype: str) -> Array:
    return of_shape(np.asarray(value).astype(NUMPY[dtype], copy=False), shape)


def spread_constant(value: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """A tile of one number; of a few shapes, since they are remembered. The number is told by its bits: 0.0 and -0.0 are two."""
    return _spread_bits(numpy_scalar(value, dtype).tobytes(), shape, dtype)


@lru_cache(4096)
def _spread_bits(bits: bytes, shape: tuple[int, ...], dtype: str) -> Array:
    return _kept(np.broadcast_to(np.frombuffer(bits, NUMPY[dtype])[0], shape))


def _kept(array: Array) -> Array:
    """An array that many share."""
    array.flags.writeable = False
    return array


def of_shape(array: Array, shape: tuple[int, ...]) -> Array:
    """The array, or its elements repeated: for small tiles a copy is many times faster than NumPy's `broadcast_to`."""
    if array.shape == shape:
        return array
    result = np.empty(shape, array.dtype)
    result[...] = array
    return result


def numpy_scalar(value: Any, dtype: str) -> Any:
    return np.asarray(value).astype(NUMPY[dtype])


def round_array(x: Array, dtype: str) -> Array:
    """Doubles rounded once to a type."""
    if dtype not in ("bf16", "f8e4m3", "f8e5m2"):
        return x.astype(NUMPY[dtype])
    near = x.astype(np.float32)
    even = (near.view(np.uint32) & 1) == 0
    inexact = (near.astype(np.float64) != x) & np.isfinite(near)
    toward = np.where(x > near, np.float32(np.inf), np.float32(-np.inf))
    return np.where(even & inexact, np.nextafter(near, toward), near).astype(NUMPY[dtype])


# ---- elementwise -------------------------------------------------------------------------------------------------


def _zero_aware(pick: Callable[..., Array], negative_first: bool) -> Callable[[Array, Array], Array]:
    """min or max that tells -0.0 from 0.0."""

    def chosen(a: Array, b: Array) -> Array:
        first = np.signbit(a) == negative_first
        return np.where(a == b, np.where(first, a, b), pick(a, b))

    return chosen


_minimum, _maximum = _zero_aware(np.minimum, True), _zero_aware(np.maximum, False)


def _wide(function: Callable[..., Any]) -> Callable[[str, Array, Array], Array]:
    """A function of two doubles on any float type."""
    return lambda dtype, a, b: round_array(np.asarray(function(a.astype(np.float64), b.astype(np.float64))), dtype)


def _int_quotient(dtype: str, a: Array, b: Array) -> Array:
    _no_zero(a, b)
    quotient = np.floor_divide(a, b)
    return np.asarray(quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(quotient.dtype))


def _int_remainder(dtype: str, a: Array, b: Array) -> Array:
    _no_zero(a, b)
    return np.fmod(a, b)


def _no_zero(a: Array, b: Array) -> None:
    if not np.all(b != 0):
        raise KernelFault("0806", -1, (0, 0))


def _int_power(dtype: str, a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    flat = [numbers.wrap(numbers.int_power(int(x), int(y)), dtype) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(flat, NUMPY[dtype]).reshape(a.shape)


def _shift(function: Callable[..., Any]) -> Callable[[str, Array, Array], Array]:
    return lambda dtype, a, b: function(a, b & NUMPY[dtype].type(DTYPES[dtype] - 1))


FLOAT_BINARY: dict[str, Callable[[str, Array, Array], Array]] = {
    "add": lambda dtype, a, b: a + b,
    "sub": lambda dtype, a, b: a - b,
    "mul": lambda dtype, a, b: a * b,
    "div": lambda dtype, a, b: a / b,
    "rem": _wide(np.fmod),
    "min": lambda dtype, a, b: _minimum(a, b),
    "max": lambda dtype, a, b: _maximum(a, b),
    "pow": _wide(np.power),
    "atan2": _wide(np.arctan2),
}
INT_BINARY: dict[str, Callable[[str, Array, Array], Array]] = {
    "add": lambda dtype, a, b: a + b,
    "sub": lambda dtype, a, b: a - b,
    "mul": lambda dtype, a, b: a * b,
    "div": _int_quotient,
    "rem": _int_remainder,
    "min": lambda dtype, a, b: np.minimum(a, b),
    "max": lambda dtype, a, b: np.maximum(a, b),
    "and": lambda dtype, a, b: a & b,
    "or": lambda dtype, a, b: a | b,
    "xor": lambda dtype, a, b: a ^ b,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "pow": _int_power,
}


def tile_binary(operator: str, dtype: str, a: Array, b: Array) -> Array:
    if dtype == "i1":
        if operator in ("and", "or", "xor"):
            return np.asarray(INT_BINARY[operator]("i1", a, b))
        a, b = a.astype(np.uint8), b.astype(np.uint8)
        return (INT_BINARY[operator]("u8", a, b) & 1).astype(np.bool_)
    table = FLOAT_BINARY if is_float(dtype) else INT_BINARY
    return np.asarray(table[operator](dtype, a, b))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.divide(1.0, np.sqrt(x)),
    "erf": _erf,
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan")},
}


def tile_unary(operator: str, dtype: str, a: Array) -> Array:
    match operator:
        case "neg":
            return -a if dtype != "i1" else a
        case "abs":
            return np.abs(a)
        case "not":
            return ~a
        case "popcount" | "leading_zeros" | "trailing_zeros":
            return counted_bits(operator, a).astype(a.dtype)
    if is_float(dtype):
        return round_array(np.asarray(FLOAT_UNARY[operator](a.astype(np.float64))), dtype)
    return np.sign(a).astype(a.dtype) if operator == "sign" else a


def tile_fma(a: Array, b: Array, c: Array, dtype: str) -> Array:
    a, b, c = np.broadcast_arrays(a, b, c)
    if not is_float(dtype):
        return np.asarray(a * b + c)
    if dtype == "f64":
        flat = [numbers.fma(float(x), float(y), float(z), dtype) for x, y, z in zip(a.ravel(), b.ravel(), c.ravel(), strict=True)]
        return np.array(flat, np.float64).reshape(a.shape)
    product, added = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)  # the product is exact
    total = np.asarray(product + added)
    # What the sum loses (two-sum, Knuth). A sum that is not exact becomes its odd neighbour, which narrower types round as the exact one.
    share = total - product
    lost = (product - (total - share)) + (added - share)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(lost > 0, math.inf, -math.inf)
    return round_array(np.where(even & (lost != 0) & np.isfinite(total), np.nextafter(total, toward), total), dtype)


def tile_select(condition: Array, then: Array, otherwise: Array) -> Array:
    return np.where(condition, then, otherwise)


def tile_cast(a: Array, source: str, to: str) -> Array:
    if source == to:
        return a
    if to == "i1":
        return np.asarray(a != 0)
    if not is_float(source):
        if is_float(to) and DTYPES[source] == 64 and to != "f64":
            flat = [numbers.int_to_float(int(x), to) for x in a.ravel()]
            return np.array(flat, np.float64).astype(NUMPY[to]).reshape(a.shape)
        return round_array(a.astype(np.float64), to) if is_float(to) else a.astype(NUMPY[to])
    wide = a.astype(np.float64)
    if is_float(to):
        return round_array(wide, to)
    low, high = numbers.limits(to)
    whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
    inside = (whole > low) & (whole < high)
    result = np.where(inside, whole, 0.0).astype(NUMPY[to])
    return np.where(whole <= low, NUMPY[to].type(low), np.where(whole >= high, NUMPY[to].type(high), result))


def tile_bitcast(a: Array, source: str, to: str) -> Array:
    return np.ascontiguousarray(a).view(NUMPY[to])


# ---- monoids -----------------------------------------------------------------------------------------------------


def tile_combine(monoid: str, old: tuple[Array, ...], new: tuple[Array, ...]) -> tuple[Array, ...]:
    """Pairs of argmin or argmax, elementwise: the second where it beats the first."""
    a, b = new[0], old[0]
    earlier: Array = np.zeros((), np.bool_)
    tied: Array = np.ones((), np.bool_)
    for i, j in zip(new[1:], old[1:], strict=True):
        earlier = earlier | (tied & (i < j))
        tied = tied & (i == j)
    a_nan, b_nan = a != a, b != b
    better = a < b if monoid == "argmin" else a > b
    wins = np.where(a_nan | b_nan, a_nan & (~b_nan | earlier), np.where(a == b, earlier, better))
    return tuple(np.where(wins, x, y) for x, y in zip(new, old, strict=True))


def tile_reduce(monoid: str, dtypes: tuple[str, ...], values: tuple[Array, ...], order: tuple[int, ...], outer: int) -> tuple[Array, ...]:
    """Combine along the last axes of `order`, the first slowest, one after the other from the identity."""
    values = tuple(np.broadcast_arrays(*values)) if len(values) > 1 else values
    lines = tuple(
        v.transpose(order).reshape(*(v.shape[k] for k in order[:outer]), math.prod(v.shape[k] for k in order[outer:])) for v in values
    )
    count, shape = lines[0].shape[-1], lines[0].shape[:-1]
    if monoid in ("argmin", "argmax"):
        total = tuple(
            np.full(shape, numbers.identity(monoid, d) if number == 0 else numbers.limits(d)[1], NUMPY[d])
            for number, d in enumerate(dtypes)
        )
        for k in range(count):
            total = tile_combine(monoid, total, tuple(line[..., k] for line in lines))
        return total
    return tuple(_reduced(monoid, dtype, line, shape, count) for dtype, line in zip(dtypes, lines, strict=True))


def _reduced(monoid: str, dtype: str, line: Array, shape: tuple[int, ...], count: int) -> Array:
    total = np.full(shape, numbers.identity(monoid, dtype), NUMPY[dtype])
    if count and dtype in ("f32", "f64") and monoid in ("add", "mul"):
        function = np.add if monoid == "add" else np.multiply
        return np.asarray(tile_binary(monoid, dtype, total, function.accumulate(line, axis=-1, dtype=NUMPY[dtype])[..., -1]))
    if count and not is_float(dtype) and dtype != "i1" and monoid in ("add", "mul", "min", "max"):
        functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
        return np.asarray(functions[monoid].reduce(line, axis=-1, dtype=NUMPY[dtype]))
    for k in range(count):
        total = tile_binary(monoid, dtype, total, line[..., k])
    return total


def tile_scan(monoid: str, dtype: str, value: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    lines = np.moveaxis(value, axis, -1)
    result = np.empty_like(lines)
    total = np.full(lines.shape[:-1], numbers.identity(monoid, dtype), NUMPY[dtype])
    for k in reversed(range(lines.shape[-1])) if reverse else range(lines.shape[-1]):
        after = tile_binary(monoid, dtype, total, lines[..., k])
        result[..., k] = total if exclusive else after
        total = after
    return np.moveaxis(result, -1, axis)


def tile_contract(a: Array, b: Array, accumulator: Any, subscripts: tuple[tuple[int, ...], ...], shape: tuple[Any, ...], to: str) -> Array:
    """Sums of products, in doubles for floats (their order is free) and modulo 2**64 for ints, then brought to the type."""
    wide = np.float64 if is_float(to) else np.int64
    product = np.einsum(
        np.asarray(a).astype(wide), list(subscripts[0]), np.asarray(b).astype(wide), list(subscripts[1]), list(subscripts[2])
    )
    product = np.asarray(product)[shape]
    if accumulator is not None:
        product = product + np.asarray(accumulator).astype(wide)
    return round_array(np.asarray(product), to) if is_float(to) else np.asarray(product).astype(NUMPY[to])


# ---- axes --------------------------------------------------------------------------------------------------------


def concatenate(values: tuple[Array, ...], axis: int) -> Array:
    return np.concatenate(values, axis)


def stacked(values: tuple[Any, ...], axis: int) -> Array:
    """Values side by side along an axis, along which each of them has one place, or that scalars lack."""
    arrays = np.broadcast_arrays(*values)
    return np.concatenate(arrays, axis) if arrays[0].ndim else np.array(arrays)


def pack_pairs(value: Array, axis: int) -> Array:
    """Two 16-bit neighbours along `axis` as one u32, the first in the low half."""
    pairs = np.ascontiguousarray(np.moveaxis(value, axis, -1)).view(np.uint16).astype(np.uint32)
    return pairs[..., 0] | pairs[..., 1] << 16


__all__ = [
    "RingQueue",
    "axis_values",
    "concatenate",
    "new_memory",
    "numpy_scalar",
    "objects",
    "pack_pairs",
    "run_roles",
    "settled",
    "spread",
    "spread_constant",
    "stacked",
    "table_of",
    "tile_binary",
    "tile_bitcast",
    "tile_cast",
    "tile_combine",
    "tile_contract",
    "tile_fma",
    "tile_reduce",
    "tile_scan",
    "tile_select",
    "tile_unary",
]
