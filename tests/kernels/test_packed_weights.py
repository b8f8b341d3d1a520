"""Products with weights of 4 bits, two in a byte, and scales that groups of them share, as textbooks write them: against NumPy in float64,
at sizes that no tile divides."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.schedule.gpu.products import computed_operands, copied_operands
from tests.schedule.test_gpu_convolutions import built, launches, on_warpgroups

BF16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_80", "emulator:sm_90a")
ROUNDED = 2.0**-8
"""Of a result of bf16; and what sums of f32 are off by, of the sum of their terms' sizes."""
SUMMED = 2.0**-20

BODY = """
fn f(X: tensor[M, K, bf16], W: tensor[FIRST, SECOND, u8], S: tensor[GROUPS, N, SCALE], Z: tensor[GROUPS2, N, u8]) {
    return compute(X, W, S, Z) -> tensor[M, N, bf16] {
        for m in 0..M, n in 0..N:
            var sum: f32 = 0.0
            for k in 0..K:
                TERM
            out[m, n] = sum
    }
}"""

BYTE = "(W[k / 2, n] as i32 >> (4 * (k % 2))) & 15"
TERMS = {
    "shifted": f"sum += X[m, k] * ((({BYTE}) - 8) as f32) * S[k / GROUP, n]",
    "named": f"let q = {BYTE}\n                sum += X[m, k] * (((q as f32) - 8.0) * S[k / GROUP, n])",
    "chosen": """var q = W[k / 2, n] as i32 & 15
                if k % 2 == 1: q = W[k / 2, n] as i32 >> 4
                sum += X[m, k] * ((q - 8) as f32) * S[k / GROUP, n]""",
    "zero points": f"sum += X[m, k] * ((({BYTE}) - (Z[k / GROUP, n] as i32)) as f32) * S[k / GROUP, n]",
    "turned": "sum += X[m, k] * ((((W[n, k / 2] as i32 >> (4 * (k % 2))) & 15) - 8) as f32) * S[k / GROUP, n]",
    "rounded": f"let w = ((({BYTE}) - 8) as f32 * S[k / GROUP, n]) as bf16\n                sum += X[m, k] * w",
}
WHOLE = {
    "groups": """for g in 0..K / GROUP:
                var part: f32 = 0.0
                for t in 0..GROUP:
                    let k = g * GROUP + t
                    part += X[m, k] * ((((W[k / 2, n] as i32 >> (4 * (k % 2))) & 15) - 8) as f32)
                sum += part * S[g, n]""",
    "both of a byte": """for h in 0..H:
                let low = (W[h, n] & 15) as i8 - 8
                let high = (W[h, n] >> 4) as i8 - 8
                sum += X[m, 2 * h] * (low as f32) * S[h / HALF, n] + X[m, 2 * h + 1] * (high as f32) * S[h / HALF, n]""",
    "halves of a block": """for b in 0..K / 32, t in 0..16:
                let w = W[b * 16 + t, n]
                sum += X[m, b * 32 + t] * (((w & 15) as i32 - 8) as f32) * S[b / 4, n]
                sum += X[m, b * 32 + 16 + t] * (((w >> 4) as i32 - 8) as f32) * S[b / 4, n]""",
}
"""Terms with loops of their own."""
SIZES = ((1, 67, 256), (3, 130, 203), (16, 64, 384), (33, 70, 260))


