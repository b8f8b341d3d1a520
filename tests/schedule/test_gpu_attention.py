"""Attention on warpgroups means the field: the scores once, masks and scales as written, ragged ends."""

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.hopper import BarrierMake, WarpgroupMma
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.attention.launch import AttentionLaunch
from compiler.schedule.gpu.attention.on_warpgroups import WarpgroupBlock, attention_on_warpgroups, read_roles
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import Facts, facts_of, specialised
from compiler.schedule.launches import Launches

NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}

ATTENTION = """func @attend(%Q: mem<HxMxDxTYPE, readonly>, %K: mem<HxNxDxTYPE, readonly>, %V: mem<HxNxCxTYPE, readonly>, %out: mem<HxMxCxTYPE>,
  %H: index, %M: index, %D: index, %N: index, %C: index) form=F axes=[h:H, i:M, d:C, e:D, j:N] kernel=[entry=true, kind=attention] {
    %scale = const 0.125 : f32
    %q = load %Q[h, i, e] : tile<e:D, h:H, i:M, TYPE>
    %k = load %K[h, j, e] : tile<e:D, h:H, j:N, TYPE>
    %s = contract %q, %k over=[e] : tile<h:H, i:M, j:N, f32>
    %x = mul %s, %scale contract : tile<h:H, i:M, j:N, f32>
    MASK
    %m = reduce max %y over=[j] : tile<h:H, i:M, f32>
    %z = sub %y, %m contract : tile<h:H, i:M, j:N, f32>
    %p = exp %z : tile<h:H, i:M, j:N, f32>
    %v = load %V[h, j, d] : tile<d:C, h:H, j:N, TYPE>
    %w = cast %v to=f32 : tile<d:C, h:H, j:N, f32>
    %l = reduce add %p over=[j] reassoc contract : tile<h:H, i:M, f32>
    %o = contract %p, %w over=[j] : tile<d:C, h:H, i:M, f32>
    %r = div %o, %l contract : tile<d:C, h:H, i:M, f32>
    %t = cast %r to=TYPE : tile<d:C, h:H, i:M, TYPE>
    store %out[h, i, d], %t }"""
FULL = "%y = add %x, %x : tile<h:H, i:M, j:N, f32>"
CAUSAL = """%hidden = const -inf : f32
    %row = index of=i : tile<i:M, index>
    %column = index of=j : tile<j:N, index>
    %seen = le %column, %row : tile<i:M, j:N, i1>
    %y = select %seen, %x, %hidden : tile<h:H, i:M, j:N, f32>"""


def attention(dtype: str, mask: str) -> HirFunction:
    return parse_function(ATTENTION.replace("MASK", mask).replace("TYPE", dtype))


def facts(h: int, m: int, n: int, d: int, c: int) -> Facts:
    return facts_of({"H": h, "M": m, "D": d, "N": n, "C": c}, ["Q", "K", "V", "out"], MACHINES["sm_90a"], 132)


def launches(field: HirFunction, known: Facts) -> Launches:
    made = launches_for(field, field, known)
    (launch,) = made.launches
    verify(launch.function)
    products = [op for top in launch.function.body.body for op in top.walk() if isinstance(op, WarpgroupMma)]
    assert any(op.a_index and not op.transpose_b for op in products) and any(op.transpose_b for op in products)
    return made


