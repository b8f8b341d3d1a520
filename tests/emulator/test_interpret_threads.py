"""Form C in the interpreter: places, barriers, shared memory, atomics, warps, tensor cores, copies; and the faults of threads."""

import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify


def run(body: str, parameters: str, *arguments: object, grid: tuple[int, ...] = (1,), block: tuple[int, ...] = (64,), **more: int) -> None:
    function = parse_function(f"func @f({parameters}) form=C {{ {body} }}")
    verify(function)
    interpret(function, arguments, grid=grid, block=block, **more)


def test_threads_know_their_place() -> None:
    out = np.zeros((2, 3, 2, 4, 6), np.int64)
    run(
        """%x = thread_idx x : index %y = thread_idx y : index %b = block_idx x : index %c = block_idx y : index %p = block_dim x : index
        %q = grid_dim y : index %l = lane : index %w = warp : index
        %px = cast %p to=i64 : i64 store %out[c, b, y, x, 0], %px %qx = cast %q to=i64 : i64 store %out[c, b, y, x, 1], %qx
        %lx = cast %l to=i64 : i64 store %out[c, b, y, x, 2], %lx %wx = cast %w to=i64 : i64 store %out[c, b, y, x, 3], %wx""",
        "%out: mem<2x3x2x4x6xi64>",
        out,
        grid=(3, 2),
        block=(4, 2),
    )
    assert (out[..., 0] == 4).all() and (out[..., 1] == 2).all()
    assert np.array_equal(out[1, 2, :, :, 2], np.arange(8).reshape(2, 4)) and not out[..., 3].any()


HISTOGRAM = """%bins = shared_alloc : mem<256xi32, shared> %t = thread_idx x : index %b = block_idx x : index %d = block_dim x : index
  %g = grid_dim x : index %zero = const 0 : i32 %one = const 1 : i32
  for q in t..256 step 64 { store %bins[q], %zero }
  sync_threads
  %stride = mul %d, %g : index %first = mul %d, %b : index %start = add %first, %t : index %p0 = slot %start : slot<index>
  while { %p = get %p0 : index %M = index of=N : index %c = lt %p, %M : i1 condition %c } do {
    %v = load %img[p] : u8 %k = cast %v to=index : index %o = atomic add %bins[k], %one scope=block : i32
    %n = add %p, %stride : index set %p0, %n }
  sync_threads
  for r in t..256 step 64 { %x = load %bins[r] : i32 %o2 = atomic add %out[r], %x : i32 }"""


def test_a_histogram_with_shared_bins() -> None:
    image, out = np.random.default_rng(0).integers(0, 256, 3001).astype(np.uint8), np.zeros(256, np.int32)
    run(HISTOGRAM, "%img: mem<Nxu8>, %out: mem<256xi32>, %N: index", image, out, 3001, grid=(3,))
    assert np.array_equal(out, np.bincount(image, minlength=256))


def test_a_tree_sum_in_shared_memory() -> None:
    x, out = np.arange(128.0), np.zeros(1)
    run(
        """%s = shared_alloc : mem<128xf64, shared> %t = thread_idx x : index %v = load %x[t] : f64 store %s[t], %v sync_threads
        %n0 = const 64 : index %n = slot %n0 : slot<index> %two = const 2 : index %one = const 1 : index
        while { %h = get %n : index %go = ge %h, %one : i1 condition %go } do {
          %in = lt %t, %h : i1
          if %in { %a = load %s[t] : f64 %b = load %s[t+h] : f64 %c = add %a, %b : f64 store %s[t], %c }
          sync_threads %k = div %h, %two : index set %n, %k }
        %z = const 0 : index %first = eq %t, %z : i1
        if %first { %r = load %s[0] : f64 store %out[0], %r }""",
        "%x: mem<128xf64>, %out: mem<1xf64>",
        x,
        out,
        block=(128,),
    )
    assert out[0] == 127 * 64


ATOMICS = {
    "add": (10, 3, 13), "sub": (10, 3, 7), "min": (10, 3, 3), "max": (10, 3, 10), "and": (12, 10, 8), "or": (12, 10, 14),
    "xor": (12, 10, 6), "exchange": (10, 3, 3), "inc": (10, 10, 0), "dec": (0, 7, 7),
}  # fmt: skip


@pytest.mark.parametrize("operation", list(ATOMICS))
def test_each_atomic_gives_the_old_value_and_stores_the_new(operation: str) -> None:
    start, value, new = ATOMICS[operation]
    x, out = np.array([start], np.uint32), np.zeros(1, np.uint32)
    run(
        f"%v = const {value} : u32 %o = atomic {operation} %x[0], %v : u32 store %out[0], %o",
        "%x: mem<1xu32>, %out: mem<1xu32>",
        x,
        out,
        block=(1,),
    )
    assert (out[0], x[0]) == (start, new)


