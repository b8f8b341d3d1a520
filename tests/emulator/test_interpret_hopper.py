"""Hopper's instructions in the emulator: a warp-specialised product, right in every order; and what each planted fault does."""

import ml_dtypes
import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.parse import parse_function
from compiler.hir.verify import faults, verify
from tests.emulated import Launch
from tests.warp_specialised import FREED_EARLY, GEMM, WITHOUT_RELEASE, WITHOUT_WAIT

SEEDS = (None, 0, 1, 2, 3)
FIRST = "%t = thread_idx x : index %first = inbounds of=t below=1 : i1 "


def multiply(text: str, m: int, n: int, k: int, seed: int | None = None) -> float:
    """The largest error of a product, in units of what rounding of the sums explains."""
    generator = np.random.default_rng(m + n + k)
    a, b = (generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), 7, np.float32)
    function = parse_function(text)
    verify(function)
    interpret(function, [a, b, c, m, n, k], seed=seed)
    x, y = a.astype(np.float64), b.astype(np.float64)
    allowed = 2.0**-23 * np.sqrt(k) * (np.abs(x) @ np.abs(y)) + 1e-30
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(c - x @ y) / allowed, initial=0))


@pytest.mark.parametrize("m,n,k,seed", [(128, 64, 128, None), (128, 64, 320, 0), (100, 40, 328, 1), (129, 72, 8, 2), (1, 8, 64, 3), (3, 8, 0, 4)])
def test_a_warp_specialised_product_is_right_in_every_order(m: int, n: int, k: int, seed: int | None) -> None:
    assert multiply(GEMM, m, n, k, seed) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stage_freed_one_group_early_is_wrong(seed: int | None) -> None:
    assert not multiply(FREED_EARLY, 128, 64, 256, seed) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_wait_for_products_is_wrong(seed: int | None) -> None:
    assert not multiply(WITHOUT_WAIT, 128, 64, 64, seed) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_release_is_a_deadlock_that_says_where_each_warp_is(seed: int | None) -> None:
    with pytest.raises(KernelFault) as caught:
        multiply(WITHOUT_RELEASE, 128, 64, 256, seed)
    assert caught.value.finding is not None
    assert (caught.value.code, caught.value.finding.message) == (
        "0416",
        "no thread can go on: block (0, 0, 0), warp 0: `mbar.wait %empty[-2*floor((p)/2)+p], %old` (phase 0, 0 of 2 arrivals, parity 0); "
        "block (0, 0, 0), warps 1, 2, 3: ended; block (0, 0, 0), warps 4, 5, 6, 7, 8, 9, 10, 11: "
        "`mbar.wait %full[-2*floor((k)/2)+k], %parity` (phase 1, 0 of 1 arrivals, parity 1)",
    )


# ---- bulk copies ---------------------------------------------------------------------------------------------------------

BOX = """%s = shared_alloc : mem<32xf32, shared, align=128> %full = mbar.make : barrier %zero = const 0 : i32 %old = const -1.0 : f32
store %s[t], %old
if %first { mbar.init %full[0] count=1 } sync_threads
if %first { mbar.expect %full[0] bytes=128 bulk_copy.g2s %s[0], %x[0], %full[0] box=[32] } sync_threads
WAIT %v = load %s[t] : f32 store %out[t], %v"""


@pytest.mark.parametrize("wait,arrives", [("mbar.wait %full[0], %zero", True), ("", False)])
def test_a_box_is_there_after_the_wait_and_not_before(wait: str, arrives: bool) -> None:
    x = np.arange(32, dtype=np.float32)
    launch = Launch("%x: mem<32xf32>, %out: mem<32xf32>", FIRST + BOX.replace("WAIT", wait), (x, 0 * x), {})
    out = launch.run()[1]
    assert np.array_equal(out, x) if arrives else not np.isin(out, x).any()


def test_bytes_that_are_not_expected_end_no_phase() -> None:
    body = FIRST + BOX.replace("bytes=128", "bytes=132").replace("WAIT", "mbar.wait %full[0], %zero")
    launch = Launch("%x: mem<32xf32>, %out: mem<32xf32>", body, (np.ones(32, np.float32),) * 2, {})
    with pytest.raises(KernelFault) as caught:
        launch.run()
    assert caught.value.finding is not None
    assert caught.value.finding.message.endswith("(phase 0, 1 of 1 arrivals, 4 bytes to come, parity 0)")


