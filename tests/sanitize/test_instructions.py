"""What the sanitizer knows of instructions that no ZynML program reaches: copies under way, masks, fences and orders of atomics,
barriers of some threads, dynamic shared memory, matrices. In HIR text."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.emulator.sanitize import Watch
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify


def codes(body: str, grid: int = 1, block: int = 32, **launch: int) -> list[str]:
    """Codes of what is found, in order."""
    function = parse_function(f"func @f(%x: mem<256xf32>, %n: mem<4xi32>) form=C {{ {body} }}")
    verify(function)
    watch = Watch()
    interpret(function, [np.arange(256, dtype=np.float32), np.zeros(4, np.int32)], grid=(grid,), block=(block,), watch=watch, **launch)
    return [finding.code for finding in watch.findings]


START = """%t = thread_idx x : index %b = block_idx x : index %i = const 1 : i32 %z = const 0.0 : f32 %o = const 1.0 : f32
  %zero = const 0 : index %first = eq %t, %zero : i1 %tf = cast %t to=f32 : f32 """

COPY = START + """%s = shared_alloc : mem<128xf32, shared> async_copy %s[4*t], %x[4*t] bytes=16 async_commit {between}
  %v = load %s[{read}] : f32"""


@pytest.mark.parametrize(
    "between,read,found",
    [
        ("async_wait count=0 sync_threads", "4*t+3", []),
        ("async_wait count=0", "4*t+3", []),
        ("async_wait count=1", "4*t+3", ["0412"]),
        ("", "4*t", ["0412"]),
        ("async_wait count=0", "127-4*t", ["0412"]),
        ("async_wait count=0 sync_threads", "127-4*t", []),
        ("sync_threads async_wait count=0", "127-4*t", ["0412"]),
    ],
)
def test_a_copy_is_seen_after_its_wait_and_by_others_after_a_barrier(between: str, read: str, found: list[str]) -> None:
    assert codes(COPY.format(between=between, read=read)) == found


def test_a_copy_outside_is_told_and_dropped() -> None:
    assert codes(START + "%s = shared_alloc : mem<128xf32, shared> async_copy %s[4*t], %x[4*t+200] bytes=16 async_commit async_wait") == ["0801"]


FLAG = START + """%last = const 1 : i32
  if %first {{ store %x[b], %o {fence} %turn = atomic add %n[0], %i order={order} scope={scope} : i32
    %end = eq %turn, %last : i1 if %end {{ %v = load %x[0] : f32 %w = load %x[1] : f32 }} }}"""


@pytest.mark.parametrize(
    "fence,order,scope,found",
    [
        ("fence device", "relaxed", "device", []),
        ("fence system", "relaxed", "system", []),
        ("", "acq_rel", "device", []),
        ("", "release", "device", []),
        ("", "relaxed", "device", ["0414"]),
        ("", "acquire", "device", ["0414"]),
        ("fence block", "relaxed", "device", ["0414"]),
        ("fence thread", "relaxed", "device", ["0414"]),
        ("fence device", "relaxed", "block", ["0414", "0414"]),
    ],
)
def test_blocks_are_ordered_by_atomics_that_release(fence: str, order: str, scope: str, found: list[str]) -> None:
    assert codes(FLAG.format(fence=fence, order=order, scope=scope), grid=2) == found


HALVES = START + """%h = const 32 : index %low = lt %t, %h : i1 %s = shared_alloc : mem<64xf32, shared>
  if %low {{ store %s[t], %tf {here} }} else {{ {there} %v = load %s[t-32] : f32 }}"""


@pytest.mark.parametrize(
    "here,there,found",
    [
        ("sync_threads id=1 count=64 arrive=true", "sync_threads id=1 count=64", []),
        ("sync_threads id=1 count=32", "sync_threads id=2 count=32", ["0412"]),
        ("", "", ["0412"]),
    ],
)
def test_barriers_of_some_threads_order_those(here: str, there: str, found: list[str]) -> None:
    assert codes(HALVES.format(here=here, there=there), block=64) == found


MASK = START + """%s = shared_alloc : mem<32xf32, shared> %k = const 8 : index %low = lt %t, %k : i1 %m = const {mask} : i32
  if %low {{ store %s[t], %tf warp_sync %m %v = load %s[7-t] : f32 }}"""


@pytest.mark.parametrize("mask,found", [(0xFF, []), (0x0F, ["0415"]), (0x1FF, [])])
def test_lanes_of_a_mask_wait_for_each_other(mask: int, found: list[str]) -> None:
    """A lane that has ended isn't waited for; one that its own mask leaves out is told."""
    assert codes(MASK.format(mask=mask)) == found


def test_views_of_dynamic_memory_share_their_bytes() -> None:
    body = START + """%a = dynamic_shared offset=0 : mem<32xf32, shared> %c = dynamic_shared offset=0 : mem<64xi16, shared>
      store %a[t], %tf {between} %v = load %c[{read}] : i16"""
    assert codes(body.format(between="sync_threads", read="63-2*t"), shared_bytes=128) == []
    assert codes(body.format(between="", read="2*t+1"), shared_bytes=128) == []
    assert codes(body.format(between="", read="63-2*t"), shared_bytes=128) == ["0412"]


def test_a_matrix_that_is_stored_is_written() -> None:
    body = START + """%d = shared_alloc : mem<8x8xu16, shared> %w = const 7 : u32 %r = index of=t-8*floor((t)/8) : index
      stmatrix %d[r, 0], %w {between} %v = load %d[r, {column}] : u16"""
    assert codes(body.format(between="warp_sync", column=7)) == []
    assert codes(body.format(between="", column=7)) == ["0412"]
    assert codes(body.format(between="warp_sync", column=8)) == ["0801"]


def test_tiles_are_watched_element_by_element() -> None:
    function = parse_function(
        """func @f(%x: mem<66xf32>) form=C axes=[e:2] { %t = thread_idx x : index %s = shared_alloc : mem<66xf32, shared>
        %v = load %x[2*t+e] : tile<e:2, f32> store %s[2*t+e], %v sync_threads %w = load %s[2*t+e+1] : tile<e:2, f32>
        store %x[2*t+e+1], %w }"""
    )
    verify(function)
    watch = Watch()
    interpret(function, [np.ones(66, np.float32)], grid=(1,), block=(32,), watch=watch)
    assert [(finding.code, finding.count) for finding in watch.findings] == [("0412", 1)]


def test_what_a_launch_leaves_is_there_for_the_next() -> None:
    write, read = (
        parse_function(f"func @f(%w: mem<32xf32>) form=C {{ {START} {body} }}")
        for body in ("store %w[t], %tf", "%k = const 31 : index %p = lt %t, %k : i1 if %p { %v = load %w[t+1] : f32 }")
    )
    memory, watch = np.zeros(32, np.float32), Watch()
    watch.blank[id(memory)] = np.zeros(memory.shape, np.bool_)
    for function, found in ((read, 1), (write, 1), (read, 1)):
        interpret(function, [memory], block=(32,), watch=watch)
        assert len(list(watch.findings)) == found
