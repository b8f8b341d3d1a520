"""What the launch of a kernel with bulk copies must encode: a map for each array, box and swizzle, with this launch's extents."""

from kernels import compiled

from compiler.hir.parse import parse_function
from compiler.launch.cuda.maps import LaunchMap, launch_maps
from runtime.cuda.tensor_map import TensorBoxes
from tests.warp_specialised import GEMM


def test_each_array_has_its_boxes() -> None:
    function = parse_function(GEMM)
    (entry,) = compiled(function).entries
    assert [p.kind for p in entry.parameters] == ["memory"] * 3 + ["number"] * 3 + ["tensor_map"] * 2 + ["fault"]
    assert launch_maps(function, entry, {"M": 100, "N": 40, "K": 328}).maps == (
        LaunchMap(0, TensorBoxes("bf16", (100, 328), (328, 1), (128, 64), "128B")),
        LaunchMap(1, TensorBoxes("bf16", (328, 40), (40, 1), (64, 64), "128B")),
    )


def test_strides_and_windows_are_the_types_and_the_copys() -> None:
    function = parse_function("""func @f(%n: index, %x: mem<2x8x(n)x64xf16, strides=[1000*n, 100*n, 80, 1]>) form=C {
      %s = shared_alloc : mem<32x64xf16, shared, swizzle="128B"> %full = mbar.make : barrier
      bulk_copy.g2s %s[0, 0], %x[0, -1, -1, 0], %full[0] box=[1, 1, 32, 64] offsets=[1, 2] lower=[-1, -1] upper=[-1, -1]
      bulk_copy.g2s %s[0, 0], %x[0, 0, 0, 0], %full[0] box=[1, 1, 32, 64]
      bulk_copy.g2s %s[0, 0], %x[1, 0, 0, 0], %full[0] box=[1, 1, 32, 64] }""")
    (entry,) = compiled(function).entries
    layout = ("f16", (2, 8, 10, 64), (10000, 1000, 80, 1), (1, 1, 32, 64), "128B")
    assert launch_maps(function, entry, {"n": 10}).maps == (LaunchMap(1, TensorBoxes(*layout, ((-1, -1), (-1, -1)))), LaunchMap(1, TensorBoxes(*layout)))


def test_steps_are_the_copys() -> None:
    function = parse_function("""func @f(%x: mem<2x8x10x64xf16>) form=C {
      %s = shared_alloc : mem<32x64xf16, shared, swizzle="128B"> %full = mbar.make : barrier
      bulk_copy.g2s %s[0, 0], %x[0, -1, -1, 0], %full[0] box=[1, 4, 8, 64] step=[1, 2, 1, 1] }""")
    (entry,) = compiled(function).entries
    boxes = TensorBoxes("f16", (2, 8, 10, 64), (5120, 640, 64, 1), (1, 4, 8, 64), "128B", None, (1, 2, 1, 1))
    assert launch_maps(function, entry, {}).maps == (LaunchMap(0, boxes),)