def test_inc_and_dec_wrap_between_zero_and_the_value() -> None:
    for operation, expected in (("inc", 100 % 8), ("dec", (0 - 100) % 8)):
        x = np.zeros(1, np.uint32)
        run(f"%v = const 7 : u32 %o = atomic {operation} %x[0], %v : u32", "%x: mem<1xu32>", x, block=(100,))
        assert x[0] == expected


def test_compare_and_swap_lets_one_thread_win() -> None:
    x, out = np.array([-1], np.int32), np.zeros(64, np.int32)
    run(
        """%t = thread_idx x : index %k = cast %t to=i32 : i32 %m = const -1 : i32 %o = atomic cas %x[0], %k compare=%m : i32
        store %out[t], %o""",
        "%x: mem<1xi32>, %out: mem<64xi32>",
        x,
        out,
    )
    assert (out == -1).sum() == 1 and x[0] == int(np.argmax(out == -1))


def test_float_atomics_add() -> None:
    x = np.zeros(1, np.float32)
    run("%v = const 0.5 : f32 %o = atomic add %x[0], %v order=acq_rel scope=system : f32", "%x: mem<1xf32>", x, grid=(3,))
    assert x[0] == 0.5 * 64 * 3


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["idx", "up", "down", "xor"])
def test_shuffles_stay_within_their_width(mode: str, width: int) -> None:
    out = np.zeros(64, np.int32)
    run(
        f"""%t = thread_idx x : index %v = cast %t to=i32 : i32 %d = const 3 : i32 %r = shuffle {mode} %v, %d width={width} : i32
        store %out[t], %r""",
        "%out: mem<64xi32>",
        out,
    )
    expected = []
    for t in range(64):
        start = t - t % width
        source = {"idx": start + 3, "up": t - 3, "down": t + 3, "xor": t ^ 3}[mode]
        expected.append(source if start <= source < start + width else t)
    assert out.tolist() == expected


