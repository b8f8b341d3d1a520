"""Kernels that begin before the one in front of them has ended wait for it before they touch memory."""

import re

import pytest
from kernels import compiled, pointwise

import zynml
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.overlap import WAIT, moved_ahead
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import Return
from compiler.hir.gpu import GridIndex, GridSync
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem

PROGRAM = """
def product(A: tensor[M, K, bf16], B: tensor[K, N, bf16], c: tensor[N]): tensor {
    compute(A, B, c) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var sum = 0.0f32
            for k in 0..K: sum += (A[i, k] as f32) * (B[k, j] as f32)
            out[i, j] = (sum + c[j]) as bf16
    }
}
def add(x: tensor[N], y: tensor[?]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[2 * i] } }
def softmax(x: tensor[M, N, bf16]): tensor {
    compute(x) -> tensor[M, N, bf16] {
        for i in 0..M:
            var top = -inf
            for j in 0..N: top = max(top, x[i, j] as f32)
            var sum = 0.0f32
            for j in 0..N: sum += exp((x[i, j] as f32) - top)
            for j in 0..N: out[i, j] = (exp((x[i, j] as f32) - top) / sum) as bf16
    }
}
def total(x: tensor[N]): f32 { compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] } }
def running(x: tensor[N]): tensor { compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] } }
"""


def kernels(ptx: str) -> dict[str, str]:
    """Each kernel's text."""
    return dict(re.findall(r"(?ms)^\.visible \.entry (\w+)(\(.*?^\})", ptx))


SHORT = PROGRAM[PROGRAM.index("def add") : PROGRAM.index("def softmax")]


@pytest.fixture(scope="module")
def hopper() -> dict[str, str]:
    return kernels(zynml.compile(PROGRAM).emit("ptx", "sm_90a"))


def check(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        assert text.count(WAIT) == 1, name
        before, after = text.split(WAIT)
        assert "global" not in re.sub(r"\.param.*|cvta.*", "", before), name
        assert re.search(r"(ld|st|atom|cp)\S*global", after), name


def test_every_kernel_waits_once_before_it_touches_memory(hopper: dict[str, str]) -> None:
    assert len(hopper) >= 6
    check(hopper)
    check(kernels(zynml.compile(SHORT).emit("ptx", "sm_100")))


def test_older_processors_have_no_such_wait() -> None:
    assert WAIT not in zynml.compile(SHORT).emit("ptx", "sm_89")


def test_a_product_makes_its_barriers_before_it_waits(hopper: dict[str, str]) -> None:
    (text,) = [text for text in hopper.values() if "wgmma" in text]
    before, after = text.split(WAIT)
    assert "mbarrier.init" in before and "bar.sync" in before and "cp.async.bulk.tensor" not in before
    assert "mbarrier.init" not in after


def test_what_leaves_early_waits_before() -> None:
    f = FunctionBuilder("leaves", Form.THREAD)
    x = f.parameter("x", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    with f.body.when(f.body.op("lt", f.body.index("t"), f.body.index("N"))) as inside:
        inside.emit(Return())
    f.body.store(x, f.body.const(1.0, "f32"), [0])
    (text,) = kernels(compiled(f.finish(), "sm_90").text).values()
    before, _ = text.split(WAIT)
    assert not re.search(r"\bret;|\bbra\b|@%p", before)


def test_a_kernel_without_memory_waits_for_those_behind_it() -> None:
    f = FunctionBuilder("nothing", Form.THREAD)
    f.parameter("N", INDEX)
    module = compiled(f.finish(), "sm_90")
    assert module.text.count(WAIT) == 1 and module.entry("nothing").early


def test_which_launches_may_begin_early() -> None:
    function = pointwise("f", lambda b, x: b.add(x[0], x[0]), "f32")
    assert compiled(function, "sm_90").entry("f").early and not compiled(function, "sm_80").entry("f").early
    f = FunctionBuilder("together", Form.THREAD)
    f.parameter("x", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    f.body.emit(GridSync())
    module = compile_kernels(f.finish(), gpu_target("sm_90"))
    assert module.entry("together").cooperative and not module.entry("together").early


@pytest.mark.parametrize(
    "access", ["ld.global.nc.b32 %r1, [%rd1];", "st.global.b32 [%rd1], %r1;", "atom.global.add.u32 %r1, [%rd1], 1;", "cp.async.ca.shared.global [%r1], [%rd1], 4;"]
)
def test_an_access_in_front_of_the_wait_is_seen(access: str) -> None:
    kernel = ".visible .entry k(\n\t.param .u64 .ptr .global .align 4 p\n)\n{{\n\tcvta.to.global.u64 %rd1, %rd2;\n\t{}\n\t{}\n\tret;\n}}\n"
    assert moved_ahead(kernel.format(access, WAIT)) == "k"
    assert moved_ahead(kernel.format(WAIT, access)) is None
    assert moved_ahead(kernel.format(access, "")) is None
