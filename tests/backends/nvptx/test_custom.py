"""Custom kernels of ZynML on their way to PTX and cubin: shared memory, barriers, atomics, shuffles and votes as written."""

import pytest
from kernels import lines

import zynml
from compiler.backends.nvptx.assemble import can_assemble
from compiler.backends.nvptx.target import PTX_VERSIONS

TREE = """
def tree(x: tensor[N, i32]): tensor {
    compute(x) -> tensor[1, i32] @kernel(custom) @workgroup(128) {
        shared var part[128, i32]
        let t = thread_idx().x
        var s = 0
        for p in global_idx().x..N step grid_dim().x * block_dim().x:
            s += x[p]
        part[t] = s
        barrier()
        var half = 64
        while half > 0:
            if t < half:
                part[t] += part[t + half]
            barrier()
            half = half / 2
        if t == 0:
            atomic_add(out[0], part[0])
    }
}
"""
WARP = """
def warp(x: tensor[N]): tensor {
    compute(x) -> tensor[N] @kernel(custom) @workgroup(64) {
        let i = thread_idx().x
        var s = x[i]
        s += warp_shuffle_down(s, 16)
        s += warp_shuffle_xor(s, 8)
        let some = warp_any(s > 1.0)
        let mask = warp_ballot(some)
        let wide = mask > 0 ? 1.0 : 0.0
        out[i] = (some ? s : 0.0) + wide
    }
}
"""
PRODUCT = """
def product(a: tensor[M, K], b: tensor[K, N]): tensor {
    compute(a, b) -> tensor[M, N] @kernel(custom) @workgroup(16, 16) {
        shared var ta[16, 16]
        shared var tb[16, 16]
        let x = thread_idx().x
        let y = thread_idx().y
        let i = block_idx().y * 16 + y
        let j = block_idx().x * 16 + x
        var s = 0.0
        for k0 in 0..K step 16 {
            ta[y, x] = 0.0
            tb[y, x] = 0.0
            if i < M and k0 + x < K:
                ta[y, x] = a[i, k0 + x]
            if k0 + y < K and j < N:
                tb[y, x] = b[k0 + y, j]
            barrier()
            for k in 0..16:
                s += ta[y, k] * tb[k, x]
            barrier()
        }
        if i < M and j < N:
            out[i, j] = s
    }
}
"""
KEYS = {
    TREE: ("bar.sync 0;", "red.relaxed.gpu.global.add.s32 [%rd], %r;", "st.shared.b32 [%rd], %r;"),
    WARP: ("shfl.sync.down.b32 %r, %r, 16, 31, -1;", "shfl.sync.bfly.b32 %r, %r, 8, 31, -1;", "vote.sync.any.pred %p, %p, -1;"),
    PRODUCT: ("bar.sync 0;", "fma.rn.f32 %r, %r, %r, %r;", "mov.u32 %r, %tid.y;"),
}


@pytest.mark.parametrize("text", KEYS)
def test_what_is_written_is_in_the_ptx(text: str) -> None:
    found = lines(str(zynml.compile(text).emit("ptx", "sm_75")))
    assert [key for key in KEYS[text] if key not in found] == []


@pytest.mark.skipif(not can_assemble(), reason="the assembler of the extra isn't installed: pip install 'zyntax-lang[compute]'")
@pytest.mark.parametrize("arch", PTX_VERSIONS)
@pytest.mark.parametrize("text", KEYS)
def test_custom_kernels_assemble_for_every_target(text: str, arch: str) -> None:
    cubin = zynml.compile(text).emit("cubin", arch)
    assert isinstance(cubin, bytes) and cubin.startswith(b"\x7fELF")


def test_lines_of_the_program_are_in_the_ptx() -> None:
    ptx = str(zynml.compile(TREE).emit("ptx", "sm_90"))
    row = next(number for number, line in enumerate(TREE.splitlines(), 1) if "atomic_add" in line)
    assert f"\t.loc\t1 {row} " in ptx
