"""How kernels are held against NumPy and against the HIR interpreter: whole programs through `zynml.compile`, arrays of every dtype,
size and layout, and the golden rule's bounds. Every launch runs on one, two and three threads, to the same bits; one that is small enough
also runs in the interpreter, on the nest as the textbook wrote it.

Set `ZYNTAX_EXHAUSTIVE=1` for every combination; else each dimension is walked in full with the others at a few points. Set
`ZYNTAX_TEST_DEVICE=cuda:0` (or `emulator`) to run the same tests there: `ZYNTAX_TEST_DEVICE=cuda:0 pytest tests/kernels -n 8`."""

import math
import os

# Teams of three threads on a machine of two cores would spin while they wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

import zynml
from compiler.hir.core import Binary, dtype_of
from compiler.hir.module import Form, HirFunction
from compiler.launch import cpu as launching
from compiler.launch.native_calls.calls import NativeCalls
from runtime.tensor import Tensor
from tests.lowering.helpers import run_lowered

EXHAUSTIVE = bool(os.environ.get("ZYNTAX_EXHAUSTIVE"))

DEVICE = os.environ.get("ZYNTAX_TEST_DEVICE")
"""Where programs run, the CPU else. NumPy is the only reference on other devices."""

SIZES = (0, 1, 3, 31, 33, 257, 1000, 1009)
SMALL = tuple(size for size in SIZES if size <= 33)

LAYOUTS = ("contiguous", "transposed", "strided", "reversed", "sliced")

INTERPRETED = 100_000 if EXHAUSTIVE else 20_000
"""Inner steps up to which a launch also runs in the interpreter."""

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
    "bool": np.dtype(bool),
}  # fmt: skip
FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = (*SIGNED, *UNSIGNED)
NUMBERS = (*INTS, *FLOATS)

ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 0.0, "float64": 0.0}
"""One unit in the last place of 1.0, for the types that the rule grants one more rounding."""

RULE = {"float16": 1e-6, "bfloat16": 1e-6, "float32": 1e-6, "float64": 4e-15}
"""The golden rule's factor of sqrt(K); float64 in proportion to its precision."""

TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
"""Smallest positive number of a type."""

Array = np.ndarray[Any, Any]


def generator(*key: object) -> np.random.Generator:
    """Random numbers that are the same in every run for equal keys."""
    return np.random.default_rng([ord(letter) for letter in repr(key)])


def numbers(dtype: str, shape: int | Sequence[int], seed: object = 0, small: bool = False) -> Array:
    """Numbers of a type: floats of the normal distribution, ints of the whole range or (`small`) a few around zero."""
    chance = generator(dtype, shape, seed)
    numpy = DTYPES[dtype]
    if dtype in FLOATS:
        return chance.standard_normal(shape).astype(numpy)
    if dtype == "bool":
        return chance.random(shape) < 0.5
    info = np.iinfo(numpy)
    low, high = (max(info.min, -4), 5) if small else (info.min, info.max)
    return chance.integers(low, high, shape, numpy, endpoint=not small)


def laid_out(array: Array, layout: str) -> Array:
    """The same elements in memory of another layout. Gaps are filled with what would show: NaN, or the largest int."""
    match layout:
        case "contiguous":
            return np.ascontiguousarray(array)
        case "transposed":
            return np.ascontiguousarray(array.T).T
        case "reversed":
            around = tuple(slice(None, None, -1) for _ in array.shape)
            return np.ascontiguousarray(array[around])[around]
        case "sliced":
            big = _poisoned([extent + 2 for extent in array.shape], array.dtype)
            view = big[tuple(slice(1, extent + 1) for extent in array.shape)]
        case "strided":
            big = _poisoned([3 * extent + 2 for extent in array.shape], array.dtype)
            view = big[tuple(slice(1, 3 * extent + 1, 3) for extent in array.shape)]
        case _:
            raise ValueError(layout)
    view[...] = array
    return view


