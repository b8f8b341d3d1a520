"""Kernels that begin before those in front of them have ended read and overwrite what these have left, whatever stands between. All
numbers are integers that f32 holds, sums too, so that results are exact."""

import numpy as np
import pytest

import zynml
from runtime.cuda.graph import Recording
from runtime.cuda.launch import CheckedLaunch

torch = pytest.importorskip("torch")

PROGRAM = """
def turned(x: tensor[M, N]): tensor { compute(x) { for i in 0..N, j in 0..M: out[i, j] = x[j, i] + 1.0 } }
def summed(x: tensor[M, N]): tensor {
    compute(x) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N: s += x[i, j]
            for j in 0..N: out[i, j] = s
    }
}
def total(x: tensor[M, N]): tensor {
    compute(x) -> tensor[1] {
        for k in 0..1:
            var s = 0.0
            for i in 0..M, j in 0..N: s += x[i, j]
            out[k] = s
    }
}
def product(A: tensor[M, K, bf16], B: tensor[K, N, bf16]): tensor {
    compute(A, B) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var s = 0.0f32
            for k in 0..K: s += (A[i, k] as f32) * (B[k, j] as f32)
            out[i, j] = s as bf16
    }
}
def sequence(x: tensor[M, M]): tensor {
    let a = turned(x)
    let b = turned(a)
    let c = turned(b)
    turned(c)
}
"""


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM, device="cuda:0")


@pytest.mark.parametrize("shape", [(1, 1), (33, 65), (1000, 1001), (4096, 2048)], ids=str)
def test_a_long_row_of_kernels(program, shape):
    x = start = torch.randint(-99, 99, shape, device="cuda").float()
    for _ in range(100):
        x = program.turned(x)
    assert torch.equal(torch.from_dlpack(x), start + 100)


def test_kernels_of_all_kinds_in_turn(program):
    x = torch.randint(0, 3, (512, 512), device="cuda").float()
    for _ in range(20):
        sums = program.summed(program.turned(x))
        whole = torch.from_dlpack(program.total(program.turned(x)))
        assert torch.equal(torch.from_dlpack(sums), (x + 1).T.sum(1, keepdim=True).expand(512, 512))
        assert float(whole) == float((x + 1).sum())
        x = (x + 1) % 3  # the other library's kernels stand between


def test_products_in_turn_with_what_makes_their_operands(program):
    order = torch.randperm(1024, device="cuda")
    permutation = torch.eye(1024, device="cuda", dtype=torch.bfloat16)[order]
    a = torch.randint(-100, 100, (1024, 1024), device="cuda").to(torch.bfloat16)
    found, want = a, a
    for _ in range(30):
        found = program.product(permutation, found)
        want = want[order]
    assert torch.equal(torch.from_dlpack(found), want)


def test_memory_that_is_given_back_is_written_by_the_next(program):
    """Results of the same size lie where earlier ones lay, which the kernel before may still read."""
    x = torch.ones(1024, 1024, device="cuda")
    kept = []
    for number in range(60):
        turned = program.turned(x * (number % 15))
        kept.append(program.total(turned))
        del turned
    assert [float(torch.from_dlpack(one)) for one in kept] == [1024.0 * 1024 * (number % 15 + 1) for number in range(60)]


def test_sequences_replayed_as_graphs(program):
    x = torch.randint(-9, 9, (777, 777), device="cuda").float()
    for _ in range(12):
        assert torch.equal(torch.from_dlpack(program.sequence(x)), x + 4)
        x = x - 1


def test_work_of_several_streams(program):
    x = torch.randint(-9, 9, (1024, 1024), device="cuda").float()
    torch.cuda.synchronize()
    streams, found = [torch.cuda.Stream() for _ in range(3)], []
    for stream in streams:
        with torch.cuda.stream(stream):
            y = x
            for _ in range(25):
                y = program.turned(y)
            found.append(torch.from_dlpack(y).clone())
    torch.cuda.synchronize()
    assert all(torch.equal(one, (x + 25).T) for one in found)


TRANSFER = r"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry late(.param .u64 to, .param .u64 from)
{
	.reg .pred p;
	.reg .b32 a, v;
	.reg .b64 x, y, now, end;
	// a millisecond passes before the number is written
	mov.u64 end, %globaltimer;
	add.u64 end, end, 1000000;
again:
	mov.u64 now, %globaltimer;
	setp.lt.u64 p, now, end;
	@p bra again;
	ld.param.u64 x, [to];
	ld.param.u64 y, [from];
	ld.global.b32 v, [y];
	add.s32 v, v, 1;
	st.global.b32 [x], v;
	ret;
}
.visible .entry early(.param .u64 to, .param .u64 from)
{
	.reg .b32 v;
	.reg .b64 x, y;
	griddepcontrol.wait;
	ld.param.u64 x, [to];
	ld.param.u64 y, [from];
	ld.global.b32 v, [y];
	mul.lo.s32 v, v, 2;
	st.global.b32 [x], v;
	ret;
}
.visible .entry nothing()
{
	griddepcontrol.wait;
	ret;
}
"""


def test_an_early_launch_waits_for_a_slow_kernel_two_before_it(gpu):
    """(1 + 1) * 2, and again, as launches and as a graph; a kernel without memory of its own stands between."""
    from runtime.cuda.copies import to_device, to_host

    module = gpu.modules.load(TRANSFER, "transfer")
    late = CheckedLaunch(module.kernel("late"), ("pointer", "pointer"), (1,), (1,))
    early = CheckedLaunch(module.kernel("early"), ("pointer", "pointer"), (1,), (1,), early=True)
    nothing = CheckedLaunch(module.kernel("nothing"), (), (1,), (32,), early=True)
    x, y = (to_device(np.array([value], np.int32), gpu.allocate(4), gpu.stream) for value in (1, 0))

    def rounds():
        for _ in range(3):
            late(gpu.stream, y, x)
            nothing(gpu.stream)
            early(gpu.stream, x, y)

    rounds()
    want = 1
    for _ in range(3):
        want = (want + 1) * 2
    assert to_host(x).tolist() == [want]
    with Recording(gpu.stream) as recording:
        rounds()
    graph = recording.graph()
    for _ in range(2):
        graph(gpu.stream)
        for _ in range(3):
            want = (want + 1) * 2
        assert to_host(x).tolist() == [want]
    graph.change(2, (y, y))
    graph(gpu.stream)
    with Recording(gpu.stream) as again:
        rounds()
    graph.replace(again)
    gpu.stream.synchronize()
