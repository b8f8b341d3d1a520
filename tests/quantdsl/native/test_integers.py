"""Ints that stop or saturate, of every width, at every edge: exact Python ints say what is right."""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from compiler.hir.build import FunctionBuilder
from compiler.hir.control import Return
from compiler.hir.core import Cast
from compiler.hir.host import CHECKED, ROUNDINGS, SATURATING, Checked, Narrow, Quotient, Read, Saturating, Write
from compiler.hir.layout import numpy_dtype
from compiler.hir.module import FaultSite, HirModule, OptimizationLevel
from compiler.hir.numbers import limits
from compiler.hir.types import Pointer, Tile
from tests.quantdsl.native.both import Both

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
LEVELS = (OptimizationLevel.O0, OptimizationLevel.OLATENCY)


def values_of(dtype: str) -> list[int]:
    low, high = limits(dtype)
    root = math.isqrt(high)
    close = {
        low,
        low + 1,
        low // 2,
        -7,
        -2,
        -1,
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        root,
        root + 1,
        -root,
        -root - 1,
        high // 2,
        high // 2 + 1,
        high - 1,
        high,
    }
    return sorted(v for v in close if low <= v <= high)


def function_of(module: HirModule, name: str, dtypes: list[str], result: str, emit) -> None:
    """`name`(x0, x1, ...) -> emit(x0, x1, ...). Ints of 128 bits come and go by address."""
    f = FunctionBuilder(name)
    inputs = []
    for k, dtype in enumerate(dtypes):
        if dtype.endswith("128"):
            inputs.append(f.body.emit(Read(pointer=f.parameter(f"x{k}", Pointer(Tile(dtype))))).result)
        else:
            inputs.append(f.parameter(f"x{k}", Tile(dtype)))
    made = emit(f.body, *inputs)
    if result.endswith("128"):
        out = f.parameter("out", Pointer(Tile(result)))
        f.body.emit(Write(pointer=out, value=made))
        f.body.emit(Return())
    else:
        f.function.results = (Tile(result),)
        f.body.emit(Return(values=(made,)))
    f.function.sites = (FaultSite("0806", None, "does not fit"),)
    module.add(f.finish())


def cell(dtype: str, value: int = 0) -> np.ndarray:
    made = np.zeros(1, numpy_dtype(Tile(dtype)))
    made.view(np.uint8)[:] = np.frombuffer((value % (1 << 128)).to_bytes(16, "little"), np.uint8)
    return made


def held(array: np.ndarray, dtype: str) -> int:
    return int.from_bytes(array.tobytes(), "little", signed=dtype == "i128")


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def exact(operation: str, a: int, b: int, bits: int) -> int | None:
    """The mathematical result; None where there is none."""
    match operation:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return truncated(a, b) if b else None
        case "rem":
            return a - truncated(a, b) * b if b else None
        case "shl":
            return a * 2**b if 0 <= b < bits else None
        case _:
            return math.floor(Fraction(a, 2**b)) if 0 <= b < bits else None


def rounded(a: int, b: int, rounding: str) -> int:
    x = Fraction(a, b)
    match rounding:
        case "toward_zero":
            return math.trunc(x)
        case "floor":
            return math.floor(x)
        case "ceil":
            return math.ceil(x)
        case "nearest_even":
            return round(x)
        case _:
            return math.ceil(x) if x > 0 else math.floor(x)