@pytest.mark.parametrize(
    ("dtype", "mask", "sizes"),
    [
        ("f16", FULL, (1, 128, 128, 64, 64)),
        ("bf16", CAUSAL, (2, 100, 100, 64, 64)),
        ("f16", CAUSAL, (1, 70, 200, 40, 128)),
        ("bf16", FULL, (1, 65, 520, 64, 64)),
        ("f16", FULL, (1, 66, 3, 64, 72)),
    ],
    ids=str,
)
def test_warpgroups_mean_attention(dtype: str, mask: str, sizes: tuple[int, int, int, int, int]) -> None:
    h, m, n, d, c = sizes
    random = np.random.default_rng(m)
    q, k, v = (random.standard_normal(shape).astype(NUMPY[dtype]) for shape in ((h, m, d), (h, n, d), (h, n, c)))
    out = np.full((h, m, c), -7, NUMPY[dtype])
    made = launches(attention(dtype, mask), facts(h, m, n, d, c))
    arguments, known = made.counted([q, k, v, out, h, m, d, n, c], {"H": h, "M": m, "D": d, "N": n, "C": c})
    (launch,) = made.launches
    taken = np.zeros(1, np.uint32)
    interpret(launch.function, [*arguments, taken], grid=(launch.blocks(known), 1, 1))
    assert not taken.any()
    scores = np.einsum("hie,hje->hij", q.astype(np.float64), k.astype(np.float64)) * 0.125
    if mask is CAUSAL:
        scores = np.where(np.arange(n)[None, :] <= np.arange(m)[:, None], scores, -np.inf)
    else:
        scores = 2 * scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)
    unit = {"f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
    magnitude = weights @ np.abs(v.astype(np.float64)) / weights.sum(-1, keepdims=True)
    assert np.all(np.abs(out.astype(np.float64) - expected) <= 2 * unit * magnitude + 1e-6)


def test_threads_are_made_of_the_text_of_roles() -> None:
    """Another scale, another mask and another number of stages there are those of the launch."""
    h, m, n, d, c = 1, 130, 300, 16, 24
    known = facts(h, m, n, d, c)
    made = launches(attention("bf16", CAUSAL), known)
    (launch,) = made.launches
    text = print_function(dict(launch.forms)["split-roles"])
    changed = text.replace("const 0.125", "const 0.5").replace("ring<2 x (tile<e:16, j", "ring<1 x (tile<e:16, j").replace(" = le ", " = ge ")
    roles = parse_function(changed)
    verify(roles)
    _, _, about = specialised(attention("bf16", CAUSAL), known)
    block = launches_of_blocks(AttentionLaunch(*read_roles(roles, about), WarpgroupBlock).run()).launches[0]
    stages = [op.type.count for top in block.function.body.body for op in top.walk() if isinstance(op, BarrierMake)]
    assert stages == [2, 2, 2, 2, 1, 1, 2, 2]  # full and empty, of queries, of what is found of them, of keys, of values
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal(shape).astype(NUMPY["bf16"]) for shape in ((h, m, d), (h, n, d), (h, n, c)))
    out = np.full((h, m, c), -7, NUMPY["bf16"])
    arguments, sizes = made.counted([q, k, v, out, h, m, d, n, c], {"H": h, "M": m, "D": d, "N": n, "C": c})
    interpret(block.function, [*arguments, np.zeros(1, np.uint32)], grid=(block.blocks(sizes), 1, 1))
    scores = np.einsum("hie,hje->hij", q.astype(np.float64), k.astype(np.float64)) * 0.5
    weights = np.exp(np.where(np.arange(n)[None, :] >= np.arange(m)[:, None], scores, -np.inf))
    expected, size = (weights @ values / weights.sum(-1, keepdims=True) for values in (v.astype(np.float64), np.abs(v.astype(np.float64))))
    assert np.all(np.abs(out.astype(np.float64) - expected) <= 2 * 2.0**-8 * size + 1e-6)


@pytest.mark.parametrize("sizes", [(64, 4096, 4096, 128, 128), (64, 4096, 4096, 64, 64), (3, 1000, 1000, 80, 80)], ids=str)
@pytest.mark.parametrize("mask", [FULL, CAUSAL], ids=["full", "causal"])
def test_the_assembler_keeps_products_side_by_side(sizes: tuple[int, int, int, int, int], mask: str) -> None:
    made = launches(attention("bf16", mask), facts(*sizes))
    module = compile_kernels([one.function for one in made.launches], gpu_target("sm_90a"))
    assert module.hands_registers
    # that setmaxnreg is dropped there leaves fewer registers than a GPU's driver gives: C7512
    log = assemble(module).log
    assert "C7509" not in log and "C7510" not in log and "C7519" not in log, log


def test_what_warpgroups_do_not_take_is_left_to_others() -> None:
    field = attention("f16", FULL)
    good = facts(8, 1024, 1024, 64, 64)

    def taken(known: Facts) -> bool:
        made, _, about = specialised(field, known)
        return attention_on_warpgroups(made, about) is not None

    assert taken(good)
    assert not taken(evolve(good, machine=MACHINES["sm_90"]))
    assert not taken(facts(8, 1024, 1024, 60, 64))  # rows that don't begin at multiples of 16 bytes
    assert not taken(facts(8, 1024, 1024, 320, 64))
    assert not taken(facts(8, 16, 1024, 64, 64))


def test_exponentials_of_something_else_less_the_maximum_are_left_to_others() -> None:
    text = ATTENTION.replace(
        "%l = reduce add %p over",
        "%u = sub %s, %m : tile<h:H, i:M, j:N, f32> %g = exp %u : tile<h:H, i:M, j:N, f32> %l = reduce add %g over",
    )
    field = parse_function(text.replace("MASK", FULL).replace("TYPE", "f16"))
    made, _, about = specialised(field, facts(8, 1024, 1024, 64, 64))
    assert attention_on_warpgroups(made, about) is None
