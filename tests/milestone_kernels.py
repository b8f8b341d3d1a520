"""The first kernels that a GPU back end has to run, in the HIR's form C: arithmetic, a reduction through shuffles and shared memory, a
product on tensor cores. Launched by the emulator and by GPUs alike; NumPy in float64 says what they give."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_module
from compiler.hir.verify import verify

Array = np.ndarray[Any, Any]
Launch = Callable[[HirFunction, list[Any], tuple[int, int, int]], None]
"""Runs a kernel over a grid; memories are changed in place."""

BLOCK = 256

TEXT = """module @milestones version=1 {
  func @arithmetic(%x: mem<Nxf32, readonly>, %y: mem<Nxf32, readonly>, %out: mem<Nxf32>, %a: f32, %N: index) form=C kernel=[entry=true, kind=custom, workgroup=[256, 1, 1]] {
    %t = thread_idx x : index
    %b = block_idx x : index
    %in = inbounds of=256*b+t below=N : i1
    if %in {
      %u = load %x[256*b+t] : f32
      %v = load %y[256*b+t] : f32
      %p = mul %a, %u : f32
      %s = add %p, %v : f32
      store %out[256*b+t], %s
    }
  }

  func @sums(%x: mem<Nxf32, readonly>, %out: mem<Bxf32>, %N: index, %B: index) form=C kernel=[entry=true, kind=custom, workgroup=[256, 1, 1]] {
    %t = thread_idx x : index
    %b = block_idx x : index
    %l = lane : index
    %w = warp : index
    %part = shared_alloc : mem<8xf32, shared>
    %own = load %x[256*b+t] pad=0.0 : f32
    %n16 = const 16 : i32
    %n8 = const 8 : i32
    %n4 = const 4 : i32
    %n2 = const 2 : i32
    %n1 = const 1 : i32
    %a16 = shuffle down %own, %n16 : f32
    %s16 = add %own, %a16 : f32
    %a8 = shuffle down %s16, %n8 : f32
    %s8 = add %s16, %a8 : f32
    %a4 = shuffle down %s8, %n4 : f32
    %s4 = add %s8, %a4 : f32
    %a2 = shuffle down %s4, %n2 : f32
    %s2 = add %s4, %a2 : f32
    %a1 = shuffle down %s2, %n1 : f32
    %s1 = add %s2, %a1 : f32
    %first = inbounds of=l below=1 : i1
    if %first {
      store %part[w], %s1
    }
    sync_threads
    %warp0 = inbounds of=w below=1 : i1
    if %warp0 {
      %p = load %part[l] pad=0.0 : f32
      %b4 = shuffle down %p, %n4 width=8 : f32
      %p4 = add %p, %b4 : f32
      %b2 = shuffle down %p4, %n2 width=8 : f32
      %p2 = add %p4, %b2 : f32
      %b1 = shuffle down %p2, %n1 width=8 : f32
      %p1 = add %p2, %b1 : f32
      if %first {
        store %out[b], %p1
      }
    }
  }

  func @product(%A: mem<MxKxf16, readonly>, %B: mem<KxNxf16, readonly>, %C: mem<MxNxf32, readonly>, %D: mem<MxNxf32>, %M: index, %N: index, %K: index) form=C kernel=[entry=true, kind=custom, workgroup=[128, 1, 1]] {
    %bx = block_idx x : index
    %by = block_idx y : index
    %w = warp : index
    %i = index of=32*by+16*floor((w)/2) : index
    %j = index of=32*bx+16*w-32*floor((w)/2) : index
    %c = mma_load row %C[i, j] : fragment<accumulator, 16x16x16, f32>
    %d = for k in 0..K step 16 carry(%acc = %c) {
      %a = mma_load row %A[i, k] : fragment<a, 16x16x16, f16>
      %b = mma_load row %B[k, j] : fragment<b, 16x16x16, f16>
      %n = mma %a, %b, %acc layout=row : fragment<accumulator, 16x16x16, f32>
      yield %n
    }
    mma_store row %D[i, j], %d
  }
}
"""


def kernels() -> dict[str, HirFunction]:
    module = parse_module(TEXT)
    verify(module)
    return dict(module.functions)


def arithmetic(launch: Launch, n: int) -> None:
    chance = np.random.default_rng(n)
    x, y = (chance.standard_normal(n).astype(np.float32) for _ in range(2))
    out = np.zeros(n, np.float32)
    launch(kernels()["arithmetic"], [x, y, out, 1.5, n], (-(-n // BLOCK), 1, 1))
    # two roundings: of the product and of the sum
    product = 1.5 * x.astype(np.float64)
    assert (np.abs(out - (product + y)) <= (np.abs(product) + np.abs(product + y)) * 2.0**-24 + 2.0**-149).all()


def reduction(launch: Launch, n: int) -> None:
    """Blocks, then the sums of blocks, until one is left: numbers are such that every order gives the same."""
    left = np.random.default_rng(n).integers(-8, 9, n).astype(np.float32)
    want = left.astype(np.float64).sum()
    while True:
        blocks = -(-len(left) // BLOCK)
        out = np.zeros(blocks, np.float32)
        launch(kernels()["sums"], [left, out, len(left), blocks], (blocks, 1, 1))
        if blocks == 1:
            break
        left = out
    assert out[0] == want


def tensor_core_product(launch: Launch, n: int) -> None:
    chance = np.random.default_rng(n)
    a, b = (chance.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    c, d = chance.standard_normal((n, n)).astype(np.float32), np.zeros((n, n), np.float32)
    launch(kernels()["product"], [a, b, c, d, n, n, n], (n // 32, n // 32, 1))
    w, v = a.astype(np.float64), b.astype(np.float64)
    bound = 1e-6 * n**0.5 * (np.abs(w) @ np.abs(v) + np.abs(c))
    assert (np.abs(d - (w @ v + c)) <= bound).all()