@pytest.fixture(scope="module")
def both() -> Both:
    module = HirModule("ints")
    for dtype in INTS:
        for operation in CHECKED:
            emit = lambda b, x, y, o=operation: b.emit(Checked(operation=o, left=x, right=y, site=0)).result  # noqa: E731
            function_of(module, f"{operation}_{dtype}", [dtype, dtype], dtype, emit)
        for operation in SATURATING:
            emit = lambda b, x, y, o=operation: b.emit(Saturating(operation=o, left=x, right=y)).result  # noqa: E731
            function_of(module, f"saturating_{operation}_{dtype}", [dtype, dtype], dtype, emit)
        for rounding in ROUNDINGS:
            emit = lambda b, x, y, r=rounding: b.emit(Quotient(left=x, right=y, rounding=r, site=0)).result  # noqa: E731
            function_of(module, f"{rounding}_{dtype}", [dtype, dtype], dtype, emit)
        for to in INTS:
            function_of(module, f"narrow_{dtype}_{to}", [dtype], to, lambda b, x, t=to: b.emit(Narrow(value=x, to=t, site=0)).result)
        for source in ("f32", "f64"):
            function_of(
                module, f"narrow_{source}_{dtype}", [source], dtype, lambda b, x, t=dtype: b.emit(Narrow(value=x, to=t, site=0)).result
            )
    return Both(module, LEVELS)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("operation", CHECKED)
def test_checked_operations_are_exact_or_stop(both: Both, operation: str, dtype: str) -> None:
    low, high = limits(dtype)
    name = f"{operation}_{dtype}"
    for a, b in itertools.product(values_of(dtype), repeat=2):
        right = exact(operation, a, b, int(dtype[1:]))
        wanted = (right,) if right is not None and low <= right <= high else ("0806", name, 0, (a, b))
        assert both(name, a, b) == wanted


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("operation", SATURATING)
def test_saturating_operations_end_at_the_limits(both: Both, operation: str, dtype: str) -> None:
    low, high = limits(dtype)
    for a, b in itertools.product(values_of(dtype), repeat=2):
        right = exact(operation, a, b, 0)
        assert right is not None
        assert both(f"saturating_{operation}_{dtype}", a, b) == (min(max(right, low), high),)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_quotients_are_rounded_as_asked(both: Both, rounding: str, dtype: str) -> None:
    low, high = limits(dtype)
    name = f"{rounding}_{dtype}"
    for a, b in itertools.product(values_of(dtype), repeat=2):
        right = rounded(a, b, rounding) if b else None
        wanted = (right,) if right is not None and low <= right <= high else ("0806", name, 0, (a, b))
        assert both(name, a, b) == wanted


@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("dtype", INTS)
def test_narrowing_keeps_the_number_or_stops(both: Both, dtype: str, to: str) -> None:
    low, high = limits(to)
    name = f"narrow_{dtype}_{to}"
    for a in {*values_of(dtype), *(v for v in values_of(to) if limits(dtype)[0] <= v <= limits(dtype)[1])}:
        assert both(name, a) == ((a,) if low <= a <= high else ("0806", name, 0, (a,)))