def _poisoned(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        return np.full(shape, np.iinfo(dtype).max, dtype)
    return np.full(shape, True if dtype.kind == "b" else np.nan, dtype)


@lru_cache(maxsize=4096)
def compiled(text: str, **options: Any) -> zynml.CompiledProgram:
    return zynml.compile(text, **{"device": DEVICE, **options})


def launched(text: str, *values: Any, **options: Any) -> Any:
    """What function `f` of the program gives, each small launch of it checked against the interpreter."""
    return launched_with(compiled(text, **options), *values)


def launched_with(program: zynml.CompiledProgram, *values: Any) -> Any:
    """As `launched`, for a program at hand."""
    if DEVICE is not None:
        return program.f(*values)
    with _interpreting():
        return program.f(*values)


@contextmanager
def _interpreting() -> Iterator[None]:
    original, worth = launching.CpuCall.__call__, launching.WORTH_THREADS

    def launch(call: launching.CpuCall, on_host: Mapping[str, Any], values: Mapping[str, Any], threads: int) -> Any:
        kernel = call.plan.kernel
        given = {name: value.contents if isinstance(value, Tensor) else value for name, value in on_host.items()}
        mutable = {result.input for result in kernel.lowered.plan.results}
        copies = {name: value.copy() if name in mutable else value for name, value in given.items()}
        spmd = kernel.lowered.function.form is Form.THREAD
        if not spmd and not mutable & set(given):
            alone = _plain(original(call, on_host, values, 1))
            for several in (2, 3):
                got = original(call, on_host, values, several)
                same_bits(_plain(got), alone)
        else:
            got = original(call, on_host, values, threads)
        sizes = call.plan.sizes
        if sizes.work <= INTERPRETED:
            grid = tuple(call.plan.grid()) if spmd else None
            interpreted = run_lowered(kernel.lowered, grid, **copies)
            agree(_plain(got), interpreted, sizes.work, _coarsest(given.values()), _rounds_each_step(kernel.nest))
        return got

    planned = NativeCalls._comes_again
    launching.CpuCall.__call__, launching.WORTH_THREADS = launch, 0
    NativeCalls._comes_again = lambda calls, kinds, early: False  # every call is one of those above
    try:
        yield
    finally:
        launching.CpuCall.__call__, launching.WORTH_THREADS = original, worth
        NativeCalls._comes_again = planned


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.array if isinstance(value, Tensor) else value


def same_bits(one: Any, other: Any) -> None:
    """Several threads and one give the same."""
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            same_bits(a, b)
        return
    np.testing.assert_array_equal(_comparable(one), _comparable(other), "several threads and one")


def _coarsest(values: Iterable[Any]) -> str:
    """The float type with the fewest bits among the inputs: what sums may run in."""
    names = {value.dtype.name for value in values if isinstance(value, np.ndarray)}
    return next((name for name in ("bfloat16", "float16", "float32") if name in names), "float64")


def _rounds_each_step(nest: HirFunction) -> bool:
    """Whether the nest adds up floats of 16 bits in their own type, as the interpreter does; native code does it in f32."""
    ops = (op for top in nest.body.body for op in top.walk())
    liberties = {"reassoc", "contract"}
    return any(isinstance(op, Binary) and not liberties.isdisjoint(op.flags) and dtype_of(op.results[0]) in ("f16", "bf16") for op in ops)


def agree(native: Any, interpreted: Any, terms: int, coarsest: str, stepwise: bool = False) -> None:
    """Native code and the interpreter say the same: ints to the bit, floats as the golden rule lets sums differ. `stepwise`: the
    interpreter rounds 16 bits at each step."""
    if isinstance(native, tuple):
        assert len(native) == len(interpreted)
        for one, other in zip(native, interpreted, strict=True):
            agree(one, other, terms, coarsest, stepwise)
        return
    native, interpreted = np.asarray(native), np.asarray(interpreted)
    assert native.shape == interpreted.shape
    if native.dtype.kind in "iub":
        np.testing.assert_array_equal(native, interpreted, "native code and interpreter")
        return
    scale = np.abs(np.where(np.isfinite(interpreted.astype(float)), interpreted.astype(float), 0)).max(initial=1.0)
    if stepwise and native.dtype.name in ROUNDING:
        scale *= max(1.0, ROUNDING[native.dtype.name] / RULE[native.dtype.name])
    if native.dtype == np.float64 and coarsest != "float64":
        native = native.astype(np.float32)
    holds(native, interpreted.astype(float), scale, terms)


def holds(got: Any, want: Any, magnitude: Any = None, terms: float = 1) -> None:
    """The golden rule: |got - want| within the factor of sqrt(K) times the sum of the terms' absolute values, one unit in the last place
    more for f16 and bf16; ints and bools exact; NaN where NaN is due. `want` tells nothing of dtypes."""
    if isinstance(want, tuple):
        assert isinstance(got, tuple) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            holds(one, other, magnitude, terms)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    want = want.astype(np.float64)
    name = got.dtype.name
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(got.dtype).astype(np.float64)
        values = got.astype(np.float64)
        limit = np.abs(want) if magnitude is None else np.maximum(np.abs(want), np.asarray(magnitude, np.float64))
        bound = RULE[name] * max(1.0, terms) ** 0.5 * limit + ROUNDING[name] * np.abs(want) + TINY[name]
        fine = (np.abs(values - want) <= bound) | (values == rounded) | (np.isnan(values) & np.isnan(want))
    if not fine.all():
        bad = np.argwhere(~fine)
        where = tuple(bad[0])
        raise AssertionError(f"{len(bad)} of {got.size} differ, first at {where}: got {values[where]!r}, want {want[where]!r} (bound {bound[where]:.3g})")


def exactly(got: Any, want: Any) -> None:
    """Same dtype, same shape, same bits (any NaN equals any)."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, f"dtype {got.dtype}, not {want.dtype}"
    np.testing.assert_array_equal(_comparable(got), _comparable(want))


def _comparable(value: Any) -> Array:
    """NumPy's comparison doesn't know the NaN of bf16."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == DTYPES["bf16"] else array


def spread(*choices: Sequence[Any], seed: int = 0) -> list[tuple[Any, ...]]:
    """Combinations of choices: all of them in an exhaustive run, else rows in which each value of each choice occurs, paired differently."""
    if EXHAUSTIVE:
        rows: list[tuple[Any, ...]] = [()]
        for choice in choices:
            rows = [(*row, value) for row in rows for value in choice]
        return rows
    longest = max(map(len, choices))
    steps = [1 if len(choice) == longest else _step(place, len(choice)) for place, choice in enumerate(choices)]
    starts = [0 if len(choice) == longest else place + seed for place, choice in enumerate(choices)]
    return [
        tuple(choice[(row * step + start) % len(choice)] for choice, step, start in zip(choices, steps, starts, strict=True)) for row in range(longest)
    ]


def _step(place: int, length: int) -> int:
    """How far a choice moves from row to row: another for each place where there are several, and so that every value has its turn."""
    able = [step for step in range(1, length + 1) if math.gcd(step, length) == 1]
    return able[place % len(able)]


def by_layout(rows: Iterable[tuple[Any, ...]]) -> list[tuple[tuple[str, ...], list[Any]]]:
    """Rows of a shape and layouts, as `spread` gives them: by layouts, which have kernels of their own, the shapes."""
    shapes: dict[tuple[str, ...], list[Any]] = {}
    for shape, *layouts in rows:
        shapes.setdefault(tuple(layouts), []).append(shape)
    return list(shapes.items())


def wide(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in float64."""
    return tuple(array.astype(np.float64) for array in arrays)


Oracle = Callable[..., Any]
