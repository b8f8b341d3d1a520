"""What no target has, or this back end has no code for, is said in words, with what there is instead."""

from collections.abc import Callable

import pytest
from gpu_case import Kernel
from kernels import compiled

from compiler.diagnostics import ZyntaxError
from compiler.hir.core import Const
from compiler.hir.gpu import Atomic
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.memory import Alloc
from compiler.hir.tensor_core import Mma, MmaLoad
from compiler.hir.types import Fragment, FragmentRole, Mem, Space, Tile


def refusal(make: Callable[[Kernel], None], arch: str = "sm_90a") -> tuple[str, str, str | None]:
    kernel = Kernel("f")
    make(kernel)
    with pytest.raises(ZyntaxError) as raised:
        compiled(kernel.finish(), arch)
    (diagnostic,) = raised.value.diagnostics
    return diagnostic.code, diagnostic.message, diagnostic.hint


def test_atomics_on_bytes() -> None:
    def make(k: Kernel) -> None:
        k.emit(Atomic(operation="add", mem=k.builder.parameter("m", Mem("i8", (16,))), index=(0,), value=k.const(1, "i8")))

    assert refusal(make) == ("0504", "`sm_90a` has no atomics on i8", "use 32-bit elements")


def test_fragments_of_a_shape_that_no_product_has() -> None:
    def make(k: Kernel) -> None:
        k.emit(MmaLoad(layout="row", mem=k.input("f16", 64, 64), index=(0, 0), type=Fragment(FragmentRole.A, 16, 8, 16, "f16")))

    code, message, hint = refusal(make)
    assert (code, message) == ("0504", "`sm_90a` has no tensor core fragment fragment<a, 16x8x16, f16>")
    assert hint is not None and hint.startswith("there are f16 16x16x16, f16 32x8x16, f16 8x32x16, bf16 16x16x16, ")


def test_products_summed_in_another_type() -> None:
    def make(k: Kernel) -> None:
        of = {role: Fragment(role, 16, 16, 16, "f16" if role is FragmentRole.ACCUMULATOR else "bf16") for role in FragmentRole}
        a, b, c = (k.emit(Const(value=0, type=of[role])).result for role in FragmentRole)
        k.emit(Mma(a=a, b=b, c=c))

    assert refusal(make) == ("0504", "`sm_90a` has no product of bf16 summed in f16", "sums are in f32")


def test_fragments_whose_rows_are_not_contiguous() -> None:
    def make(k: Kernel) -> None:
        mem = k.builder.parameter("m", Mem("f16", (64, 64), strides=(128, 2)))
        k.emit(MmaLoad(layout="row", mem=mem, index=(0, 0), type=Fragment(FragmentRole.A, 16, 16, 16, "f16")))

    message = "a fragment of a matrix whose rows aren't contiguous isn't supported yet by the NVPTX back end"
    assert refusal(make) == ("0109", message, "copy it to shared memory first")


def warpgroup(k: Kernel, axes: dict[str, int], swizzle: str | None, depth: int = 16) -> None:
    for name, extent in axes.items():
        k.builder.axis(name, extent)
    acc = k.emit(Const(value=0, type=Tile("f32", tuple(axes.items())))).result
    a, b = (k.shared("bf16", 64, 64, swizzle=swizzle) for _ in range(2))
    keep = k.const(True, "i1")
    k.emit(WarpgroupMma(accumulator=acc, a=a, a_index=(0, 0), b=b, b_index=(0, 0), keep=keep, shape=(64, 64, depth)))


def test_accumulators_whose_axes_say_nothing() -> None:
    message = "an accumulator of these axes isn't supported yet by the NVPTX back end"
    found = refusal(lambda k: warpgroup(k, {"a": 2, "b": 2, "c": 8}, "128B"))
    assert found == ("0109", message, "name them as in `tile<j2:32, i1:2, j0:2, f32>`")


def test_accumulators_of_the_wrong_size() -> None:
    found = refusal(lambda k: warpgroup(k, {"r": 16}, "128B"))
    assert found == ("0504", "`sm_90a` has no accumulator of 16 registers for 64 columns", "a thread holds 32")


def test_products_of_another_depth() -> None:
    found = refusal(lambda k: warpgroup(k, {"r": 32}, "128B", depth=8))
    assert found == ("0504", "`sm_90a` has no warpgroup product 64x64x8 of bf16 summed in f32", "of bf16 the depth is 16, summed in f32")


def test_operands_of_a_warpgroup_that_are_not_swizzled() -> None:
    message = "a warpgroup's operand in mem<64x64xbf16, shared> isn't supported yet by the NVPTX back end"
    assert refusal(lambda k: warpgroup(k, {"r": 32}, None)) == ("0109", message, "its memory is swizzled: 128B, 64B, 32B")


def test_scratch_memory_of_a_size_that_only_the_launch_knows() -> None:
    def make(k: Kernel) -> None:
        k.builder.parameter("N", Tile("index"))
        k.emit(Alloc(type=Mem("f32", ("N",), space=Space.LOCAL)))

    message = "scratch memory of a thread whose size only the launch knows isn't supported yet by the NVPTX back end"
    assert refusal(make) == ("0109", message, "use a constant size of at most 524288 bytes, or memory that the launch gives")