STORE = """%s = shared_alloc : mem<32xf32, shared, align=128> %v = load %x[t] : f32 store %s[t], %v fence_async sync_threads
if %first { bulk_copy.s2g %s[0], %out[0] box=[32] bulk_commit WAIT }
sync_threads %other = const -1.0 : f32 store %s[t], %other SYNC %w = load %out[t] : f32 store %seen[t], %w"""


def run_store(wait: str, sync: str = "") -> list[np.ndarray]:
    x = np.arange(32, dtype=np.float32)
    body = FIRST + STORE.replace("WAIT", wait).replace("SYNC", sync)
    return Launch("%x: mem<32xf32>, %out: mem<32xf32>, %seen: mem<32xf32>", body, (x, x + 100, 0 * x), {}).run()


def test_a_box_is_stored_when_it_is_waited_for() -> None:
    x, out, seen = run_store("bulk_wait count=0")
    assert np.array_equal(out, x) and np.array_equal(seen, x)


def test_a_box_that_was_read_is_in_the_tensor_later() -> None:
    x, out, seen = run_store("bulk_wait count=0 read=true")
    assert np.array_equal(out, x) and np.array_equal(seen, x + 100)


@pytest.mark.parametrize("wait", ["", "bulk_wait count=1", "bulk_wait count=1 read=true"])
def test_a_box_written_before_it_was_read_is_wrong(wait: str) -> None:
    _, out, _ = run_store(wait)
    assert (out == -1).all()


def test_stores_that_no_fence_covers_are_told() -> None:
    body = (FIRST + STORE).replace("fence_async", "").replace("WAIT", "bulk_wait count=0").replace("SYNC", "")
    launch = Launch("%x: mem<32xf32>, %out: mem<32xf32>, %seen: mem<32xf32>", body, (np.ones(32, np.float32),) * 3, {})
    with pytest.raises(KernelFault) as caught:
        launch.run()
    assert caught.value.finding is not None
    assert (caught.value.code, caught.value.finding.message) == (
        "0412",
        "`bulk_copy.s2g %s[0], %out[0] box=[32]` may not see what thread 0 of block 0 has stored",
    )


def test_a_fence_covers_what_others_have_stored_before_a_barrier() -> None:
    body = (FIRST + STORE).replace("fence_async sync_threads", "sync_threads fence_async").replace("WAIT", "bulk_wait count=0").replace("SYNC", "")
    x = np.arange(32, dtype=np.float32)
    launch = Launch("%x: mem<32xf32>, %out: mem<32xf32>, %seen: mem<32xf32>", body, (x, 0 * x, 0 * x), {1: x, 2: x})
    launch.check()


# ---- what is wrong in itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body,words",
    [
        ("%f = mbar.make : barrier mbar.arrive %f[0]", "`mbar.arrive %f[0]`: the barrier is not initialised"),
        ("%f = mbar.make : barrier<2> mbar.init %f[t+2] count=1", "`mbar.init %f[t+2]`: barrier 2 of 2"),
        ("%f = mbar.make : barrier %r = const 1 : i32 mbar.arrive %f[0] rank=%r", "`mbar.arrive %f[0] rank=%r`: block 1 of a cluster of 1"),
        ("setmaxnreg inc registers=24", "`setmaxnreg inc registers=24`: the threads have 256 registers"),
    ],
)
def test_wrong_use_is_told(body: str, words: str) -> None:
    with pytest.raises(ZyntaxError) as caught:
        Launch("", FIRST + body, (), {}, (128,)).run()
    assert caught.value.diagnostics[0].message == words