def test_votes_matches_and_elections() -> None:
    out = np.zeros((6, 64), np.int32)
    run(
        """%t = thread_idx x : index %v = cast %t to=i32 : i32 %three = const 3 : i32 %r = rem %v, %three : i32 %z = const 0 : i32
        %p = eq %r, %z : i1 %b = vote ballot %p : i32 store %out[0, t], %b
        %a = vote all %p : i1 %a4 = cast %a to=i32 : i32 store %out[1, t], %a4
        %y = vote any %p : i1 %y4 = cast %y to=i32 : i32 store %out[2, t], %y4
        %m = match any %r : i32 store %out[3, t], %m %e = elect : i1 %e4 = cast %e to=i32 : i32 store %out[4, t], %e4
        %s = redux add %v : i32 store %out[5, t], %s""",
        "%out: mem<6x64xi32>",
        out,
    )
    masks = [[sum(1 << lane for lane in range(32) if (w * 32 + lane) % 3 == r) for r in range(3)] for w in range(2)]
    signed = np.array(masks, np.uint32).astype(np.int32)
    assert out[0].tolist() == [signed[t // 32][0] for t in range(64)]
    assert not out[1].any() and out[2].all()
    assert out[3].tolist() == [signed[t // 32][t % 3] for t in range(64)]
    assert out[4].tolist() == [int(t % 32 == 0) for t in range(64)]
    assert out[5].tolist() == [sum(range(32)) if t < 32 else sum(range(32, 64)) for t in range(64)]


@pytest.mark.parametrize("size", [16, 8])
@pytest.mark.parametrize("layouts", [("row", "row"), ("row", "col"), ("col", "row")])
def test_tensor_core_products(size: int, layouts: tuple[str, str]) -> None:
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-4, 5, (32, 32)).astype(np.float16) for _ in range(2))
    c = generator.integers(-4, 5, (32, 32)).astype(np.float32)
    shape = f"{size}x{size}x{size}"
    x, y = (m[8 : 8 + size, 4 : 4 + size].astype(np.float32) for m in (a, b))
    expected = c.copy()
    expected[:size, :size] += (x if layouts[0] == "row" else x.T) @ (y if layouts[1] == "row" else y.T)
    run(
        f"""%m = mma_load {layouts[0]} %a[8, 4] : fragment<a, {shape}, f16> %n = mma_load {layouts[1]} %b[8, 4] : fragment<b, {shape}, f16>
        %k = mma_load row %c[0, 0] : fragment<accumulator, {shape}, f32>
        %r = mma %m, %n, %k layout={layouts[0]}.{layouts[1]} : fragment<accumulator, {shape}, f32> mma_store row %c[0, 0], %r""",
        "%a: mem<32x32xf16>, %b: mem<32x32xf16>, %c: mem<32x32xf32>",
        a,
        b,
        c,
        block=(32,),
    )
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("transpose", ["false", "true"])
def test_matrices_go_to_registers_and_back(transpose: str) -> None:
    x, out = np.arange(256, dtype=np.uint16).reshape(16, 16), np.zeros((16, 16), np.uint16)
    run(
        f"""%s = shared_alloc : mem<16x16xu16, shared> %d = shared_alloc : mem<16x16xu16, shared> %t = thread_idx x : index
        for e in 0..8 {{ %v = load %x[floor(t/2), e+8*t-16*floor(t/2)] : u16 store %s[floor(t/2), e+8*t-16*floor(t/2)], %v }}
        sync_threads
        %r0, %r1, %r2, %r3 = ldmatrix %s[t-16*floor(t/16), 8*floor(t/16)] count=4 transpose={transpose} : u32, u32, u32, u32
        stmatrix %d[t-16*floor(t/16), 8*floor(t/16)], %r0, %r1, %r2, %r3
        warp_sync
        for g in 0..8 {{ %yes = const true : i1 %w = load %d[floor(t/2), g+8*t-16*floor(t/2)] where=%yes : u16
          store %out[floor(t/2), g+8*t-16*floor(t/2)], %w }}""".replace("floor(t/", "floor((t)/"),
        "%x: mem<16x16xu16>, %out: mem<16x16xu16>",
        x,
        out,
        block=(32,),
    )
    blocks = x.reshape(2, 8, 2, 8)
    assert np.array_equal(out, (blocks.transpose(0, 3, 2, 1) if transpose == "true" else blocks).reshape(16, 16))


COPY = """%s = shared_alloc : mem<64xf32, shared> %t = thread_idx x : index %z = const 0.0 : f32
  for e in 0..4 { store %s[4*t+e], %z }
  async_copy %s[4*t], %x[4*t] bytes=16 async_commit
  WAIT
  for g in 0..4 { %v = load %s[4*t+g] : f32 store %out[4*t+g], %v }"""


def test_copies_arrive_at_their_wait_and_not_before() -> None:
    x = np.arange(64, dtype=np.float32)
    for wait, expected in (("async_wait count=0", x), ("async_wait count=1", 0 * x), ("", 0 * x)):
        out = np.ones(64, np.float32)
        run(COPY.replace("WAIT", wait), "%x: mem<64xf32>, %out: mem<64xf32>", x, out, block=(16,))
        assert np.array_equal(out, expected)


def test_dynamic_shared_memory_is_one_piece() -> None:
    out = np.zeros(2, np.float32)
    body = """%a = dynamic_shared offset=0 : mem<4xf32, shared> %b = dynamic_shared offset=8 : mem<2xf32, shared> %v = const 2.5 : f32
    store %a[3], %v %w = load %b[1] : f32 store %out[0], %w"""
    run(body, "%out: mem<2xf32>", out, block=(1,), shared_bytes=16)
    assert out[0] == 2.5
    with pytest.raises(ZyntaxError, match="dynamic shared memory of 12 bytes has no 16 bytes at 0"):
        run(body, "%out: mem<2xf32>", out, block=(1,), shared_bytes=12)


DIVERGENT = "%t = thread_idx x : index %k = const {limit} : index %p = lt %t, %k : i1 "


@pytest.mark.parametrize(
    "body,waiting",
    [
        ("if %p { sync_threads }", 40),
        ("if %p { return } sync_threads", 24),
        ("if %p { sync_threads } else { sync_threads }", 64),
    ],
)
def test_a_barrier_that_not_all_threads_reach_is_a_fault(body: str, waiting: int) -> None:
    with pytest.raises(KernelFault) as fault:
        run(DIVERGENT.format(limit=40) + body, "")
    assert fault.value.code == "0411"
    assert fault.value.values[:2] == (waiting, 64)


@pytest.mark.parametrize("body", ["if %p { sync_threads } else { %r = vote any %p : i1 }", "if %p { return } %r = vote any %p : i1"])
def test_a_warp_instruction_that_not_all_lanes_reach_is_a_fault(body: str) -> None:
    with pytest.raises(KernelFault) as fault:
        run(DIVERGENT.format(limit=40) + body, "")
    assert (fault.value.code, fault.value.values) == ("0415", (24, "vote"))


def test_a_mask_says_which_lanes_wait_for_each_other() -> None:
    out = np.zeros(32, np.int32)
    body = """%s = shared_alloc : mem<32xi32, shared> %t = thread_idx x : index %v = cast %t to=i32 : i32 %k = const 8 : index
    %low = lt %t, %k : i1 %m = const 255 : i32
    if %low { store %s[t], %v warp_sync %m %w = load %s[7-t] : i32 store %out[t], %w }"""
    run(body, "%out: mem<32xi32>", out, block=(32,))
    assert out.tolist() == [7 - t if t < 8 else 0 for t in range(32)]
    with pytest.raises(KernelFault, match="0412"):
        run(body.replace("[7-t]", "[t+1]"), "%out: mem<32xi32>", out, block=(32,))
    with pytest.raises(KernelFault, match="0415"):
        run(body.replace("const 8 ", "const 9 "), "%out: mem<32xi32>", out, block=(32,))


def test_named_barriers_count_only_their_threads() -> None:
    out = np.zeros(64, np.int32)
    run(
        DIVERGENT.format(limit=32)
        + """%s = shared_alloc : mem<1xi32, shared> %one = const 1 : i32
        if %p { store %s[0], %one sync_threads id=1 count=64 arrive=true } else { sync_threads id=1 count=64 %v = load %s[0] : i32
          store %out[t], %v }""",
        "%out: mem<64xi32>",
        out,
    )
    assert out.tolist() == [0] * 32 + [1] * 32


def test_shared_memory_read_before_it_is_written_is_a_fault() -> None:
    with pytest.raises(KernelFault) as fault:
        run(
            "%s = shared_alloc : mem<64xi32, shared> %t = thread_idx x : index %o = const 1 : i32 store %s[t], %o %v = load %s[t+1] : i32",
            "",
        )
    assert (fault.value.code, fault.value.values) == ("0412", (1,))


RACES = """%s = shared_alloc : mem<65xi32, shared> %t = thread_idx x : index %v = cast %t to=i32 : i32 %o = const 1 : i32
  store %s[t], %v {between} %w = load %s[{read}] : i32 store %out[t], %w"""


@pytest.mark.parametrize("between,read", [("sync_threads", "63-t"), ("", "t"), ("warp_sync", "32*floor((t)/32)+31-t+32*floor((t)/32)")])
def test_accesses_that_a_barrier_orders_are_no_race(between: str, read: str) -> None:
    out = np.zeros(64, np.int32)
    run(RACES.format(between=between, read=read), "%out: mem<64xi32>", out)
    assert sorted(out.tolist()) == list(range(64))


@pytest.mark.parametrize("body", ["", "warp_sync"])
def test_a_read_of_what_another_thread_writes_at_that_time_is_a_race(body: str) -> None:
    with pytest.raises(KernelFault) as fault:
        run(RACES.format(between="sync_threads store %s[t], %o " + body, read="63-t"), "%out: mem<64xi32>", np.zeros(64, np.int32))
    assert fault.value.code == "0412"
    index, first, second = fault.value.values
    assert first != second and index in (first, second)


@pytest.mark.parametrize("value,races", [("%v", True), ("%o", False)])
def test_two_threads_may_write_the_same_value(value: str, races: bool) -> None:
    body = "%s = shared_alloc : mem<1xi32, shared> %t = thread_idx x : index %v = cast %t to=i32 : i32 %o = const 1 : i32 "
    body += f"store %s[0], {value}"
    if races:
        with pytest.raises(KernelFault) as fault:
            run(body, "")
        assert (fault.value.code, fault.value.values) == ("0412", (0, 0, 1))
    else:
        run(body, "")


def test_atomics_race_with_plain_accesses_only() -> None:
    start = """%s = shared_alloc : mem<1xi32, shared> %t = thread_idx x : index %z = const 0 : index %i = const 0 : i32 %one = const 1 : i32
    %first = eq %t, %z : i1 if %first { store %s[0], %i }"""
    add = "%old = atomic add %s[0], %one scope=block : i32"
    run(f"{start} sync_threads {add}", "")
    with pytest.raises(KernelFault, match="0412"):
        run(f"{start} {add}", "")
    with pytest.raises(KernelFault, match="0412"):
        run(f"{start} sync_threads {add} %r = load %s[0] : i32", "")


def test_the_kernel_says_its_grid_when_the_launch_does_not() -> None:
    out = np.zeros(200, np.int32)
    function = parse_function(
        """func @f(%out: mem<Nxi32>, %N: index) form=C
        kernel=[entry=true, kind=custom, workgroup=[64, 1, 1], grid=[floor((N+63)/64), 1, 1]] {
        %t = thread_idx x : index %b = block_idx x : index %one = const 1 : i32 %in = inbounds of=64*b+t below=N : i1
        store %out[64*b+t], %one where=%in }"""
    )
    interpret(function, [out, 200])
    assert out.all()
