"""A matrix product as Hopper wants it, in form C: one warpgroup copies boxes into a ring of two stages, two others multiply them, each 64
rows of a tile of 128 x 64. The emulator, the assembler and the device run the same text."""

TILE = "tile<i1:2, j0:2, j2:8, f32>"

GEMM = (
    """func @gemm(%A: mem<MxKxbf16, readonly, align=16>, %B: mem<KxNxbf16, readonly, align=16>, %C: mem<MxNxf32>,
  %M: index, %N: index, %K: index) form=C axes=[i1:2, j0:2, j2:8]
  kernel=[entry=true, kind=matmul, threads=384, blocks=1, workgroup=[384, 1, 1], grid=[floor((M+127)/128), floor((N+63)/64), 1]] {
  %a = shared_alloc : mem<2x128x64xbf16, shared, align=1024, swizzle="128B">
  %b = shared_alloc : mem<2x64x64xbf16, shared, align=1024, swizzle="128B">
  %full = mbar.make : barrier<2>
  %empty = mbar.make : barrier<2>
  %t = thread_idx x : index
  %x = block_idx x : index
  %y = block_idx y : index
  %first = inbounds of=t below=1 : i1
  if %first {
    mbar.init %full[0] count=1
    mbar.init %full[1] count=1
    mbar.init %empty[0] count=2
    mbar.init %empty[1] count=2
  }
  sync_threads
  %copies = inbounds of=t below=128 : i1
  if %copies {
    setmaxnreg dec registers=40
    if %first {
      for p in 0..floor((K+63)/64) {
        %ask = index of=1-floor((p)/2)+2*floor((p)/4) : index
        %old = cast %ask to=i32 : i32
        mbar.wait %empty[p-2*floor((p)/2)], %old
        mbar.expect %full[p-2*floor((p)/2)] bytes=24576
        bulk_copy.g2s %a[p-2*floor((p)/2), 0, 0], %A[128*x, 64*p], %full[p-2*floor((p)/2)] box=[128, 64]
        bulk_copy.g2s %b[p-2*floor((p)/2), 0, 0], %B[64*p, 64*y], %full[p-2*floor((p)/2)] box=[64, 64]
      }
    }
  } else {
    setmaxnreg inc registers=232
    %g = index of=floor((t)/128)-1 : index
    %l = lane : index
    %w = index of=floor((t)/32)-4*floor((t)/128) : index
    %leader = inbounds of=t-128*floor((t)/128) below=1 : i1
    %zero = const 0.0 : TILE
    %yes = const true : i1
    %sums = for k in 0..floor((K+63)/64) carry(%acc = %zero) {
      %turn = index of=floor((k)/2)-2*floor((k)/4) : index
      %parity = cast %turn to=i32 : i32
      mbar.wait %full[k-2*floor((k)/2)], %parity
      wgmma.fence
      PRODUCTS
      wgmma.commit
      %done = wgmma.wait %m3 count=1 : TILE
      %later = inbounds of=k-1 below=K : i1
      %frees = and %leader, %later : i1
      if %frees { mbar.arrive %empty[k-1-2*floor((k-1)/2)] }
      yield %done
    }
    %all = wgmma.wait %sums count=0 : TILE
    %row = inbounds of=128*x+64*g+16*w+floor((l)/4)+8*i1 below=M : tile<i1:2, i1>
    %column = inbounds of=64*y+8*j2+2*l-8*floor((l)/4)+j0 below=N : tile<j0:2, j2:8, i1>
    %inside = and %row, %column : tile<i1:2, j0:2, j2:8, i1>
    store %C[128*x+64*g+16*w+floor((l)/4)+8*i1, 64*y+8*j2+2*l-8*floor((l)/4)+j0], %all where=%inside
  }
}
""".replace(
        "PRODUCTS",
        "\n      ".join(
            f"%m{n} = wgmma.mma {'%acc' if n == 0 else f'%m{n - 1}'}, %a[k-2*floor((k)/2), 64*g, {16 * n}], %b[k-2*floor((k)/2), {16 * n}, 0], "
            f"%yes shape=[64, 64, 16] transpose_b=true : TILE"
            for n in range(4)
        ),
    )
).replace("TILE", TILE)

WITHOUT_RELEASE = GEMM.replace("if %frees { mbar.arrive %empty[k-1-2*floor((k-1)/2)] }\n", "\n")
"""No stage is ever given back."""

FREED_EARLY = GEMM.replace("%later = inbounds of=k-1 below=K", "%later = inbounds of=k below=K").replace(
    "mbar.arrive %empty[k-1-2*floor((k-1)/2)]", "mbar.arrive %empty[k-2*floor((k)/2)]"
)
"""Each stage is given back while its products are still under way."""

WITHOUT_WAIT = GEMM.replace(f"%all = wgmma.wait %sums count=0 : {TILE}", f"%all = convert %sums : {TILE}")
"""The sums are stored before the last products are done."""
