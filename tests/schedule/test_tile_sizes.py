"""`@tile` and `@shared`: tiles have the sizes that are said, a block has no more shared memory, values stay what they are."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from zynml import ZynMLError

PRODUCT = """def f(A: tensor[M, K, {dtype}], B: tensor[K, N, {dtype}]): tensor {{
    compute(A, B) {said} {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }}
}}
"""

MAP = """def f(A: tensor[M, N]): tensor {{
    compute(A) {said} {{ for r in 0..M, c in 0..N: out[r, c] = 2.0 * A[r, c] }}
}}
"""

SUMS = """def f(A: tensor[M, N]): tensor {{
    compute(A) {said} {{
        for r in 0..M:
            var s = 0.0
            for c in 0..N: s += A[r, c]
            out[r] = s
    }}
}}
"""


def compiled(text: str, said: str, device: str = "cpu", dtype: str = "f32") -> Any:
    return zynml.compile(text.format(said=said, dtype=dtype), device=device)


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a", "emulator:sm_75"])
@pytest.mark.parametrize("said", ["", "@tile(m=16, n=32, k=16)", "@tile(i=48, j=16)", "@tile(k=32)", "@shared(4096)", "@shared(100)"])
def test_products_are_what_they_are_whatever_tiles_they_have(said: str, device: str) -> None:
    random = np.random.default_rng(5)
    for rows, terms, columns in ((70, 90, 50), (3, 2, 1)) if device == "cpu" else ((40, 36, 20),):
        a, b = random.random((rows, terms), np.float32), random.random((terms, columns), np.float32)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(compiled(PRODUCT, said, device).f(a, b), expected, atol=1e-6 * terms)


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_maps_and_sums_are_what_they_are_whatever_tiles_they_have(device: str) -> None:
    a = np.random.default_rng(6).random((13, 130), np.float32)
    for said in ("@tile(r=3)", "@tile(c=512)", "@tile(r=2, c=1024)"):
        np.testing.assert_array_equal(compiled(MAP, said, device).f(a), 2 * a)
    sums = compiled(SUMS, "@tile(c=32)" if device == "cpu" else "", device).f(a)
    np.testing.assert_allclose(sums, a.astype(np.float64).sum(1), atol=1e-4)


def test_the_cpu_has_these_tiles_in_registers() -> None:
    schedule = compiled(MAP, "@tile(r=3, c=32)").schedule
    assert re.search(r"^ *r: thread, registers 3$", schedule, re.M)
    registers, lanes = re.search(r"^ *c: time(?:, registers (\d+))?, simd (\d+)$", schedule, re.M).groups(default="1")  # type: ignore[union-attr]
    assert int(registers) * int(lanes) == 32
    assert "`@tile(r=3, c=32)` is followed" in schedule


def test_large_products_on_the_cpu_have_blocks_of_these_sizes() -> None:
    schedule = compiled(PRODUCT, "@tile(m=96, n=64, k=64)").schedule
    assert re.search(r"large: panels of \d+ along i and of \d+ along j, blocks of 64 along k, of results 96 by 64$", schedule, re.M)


def like(said: str, dtype: str, target: str) -> str:
    program = zynml.compile(PRODUCT.format(said=said, dtype=dtype))
    session = program._session
    (kernel,) = session.launches_like(["A=512x512", "B=512x512"], f"emulator:{target}")
    assert kernel.threads is not None and kernel.threads.launches is not None
    return "\n".join(kernel.threads.launches.words)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_tensor_cores_have_tiles_of_these_sizes(target: str) -> None:
    words = like("@tile(m=128, n=64, k=64)", "bf16", target)
    assert "`@tile(m=128, n=64, k=64)` is followed" in words
    assert "tiles of 128 by 64" in words or "128 by 64 sums a block" in words


def test_a_square_of_threads_has_tiles_of_these_sizes() -> None:
    assert "is followed" in like("@tile(m=32, n=64, k=32)", "f32", "sm_75")


def test_a_cap_of_shared_memory_is_kept() -> None:
    for cap in (100, 20000, 60000):
        for target in ("sm_90a", "sm_80"):
            found = re.search(rf"`@shared\({cap}\)` is followed: a block has (\d+) bytes", like(f"@shared({cap})", "bf16", target))
            assert found is not None and int(found[1]) <= cap


def refusal(said: str, dtype: str, target: str) -> str:
    with pytest.raises(Exception) as error:
        like(said, dtype, target)
    (diagnostic,) = error.value.diagnostics  # type: ignore[attr-defined]
    return f"{diagnostic.code}: {diagnostic.message}; {diagnostic.hint}"


def test_what_no_tile_can_have_is_an_error_that_says_what_can() -> None:
    assert refusal("@tile(k=48)", "bf16", "sm_90a") == (
        "0503: `@tile` of 48 terms can't be done: a step of the sum is 128 bytes of a row; 64 terms can"
    )
    assert refusal("@tile(m=24)", "bf16", "sm_80") == (
        "0503: `@tile` has no size that tensor cores take here; "
        "tiles can be 128 by 256, 256 by 128, 128 by 128, 128 by 64, 64 by 128, 64 by 64, with steps of 64 terms"
    )
    assert refusal("@tile(m=20)", "f32", "sm_75") == (
        "0503: `@tile(m=20)` can't be done on `sm_75`; sizes along `m` can be multiples of 32, 512 at most"
    )
    assert refusal("@tile(n=24)", "bf16", "sm_90a").startswith("0503: no tile holds what the schedule's annotations say together; tiles can be")


def test_tiles_are_named_by_loops_or_parts_of_a_product() -> None:
    with pytest.raises(ZynMLError, match="`@tile` names `z`, which is no loop of the block"):
        compiled(MAP, "@tile(z=3)")


def test_what_belongs_to_products_on_warpgroups_is_not_followed_elsewhere() -> None:
    assert "`@warps` isn't followed: only products on warpgroups are cut so, and this block is none there" in like("@warps(4)", "f32", "sm_75")
    assert "isn't followed" not in like("@warps(4)", "bf16", "sm_90a")