@pytest.fixture(autouse=True)
def _worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further launches pay for small sizes, too."""
    for module in (computed_operands, copied_operands):
        monkeypatch.setattr(module, "WORTH", 0)


def source(term: str, group: int, scale: str = "bf16") -> str:
    if term in WHOLE:
        text = BODY.replace("for k in 0..K:\n                TERM", WHOLE[term])
    else:
        text = BODY.replace("TERM", TERMS[term])
    text = text.replace("GROUPS", "COUNT").replace("GROUP", f"{group}").replace("HALF", f"{group // 2}").replace("SCALE", scale)
    return text.replace("FIRST, SECOND", "N, H" if term == "turned" else "H, N")


def packed(m: int, n: int, k: int, group: int, scale: Any = BF16, seed: int = 3) -> tuple[list[Array], Array, Array]:
    """The arrays of a call; the weights without their scales, and the scales, in float64."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((m, k)).astype(BF16)
    q = random.integers(0, 16, (k + k % 2, n))
    groups = -(-k // group)
    s = (random.random((groups, n)) + 0.5).astype(scale)
    z = random.integers(0, 16, (groups, n)).astype(np.uint8)
    w = (q[0::2] | (q[1::2] << 4)).astype(np.uint8)
    return [x, w, s, z], q[:k].astype(float), np.repeat(s.astype(float), group, 0)[:k]


def check(term: str, device: str, m: int, n: int, k: int, group: int, scale: str = "bf16") -> None:
    numpy = {"bf16": BF16, "f16": np.float16, "f32": np.float32}[scale]
    (x, w, s, z), q, scales = packed(m, n, k, group, numpy)
    less = np.repeat(z.astype(float), group, 0)[:k] if term == "zero points" else 8.0
    weights = (q - less) * scales
    if term == "rounded":
        weights = weights.astype(BF16).astype(float)
    if term == "halves of a block":
        halves = q.astype(np.uint8).reshape(-1, 2, 16, n)
        w = (halves[:, 0] | halves[:, 1] << 4).reshape(-1, n)
    if term == "turned":
        w = np.ascontiguousarray(w.T)
    got = np.asarray(zynml.compile(source(term, group, scale), device=device).f(x, w, s, z)).astype(float)
    wanted, sizes = x.astype(float) @ weights, np.abs(x.astype(float)) @ np.abs(weights)
    assert (np.abs(got - wanted) <= np.abs(wanted) * ROUNDED + sizes * SUMMED).all()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("device", DEVICES)
def test_each_spelling_at_sizes_that_nothing_divides(device: str, term: str, sizes: tuple[int, int, int]) -> None:
    check(term, device, *sizes, group=128)


@pytest.mark.parametrize("sizes", [(1, 67, 256), (16, 64, 384), (33, 70, 256)], ids=str)
@pytest.mark.parametrize("term", WHOLE)
@pytest.mark.parametrize("device", DEVICES)
def test_sums_that_are_written_in_parts(device: str, term: str, sizes: tuple[int, int, int]) -> None:
    check(term, device, *sizes, group=128)


@pytest.mark.parametrize("group", [32, 64, 96])
@pytest.mark.parametrize("scale", ["f16", "f32"])
@pytest.mark.parametrize("device", DEVICES[1:])
def test_groups_and_scales_of_other_sizes(device: str, scale: str, group: int) -> None:
    check("shifted", device, 5, 96, 320, group, scale)
    check("turned", device, 18, 96, 320, group, scale)


BITS = {
    "two rows of i8": ("i8", 4, "(W[k / 2, n] as i32 >> (4 * (k % 2))) & 15"),
    "eight of a word": ("u32", 4, "((W[k / 8, n] >> ((k % 8) as u32 * 4)) & 15) as i32"),
    "eight of a word along the sum": ("u32", 4, "((W[n, k / 8] >> ((k % 8) as u32 * 4)) & 15) as i32"),
    "four of a halfword": ("u16", 4, "((W[k / 4, n] as i32) >> (4 * (k % 4))) & 15"),
    "two bits": ("u8", 2, "(W[k / 4, n] as i32 >> 2 * (k % 4)) & 3"),
    "two bits along the sum": ("u8", 2, "(W[n, k / 4] as i32 >> 2 * (k % 4)) & 3"),
    "one bit": ("u8", 1, "(W[k / 8, n] as i32 >> k % 8) & 1"),
    "by quotients": ("u8", 4, "(W[k / 2, n] as i32 / (1 + 15 * (k % 2))) % 16"),
    "seven bits of eight": ("u8", 7, "W[k, n] as i32 % 128"),
}
"""The type of elements, and the bits of a number among those of an element, of which the first number has the lowest."""


@pytest.mark.parametrize(("rows", "columns", "terms"), [(1, 72, 256), (3, 131, 392), (16, 64, 256)])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("name", BITS)
def test_bits_of_any_elements(name: str, dtype: str, rows: int, columns: int, terms: int) -> None:
    element, bits, text = BITS[name]
    numpy = np.dtype({"u8": np.uint8, "i8": np.int8, "u16": np.uint16, "u32": np.uint32}[element])
    random = np.random.default_rng(11)
    each = max(1, numpy.itemsize * 8 // bits)
    q = random.integers(0, 1 << bits, (terms, columns))
    places = (q.reshape(-1, each, columns).astype(np.uint64) << (bits * np.arange(each, dtype=np.uint64))[None, :, None]).sum(1)
    w = places.astype(f"u{numpy.itemsize}").view(numpy)
    dims = "N, H" if "[n," in text else "H, N"
    x = random.standard_normal((rows, terms)).astype(BF16 if dtype == "bf16" else np.float16)
    source = f"""
fn f(X: tensor[M, K, {dtype}], W: tensor[{dims}, {element}]) {{
    return compute(X, W) -> tensor[M, N, f32] {{
        for m in 0..M, n in 0..N:
            var sum: f32 = 0.0
            for k in 0..K:
                let q = {text}
                sum += X[m, k] * ((q - 1) as f32)
            out[m, n] = sum
    }}
}}"""
    made = launches(built(source), {"M": rows, "N": columns, "K": terms, "H": len(w)})
    assert "pairs of numbers are taken from registers" in made.words[1]
    got = np.asarray(zynml.compile(source, device="emulator:sm_90a").f(x, np.ascontiguousarray(w.T) if dims == "N, H" else w))
    wanted, sizes = x.astype(float) @ (q - 1.0), np.abs(x.astype(float)) @ np.abs(q - 1.0)
    assert (np.abs(got - wanted) <= sizes * SUMMED).all()


@pytest.mark.parametrize("rows", [2, 70])
def test_a_scale_that_is_infinite_is_a_factor_of_terms(rows: int) -> None:
    """Terms of both signs make NaN, which their sum times the scale wouldn't be."""
    (x, w, s, z), q, _ = packed(rows, 96, 256, 128)
    s[0, 7], s[1, 9] = np.inf, np.nan
    got = np.asarray(zynml.compile(source("shifted", 128), device="emulator:sm_90a").f(x, w, s, z)).astype(float)
    terms = x.astype(float)[:, :, None] * (q - 8)[None]
    with np.errstate(all="ignore"):
        wanted = (terms * np.repeat(s.astype(float), 128, 0)[None]).sum(1)
    assert np.isnan(wanted[:, 7]).any()
    assert (np.isnan(got) == np.isnan(wanted)).all()


@pytest.mark.parametrize("rows", [2, 70])
def test_groups_with_a_scale_of_0_count_nothing(rows: int) -> None:
    """Sums are kept in units of the scale before, which has none where all before were 0. Scales of one column lie far apart."""
    (x, w, s, z), q, _ = packed(rows, 96, 640, 128, np.float32)
    zeros = {0: [0], 1: [0, 1], 2: [2], 3: [1, 2, 3], 4: [4], 5: [3, 4], 6: [0, 2, 4], 7: range(5), 8: range(4)}
    for column, groups in zeros.items():
        s[[*groups], column] = 0
    s[:, 9], s[:, 10] = [1e-20, 1e15, 0, 1e-15, -1.0], [1e15, -1e-18, 1e-18, 0, 1e9]
    scales = np.repeat(s.astype(float), 128, 0)
    weights = (q - 8) * scales
    for term in ("shifted", "zero points"):
        z[:] = 8  # the same weights, made in a launch before
        got = np.asarray(zynml.compile(source(term, 128, "f32"), device="emulator:sm_90a").f(x, w, s, z)).astype(float)
        wanted, sizes = x.astype(float) @ weights, np.abs(x.astype(float)) @ np.abs(weights)
        assert (np.abs(got - wanted) <= np.abs(wanted) * ROUNDED + sizes * SUMMED).all()
        assert (got[:, 7] == 0).all()


@pytest.mark.parametrize("term", [*TERMS, *WHOLE])
@pytest.mark.parametrize("rows", [1, 16])
def test_few_rows_read_weights_once(term: str, rows: int) -> None:
    """One launch, without the weights in any memory of its own."""
    made = launches(built(source(term, 128)), {"M": rows, "N": 4096, "K": 4096, "H": 2048, "COUNT": 32, "COUNT2": 32})
    assert len(made.launches) == 1
    assert not made.workspaces
    assert made.words[0].startswith("rows are few")


@pytest.mark.parametrize("term", ["shifted", "named", "chosen", "zero points", *WHOLE])
def test_scales_of_groups_multiply_sums_and_not_weights(term: str) -> None:
    """Weights are whole numbers in bf16, which has them: one product on tensor cores, where factors of f32 would take three. Bits of bytes
    become that in registers; zero points are subtracted before."""
    made = launches(built(source(term, 128)), {"M": 128, "N": 4096, "K": 4096, "H": 2048, "COUNT": 32, "COUNT2": 32}, 132)
    before = [mem.dtype for mem in made.workspaces if mem.rank == 2 and mem.dtype != "u32"]  # but which sums are there
    assert (before, len(made.launches)) == ((["bf16"], 2) if term == "zero points" else ([], 1))
    assert on_warpgroups(made)


@pytest.mark.parametrize("term", ["shifted", "chosen", *WHOLE])
def test_warpgroups_make_rows_of_bytes(term: str) -> None:
    check(term, "emulator:sm_90a", *((200, 272, 384) if term == "shifted" else (70, 144, 256)), group=128)


@pytest.mark.parametrize("out", ["m, n", "n, m"])
@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize("name", ["two bits", "one bit", "by quotients", "seven bits of eight"])
def test_warpgroups_make_rows_of_bits_of_any_width(name: str, to: str, out: str) -> None:
    """Without scales, and with results that are contiguous along rows, or along columns."""
    _, bits, text = BITS[name]
    rows, columns, terms = 72, 144, 200
    random, each = np.random.default_rng(13), max(1, 8 // bits)
    q = random.integers(0, 1 << bits, (terms, columns))
    w = (q.reshape(-1, each, columns) << (bits * np.arange(each))[None, :, None]).sum(1).astype(np.uint8)
    x = random.standard_normal((rows, terms)).astype(BF16)
    dims = ", ".join(axis.upper() for axis in out.split(", "))
    program = f"""
fn f(X: tensor[M, K, bf16], W: tensor[H, N, u8]) {{
    return compute(X, W) -> tensor[{dims}, {to}] {{
        for m in 0..M, n in 0..N:
            var sum: f32 = 0.0
            for k in 0..K:
                let q = {text}
                sum += X[m, k] * ((q - 1) as f32)
            out[{out}] = sum
    }}
}}"""
    made = launches(built(program), {"M": rows, "N": columns, "K": terms, "H": len(w)})
    assert on_warpgroups(made)
    assert not [mem for mem in made.workspaces if mem.rank == 2]
    got = np.asarray(zynml.compile(program, device="emulator:sm_90a").f(x, w)).astype(float)
    wanted, sizes = x.astype(float) @ (q - 1.0), np.abs(x.astype(float)) @ np.abs(q - 1.0)
    got = got if out == "m, n" else got.T
    assert (np.abs(got - wanted) <= sizes * SUMMED + (np.abs(wanted) * ROUNDED if to == "bf16" else 0)).all()