@pytest.mark.parametrize("to", INTS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_are_cut_or_stop(both: Both, source: str, to: str) -> None:
    low, high = limits(to)
    name = f"narrow_{source}_{to}"
    numbers = [0.0, -0.0, 0.5, -0.5, -0.999, 1.999, -1.0, 3e38, -3e38, 1e-30]
    for edge in (low, high, high + 1):
        numbers += [
            float(edge),
            float(edge) - 0.5,
            float(edge) + 0.5,
            math.nextafter(edge, 0),
            math.nextafter(edge, math.inf),
            float(edge) - 1.0,
        ]
    if source == "f32":
        numbers = [struct.unpack("<f", struct.pack("<f", x))[0] for x in numbers]
    for x in numbers:
        fits = low <= math.trunc(x) <= high
        assert both(name, x) == ((math.trunc(x),) if fits else ("0806", name, 0, (x,)))
    for x in (math.inf, -math.inf, math.nan):
        assert both(name, x)[:3] == ("0806", name, 0)


# ---- 128 bits ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide() -> Both:
    module = HirModule("wide")
    for dtype, half in (("i128", "i64"), ("u128", "u64")):
        for operation in ("add", "sub", "mul", "shl", "shr"):
            emit = lambda b, x, y, o=operation: b.emit(Checked(operation=o, left=x, right=y, site=0)).result  # noqa: E731
            function_of(module, f"{operation}_{dtype}", [dtype, dtype], dtype, emit)
        for rounding in ROUNDINGS:
            emit = lambda b, x, y, r=rounding: b.emit(Quotient(left=x, right=y, rounding=r, site=0)).result  # noqa: E731
            function_of(module, f"{rounding}_{dtype}", [dtype, half], dtype, emit)
        function_of(module, f"narrow_{dtype}", [dtype], half, lambda b, x, t=half: b.emit(Narrow(value=x, to=t, site=0)).result)
        function_of(module, f"double_{dtype}", [dtype], "f64", lambda b, x: b.emit(Cast(value=x, to="f64")).result)
        function_of(module, f"less_{dtype}", [dtype, dtype], "i1", lambda b, x, y: b.op("lt", x, y))
    return Both(module, LEVELS)


def wide_values(dtype: str) -> list[int]:
    low, high = limits(dtype)
    close = [low, low + 1, -(2**64) - 1, -(2**63), -3, -1, 0, 1, 2, 3, 5, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1]
    close += [2**96 - 1, 3**70, -(7**40), 10**30 + 7, high // 3, high - 1, high, (2**53 + 1) * 2**40 + 1, (2**53 + 1) * 2**40]
    return [v for v in close if low <= v <= high]


@pytest.mark.parametrize("dtype", ["i128", "u128"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "shl", "shr"])
def test_operations_of_128_bits(wide: Both, operation: str, dtype: str) -> None:
    low, high = limits(dtype)
    seconds = wide_values(dtype) if operation in ("add", "sub", "mul") else [-1, 0, 1, 31, 63, 64, 65, 126, 127, 128]
    for a, b in itertools.product(wide_values(dtype), [v for v in seconds if low <= v <= high]):
        right = exact(operation, a, b, 128)
        out = cell(dtype)
        found = wide(f"{operation}_{dtype}", cell(dtype, a), cell(dtype, b), out)
        if right is not None and low <= right <= high:
            assert found == () and held(out, dtype) == right
        else:
            assert found == ("0806", f"{operation}_{dtype}", 0, (a, b))


@pytest.mark.parametrize("dtype", ["i128", "u128"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_quotients_of_128_bits(wide: Both, rounding: str, dtype: str) -> None:
    low, high = limits(dtype)
    half = dtype.replace("128", "64")
    for a, b in itertools.product(wide_values(dtype), [*values_of(half), 10**9 + 7, 2**33 - 1, 2**31]):
        out = cell(dtype)
        found = wide(f"{rounding}_{dtype}", cell(dtype, a), b, out)
        right = rounded(a, b, rounding) if b else None
        if right is not None and low <= right <= high:
            assert found == () and held(out, dtype) == right
        else:
            assert found == ("0806", f"{rounding}_{dtype}", 0, (a, b))


def test_long_division_of_many_random_dividends(wide: Both) -> None:
    chooser = np.random.default_rng(5)
    for _ in range(3000):
        a = int.from_bytes(chooser.bytes(16), "little") >> int(chooser.integers(0, 128))
        b = max(1, int.from_bytes(chooser.bytes(8), "little") >> int(chooser.integers(0, 64)))
        out = cell("u128")
        assert wide("nearest_even_u128", cell("u128", a), b, out) == ()
        assert held(out, "u128") == round(Fraction(a, b))


@pytest.mark.parametrize("dtype", ["i128", "u128"])
def test_comparing_narrowing_and_floats_of_128_bits(wide: Both, dtype: str) -> None:
    low, high = limits(dtype.replace("128", "64"))
    for a in wide_values(dtype):
        assert wide(f"double_{dtype}", cell(dtype, a)) == (float(a),)
        name = f"narrow_{dtype}"
        assert wide(name, cell(dtype, a)) == ((a,) if low <= a <= high else ("0806", name, 0, (a,)))
        for b in wide_values(dtype):
            assert wide(f"less_{dtype}", cell(dtype, a), cell(dtype, b)) == (a < b,)


def test_no_compiler_library_is_called(wide: Both) -> None:
    assert [native.calls for native in wide.native] == [frozenset(), frozenset()]
