"""The nests of the wide benches: their programs, their loops and their answers in float64 say the same, at small sizes."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zynml
from bench.cpu import wide as cpu_wide
from bench.cpu.wide_limits import SAMPLE, NestLimits, drawn
from bench.gpu import wide
from bench.nests import c, printing, report
from bench.nests.arrays import largest_error, operands_of, wanted
from bench.nests.families import FAMILIES, nest_of
from bench.nests.form import BenchNest, Lookups, Operand
from bench.nests.numpy_arrays import NUMPY, NumpyArrays
from bench.nests.work import slots_of

LEAST, MOST = 200, 5_000
"""Bytes of a small nest."""

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_program_loops_and_reference_agree(family: str, seed: int) -> None:
    nest = nest_of(seed, LEAST, MOST, family)
    library = NumpyArrays(seed)
    operands = operands_of(nest, library)
    reference = wanted(nest, operands, library)
    by_loops = np.zeros(nest.shape(nest.result_dims))
    printing.run_by_python(nest, {name: np.asarray(value).astype(wide_type(nest, name)) for name, value in operands.items()}, by_loops)
    assert largest_error(by_loops, reference, library) < 1e-9
    sizes = [nest.sizes[name] for name in printing.scalars(nest)]
    ours = np.asarray(zynml.compile(printing.zynml(nest)).f(*operands.values(), *sizes))
    assert ours.dtype == NUMPY[nest.result_dtype]
    assert largest_error(ours, reference, library) <= nest.tolerance, printing.zynml(nest)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("family", FAMILIES)
def test_loops_in_c_agree(family: str, tmp_path: Path) -> None:
    for seed in (4, 5):
        nest = nest_of(seed, LEAST, MOST, family)
        library = NumpyArrays(seed)
        operands = operands_of(nest, library)
        source = tmp_path / f"nest{seed}.c"
        source.write_text(c.program(nest))
        flags = ("-O1", "-Wall", "-Werror", "-fopenmp", "-shared", "-fPIC")
        subprocess.run(["gcc", *flags, str(source), "-o", str(source.with_suffix(".so")), "-lm"], check=True)
        out = np.full(nest.shape(nest.result_dims), 77, NUMPY[nest.result_dtype])
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*operands.values(), out)]
        ctypes.CDLL(str(source.with_suffix(".so"))).f(*pointers, *(ctypes.c_int64(nest.sizes[name]) for name in c.size_arguments(nest)))
        assert largest_error(out, wanted(nest, operands, library), library) <= nest.tolerance, source.read_text()


def test_only_loops_whose_turns_are_apart_are_shared_by_threads() -> None:
    assert "#pragma" in c.program(nest_of(0, LEAST, MOST, "transposes"))
    assert "#pragma" not in c.program(nest_of(0, LEAST, MOST, "scatter"))


def wide_type(nest: BenchNest, name: str) -> type:
    return np.int64 if nest.operands[name].content in ("table", "pointers") else np.float64


def test_a_seed_gives_the_same_nest_in_every_process() -> None:
    command = "from tests.test_wide_nests import programs; print(programs())"
    other = subprocess.run(
        [sys.executable, "-c", command], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert other.stdout == programs() + "\n"


def programs() -> str:
    return "".join(printing.zynml(nest_of(seed, 64e6, 2e9)) for seed in range(60))


def test_seeds_that_follow_each_other_take_all_families_in_turn() -> None:
    assert {nest_of(seed, 64e6, 2e9).family for seed in range(100, 100 + len(FAMILIES))} == set(FAMILIES)


def test_names_and_numbers_are_the_two_ways_to_say_an_extent() -> None:
    nests = [nest_of(seed, 64e6, 2e9) for seed in range(300)]
    named = [nest for nest in nests if nest.named]
    assert 120 < len(named) < 180
    for nest in nests:
        assert any(f"{name}," in printing.zynml(nest) for name in nest.sizes) == nest.named


def test_traffic_is_near_what_is_asked_for() -> None:
    for seed in range(200):
        nest = nest_of(seed, 64e6, 2e9)
        assert 30e6 < nest.bytes < 4e9 or nest.kind == "bodies", nest


def test_a_limit_is_of_bytes_or_of_operations_or_of_lookups() -> None:
    units = {"f32": 60e12, "i32": 30e12, "f64": 60e12}
    limits = {"copy": 4e12, "launch": 3e-6, "rates": units | {f"extremes {unit}": rate / 2 for unit, rate in units.items()}, "shared": 200_000}
    nest = nest_of(9, 64e6, 2e9, "maps")
    assert wide.limit_seconds(nest, limits) == pytest.approx(nest.bytes / 4e12 + 3e-6)
    assert wide.limit_seconds(nest, {**limits, "rates": dict.fromkeys(limits["rates"], 1e9)}) == pytest.approx(nest.operations / 1e9 + 3e-6)
    assert wide.limit_seconds(nest, limits, 2.0) == pytest.approx(2.0 + 3e-6)
    widest = nest_with("out[i] = max(x[i], 0.0)", "f32", operations=6e12, extremes=6e12)
    assert wide.limit_seconds(widest, limits) == pytest.approx(0.2 + 3e-6)
    updates = nest_with("out[x[i]] += 1", "f32", touched=8e9, lookups=Lookups(1e9, 100_001, 8, True))
    assert wide.limit_seconds(updates, limits, 2.0) == pytest.approx(5 * 8e9 / 8e12 + 3e-6)
    assert wide.limit_seconds(updates, limits, 3e-3) == pytest.approx(3e-3 + 3e-6)


def test_minima_and_maxima_are_counted_apart() -> None:
    terms = {"shortest": (2, 1), "longest": (2, 1), "widest": (2, 2), "squared": (2, 0)}
    nests = [nest_of(seed, LEAST, MOST, "products") for seed in range(60)]
    found = [(kind, nest) for nest in nests for kind in terms if kind in nest.kind.split(" ")]
    assert {kind for kind, _ in found} == set(terms)
    for kind, nest in found:
        taken, compared = terms[kind]
        assert nest.extremes * taken == nest.operations * compared


def test_entries_that_are_read_touch_the_widest_aligned_words() -> None:
    assert Lookups(1, 1, 4).words(4) == (4, 1)
    assert Lookups(1, 1, 56).words(1) == (16, 4)
    assert Lookups(1, 1, 96).words(4) == (16, 6)
    assert Lookups(1, 1, 3761).words(1) == (16, 236)
    assert Lookups(1, 1, 60, True).words(4) == (4, 15)
    assert Lookups(1, 1, 8, True, few=True).words(8) == (8, 1)


def nest_with(loops: str, dtype: str, **more: Any) -> BenchNest:
    return BenchNest("maps", "", dtype, {"N": 8}, {"x": Operand(("N",), dtype)}, ("N",), dtype, loops, lambda library: None, **more)


@pytest.mark.parametrize(
    ("loops", "dtype", "slots"),
    [
        ("for i in range(N):\n    out[i] = x[N - 1 - i]", "f16", 0),
        ("for i in range(N):\n    out[i] = x[i] * 2 + 1", "f32", 8),
        ("for i in range(N):\n    out[i] = x[i] * 2 + 1", "bf16", 8 + 8 * (1 + 3)),
        ("for i in range(N):\n    out[i] = max(x[i], 0.0)", "bf16", 8),
        ("for i in range(N):\n    s: total = 0.0\n    for k in range(i + 1):\n        s += exp(x[k])\n    out[i] = s", "f32", 36 * 9),
    ],
)
def test_slots_are_those_of_elements_and_of_narrow_floats_that_are_computed_with(loops: str, dtype: str, slots: float) -> None:
    assert slots_of(nest_with(loops, dtype)) == slots


def test_a_limit_on_the_cpu_is_the_largest_of_its_parts() -> None:
    lookups = Lookups(count=3 * SAMPLE, entries=100, entry_bytes=4, updates=True)
    nest = nest_with("for i in range(N):\n    out[i] = x[i] + 1", "u8", unit="i32", lookups=lookups, lengths=SAMPLE)
    limits = NestLimits(nest, SimpleNamespace(changes_of_4=None), np.random.default_rng(0))
    assert sorted(limits.calls(1)) == ["branches", "copy", "lookups", "straight"]
    times = {"copy": 1.0, "lookups": 2.0, "branches": 5.0, "straight": 1.0}
    assert limits.seconds(times, {"f32": 2.0, "f64": 1.0}) == {"copy": 1.0, "operations": 2.0, "lookups": 6.0, "lengths": 8.0}


def test_places_of_lookups_come_all_before_one_comes_again() -> None:
    places = drawn(Lookups(1e6, 1 << 18, 4), np.random.default_rng(0))
    assert len(places) == 1 << 20
    assert all((np.sort(places[start : start + (1 << 18)]) == np.arange(1 << 18)).all() for start in range(0, 1 << 20, 1 << 18))


def test_a_nest_that_needs_too_many_operations_is_drawn_with_fewer_bytes() -> None:
    for seed in range(20):
        nest = nest_of(seed, 1e6, 256e6, "products", 8e9)
        assert nest.operations <= 8e9
        assert nest.bytes > 0.3e6


def test_c_is_compared_over_the_right_rows() -> None:
    rows = [{"seed": 1, "kind": "copy", "state": "right", "ours_ms": 1.0, "c_ms": 4.0}]
    rows.append({"seed": 2, "kind": "life", "state": "right", "ours_ms": 2.0, "c_ms": 0.5})
    rows.append({"seed": 3, "kind": "pool", "state": "refused"})
    assert cpu_wide.against_c(rows) == "C over ours: geometric mean 1.00 of 2; below 0.9: 1: 2 life 0.25"
    assert cpu_wide.against_c(rows[2:]) == "no row has a time of C"


def test_every_row_counts_in_the_distribution(tmp_path: Path) -> None:
    rows = [{"family": "maps", "state": "right", "share": share} for share in (0.9, 0.8, 0.7)]
    rows += [{"family": "rows", "state": "refused"}, {"family": "rows", "state": "wrong", "share": 0.9}]
    figures = report.distribution(rows)
    assert figures["states"] == {"refused": 1, "right": 3, "wrong": 1}
    assert (figures["median"], figures["25th percentile"], figures["least"]) == (0.7, 0.0, 0.0)
    assert figures["families"] == {"rows": 0.0, "maps": 0.8}
    report.keep(tmp_path / "figures.json", {"runs": [], "rows": rows})
    assert report.kept(tmp_path / "figures.json")["rows"] == rows
    assert json.loads((tmp_path / "figures.json").read_text())["distribution"]["rows"] == 5


def test_two_files_are_compared_by_the_nests_that_both_have() -> None:
    def row(seed: int, state: str, time: float) -> report.Row:
        return {**report.described(nest_of(seed, LEAST, MOST)), "state": state, "ours_ms": time, "limit_ms": 1.0, "share": 1 / time}

    before = [row(0, "right", 4.0), row(1, "right", 2.0), row(2, "right", 1.0), row(3, "right", 1.0)]
    after = [row(0, "right", 8.0), row(1, "right", 1.0), row(2, "wrong", 1.0), row(4, "right", 1.0)]
    lines = report.compared(before, after).splitlines()
    assert lines[0].startswith("right before: ") and "WRONG" in lines[0]
    assert [line.split()[0] for line in lines[1:3]] == ["0.50", "2.00"]
    assert lines[3:] == ["before over after: geometric mean 1.000 of 2, least 0.50, most 2.00"]
    assert report.compared(before, []) == "no nest has a time in both"


def test_percentiles_lie_between_neighbours() -> None:
    assert report.percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert report.percentile([1.0, 2.0], 5) == pytest.approx(1.05)
    assert report.percentile([3.0], 95) == 3.0


def test_errors_are_of_any_element_and_equal_infinities_are_none() -> None:
    library = NumpyArrays(0)
    right = np.array([3.0, 4.0, -np.inf])
    assert largest_error(right.copy(), right, library) == 0.0
    assert largest_error(np.array([3.0, 4.5, -np.inf]), right, library) == pytest.approx(0.5 / (4 + 12.5**0.5))
    assert largest_error(np.array([3.0, 4.0, 1.0]), right, library) == np.inf
    assert largest_error(np.array([3.0, np.nan, -np.inf]), right, library) == np.inf
    assert largest_error(right[:2], right, library) == np.inf