def test_more_registers_than_the_block_has_are_waited_for_in_vain() -> None:
    body = "setmaxnreg inc registers=240"
    with pytest.raises(KernelFault) as caught:
        Launch("", body, (), {}, (384,)).run()
    assert caught.value.code == "0416"
    assert "warps 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: `setmaxnreg inc registers=240`" in caught.value.finding.message  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "copy,words",
    [
        ("box=[8, 16, 8]", "2 coordinates and a box of 3 for a tensor of rank 2"),
        ("box=[257, 8]", "a box of (257, 8): 1 to 256 elements along each dim"),
        ("box=[8, 4]", "rows of 8 bytes: a multiple of 16"),
        ("box=[8, 128]", "rows of 256 bytes: the swizzle 128B takes 128"),
        ("box=[8, 8] offsets=[1]", "a window over a tensor of rank 2: 3 to 5"),
        ("box=[8, 64] step=[2, 2]", "steps of (2, 2) for a box of 2 dims: 1 to 8 along each, 1 along the last"),
        ("box=[8, 64] step=[9, 1]", "steps of (9, 1) for a box of 2 dims: 1 to 8 along each, 1 along the last"),
        ("box=[8, 64] step=[2]", "steps of (2,) for a box of 2 dims: 1 to 8 along each, 1 along the last"),
        ("box=[64, 64] step=[8, 1]", "a box of (64, 64) in steps of (8, 1): it reaches over 256 elements at most along each dim"),
    ],
)
def test_boxes_that_the_hardware_has_not_are_told(copy: str, words: str) -> None:
    text = f"""func @f(%x: mem<64x256xf16>) form=C {{ %s = shared_alloc : mem<64x64xf16, shared, swizzle="128B"> %f = mbar.make : barrier
    bulk_copy.g2s %s[0, 0], %x[0, 0], %f[0] {copy} }}"""
    assert any(f"`bulk_copy.g2s`: {words}" in fault for fault in faults(parse_function(text)))


def test_boxes_are_stored_in_the_steps_of_the_hardware() -> None:
    text = """func @f(%x: mem<64x256xf16>) form=C { %s = shared_alloc : mem<64x64xf16, shared, swizzle="128B">
    bulk_copy.s2g %s[0, 0], %x[0, 0] box=[8, 64] step=[9, 1] }"""
    words = "steps of (9, 1) for a box of 2 dims: 1 to 8 along each, 1 along the last"
    assert any(f"`bulk_copy.s2g`: {words}" in fault for fault in faults(parse_function(text)))


@pytest.mark.parametrize(
    "dtype,columns,words",
    [
        ("bf16", 12, "a product of shape (64, 12, 32): 64 rows, 8 to 256 columns by 8"),
        ("i8", 40, "a product of bytes with 40 columns: 8, 16, 24, or by 16"),
    ],
)
def test_products_that_the_hardware_has_not_are_told(dtype: str, columns: int, words: str) -> None:
    text = f"""func @f() form=C axes=[r:4] {{ %s = shared_alloc : mem<1x256x64x{dtype}, shared, swizzle="64B"> %z = const 0 : tile<r:4, i32>
    %yes = const true : i1 %m = wgmma.mma %z, %s[0, 0, 0], %s[0, 0, 0], %yes shape=[64, {columns}, 32] : tile<r:4, i32> }}"""
    assert any(f"`wgmma.mma`: {words}" in fault for fault in faults(parse_function(text)))


@pytest.mark.parametrize(
    ("copy", "words"),
    [
        ("bulk_copy.g2s %s[0], %x[3], %full[0] box=[32]", "a box that begins 12 bytes into a row: a multiple of 16"),
        ("bulk_copy.s2g %s[0], %x[-4] box=[32]", "a box that begins before the tensor, at (-4,): devices write none"),
    ],
)
def test_boxes_begin_where_devices_take_them(copy: str, words: str) -> None:
    text = f"""func @f(%x: mem<64xf32>) form=C kernel=[entry=true, threads=32, workgroup=[32, 1, 1]] {{
    %s = shared_alloc : mem<32xf32, shared, align=1024> %full = mbar.make : barrier %t = thread_idx x : index
    %first = inbounds of=t below=1 : i1 if %first {{ mbar.init %full[0] count=1 }} sync_threads
    if %first {{ {copy} }} }}"""
    with pytest.raises(ZyntaxError) as caught:
        interpret(parse_function(text), [np.zeros(64, np.float32)])
    assert words in str(caught.value)
