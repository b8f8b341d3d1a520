"""Attention in the emulator, as the launches of an architecture, against float64."""

from typing import Any

import ml_dtypes
import numpy as np

import zynml
from compiler.emulator.interpret import interpret
from compiler.fusion.program_kernels import kernels
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Mem
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.launch.emulator import as_given
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from tests.attentions import AXES, Case, expected, inputs, source

NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8}


def is_written(parameter: Value) -> bool:
    return isinstance(parameter.type, Mem) and not parameter.type.readonly


def run(
    text: str,
    arrays: dict[str, Any],
    sizes: dict[str, int],
    shape: tuple[int, ...],
    dtype: str,
    architecture: str = "sm_90a",
    product: Any = WarpgroupMma,
    partial: tuple[int, ...] = (),
    processors: int = 132,
) -> Any:
    """Results of the program's one block, of the launch that multiplies in this way and of what it was made from. `partial`: the extents of the partial
    sums where blocks share the keys: batches, groups of heads, tiles of rows, blocks that share, rows of a tile, columns."""
    ((_, kernel),) = kernels(zynml.compile(text)._session)
    field = kernel.field
    if field is None:
        assert kernel.analysed.assuming is not None and kernel.analysed.assuming.holds(sizes)
        field = kernel.analysed.assuming.field
    names = [one.name for one in kernel.nest.parameters]
    known_sizes = {name: sizes[name] for name in names if name in sizes}
    made = launches_for(kernel.nest, field, facts_of(known_sizes, names, MACHINES[architecture], processors))
    (launch,) = made.launches
    verify(launch.function)
    assert any(isinstance(op, product) for top in launch.function.body.body for op in top.walk())
    out = np.full(shape, -7, NUMPY[dtype])
    given = {**sizes, **arrays, "out": out}
    arguments, known = made.counted([given[name] for name in names], {name: given[name] for name in names if name in sizes})
    shared = [np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], 99, numpy_dtype(mem.dtype)) for mem in made.workspaces]
    assert not partial or shared[0].shape == partial
    for place in made.zeros:
        shared[place][...] = 0
    own_views = [as_given(*pair, known) for pair in zip(launch.function.parameters, arguments, strict=False)]
    interpret(launch.function, [*own_views, *shared], grid=(launch.blocks(known), 1, 1))
    assert all(not shared[place].any() for place in made.zeros)
    results = [out]
    for _, form in launch.forms:
        verify(form)
        results.append(np.full(shape, -7, NUMPY[dtype]))
        by_name = {one.name: view for one, view in zip(launch.function.parameters, own_views, strict=False)}
        rows = {one.name: by_name[one.name].copy() for one in form.parameters if one.name in arrays and is_written(one)}
        by_name |= {**rows, "out": as_given(next(one for one in form.parameters if one.name == "out"), results[-1], known)}
        interpret(form, [by_name[one.name] for one in form.parameters])
        for name, row in rows.items():
            np.testing.assert_allclose(row.reshape(arrays[name].shape), arrays[name], rtol=1e-4, atol=1e-4)
    return np.stack(results).astype(np.float64)


def check(
    passes: str,
    case: Case,
    sizes: tuple[int, int, int, int, int, int],
    dtype: str = "bf16",
    layout: str = "heads outside",
    group: int = 1,
    scale: float | None = None,
    change: Any = None,
    warps: str | None = None,
    partial: tuple[int, ...] = (),
    processors: int = 132,
) -> None:
    """`warps`: an architecture on which warps multiply; else warpgroups do. `processors`: blocks that take tiles of queries, at most."""
    b, h, m, n, d, c = sizes
    random = np.random.default_rng(m * n)
    known = dict(zip("BHMNDC", sizes, strict=True)) | {"G": h // group, "W": 40}
    extents = {"b": b, "h": h, "m": m, "n": n, "e": d, "d": c, "g": h // group}
    q, k, v = (random.standard_normal([extents[axis] for axis in axes]).astype(NUMPY[dtype]) for axes in AXES[layout][:3])
    if change is not None:
        change(q, k, v)
    extra = {"scale": d**-0.5 if scale is None else scale, **inputs(case, sizes, 40, random)}
    text = source(passes, case, dtype, layout, "h" if group == 1 else f"h / {group}")
    shape = [extents[axis] for axis in AXES[layout][3]]
    way = ("sm_90a", WarpgroupMma) if warps is None else (warps, WarpMma)
    found = run(text, {"Q": q, "K": k, "V": v, **extra}, known, tuple(shape), dtype, *way, partial, processors)
    wanted, size = expected(case, q, k, v, extra, layout, None if group == 1 else lambda heads: heads // group)
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= 2 * ULP[dtype] * size + 1e-6
    assert np.all(close | (np.isnan(found) & np.isnan(wanted)) | ((found == wanted) & np.isinf(wanted)))
