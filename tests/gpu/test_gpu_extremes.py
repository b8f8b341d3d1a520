"""What programs are seldom given: more than 2^31 elements, addresses that no wide access may begin at, nothing at all, numbers that aren't."""

from typing import Any

import numpy as np
import pytest

import zynml
from bench.gpu import sources

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")

MANY = (1 << 31) + 1003


def run(text: str, *values: Any) -> Any:
    return torch.from_dlpack(zynml.compile(text, device="cuda:0").f(*values))


def test_a_map_of_more_than_two_to_the_31_elements() -> None:
    x = torch.arange(MANY, device="cuda", dtype=torch.int64).to(torch.uint8)
    found = run("def f(x: tensor[N, u8]) { compute(x) { for i in 0..N: out[i] = x[i] * 3 } }", x)
    assert torch.equal(found, x * 3)


def test_a_sum_of_more_than_two_to_the_31_elements() -> None:
    x = torch.ones(MANY, device="cuda", dtype=torch.int8)
    x[-1] = 5
    text = "def f(x: tensor[N, i8]): i64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] as i64 } }"
    assert zynml.compile(text, device="cuda:0").f(x) == MANY + 4


def test_a_product_with_an_operand_of_more_than_two_to_the_31_elements() -> None:
    k, n = 65536 + 8, 32768 + 16
    a = torch.randint(-2, 3, (8, k), device="cuda").to(torch.bfloat16)
    b = torch.randint(-2, 3, (k, n), device="cuda", dtype=torch.int8).to(torch.bfloat16)
    found = run(sources.product(to="f32"), a, b)
    for part in (slice(0, 64), slice(n - 64, n)):
        assert torch.equal(found[:, part].double(), a.double() @ b[:, part].double())


@pytest.mark.parametrize("start", [1, 3, 8])
def test_addresses_that_are_not_aligned(start: int) -> None:
    held = torch.randint(-2, 3, (300 * 264 + 16,), device="cuda").to(torch.bfloat16)
    a, b = held[start : start + 128 * 264].view(128, 264), held[start : start + 264 * 256].view(264, 256)
    assert torch.equal(run(sources.product(to="f32"), a, b).double(), a.double() @ b.double())
    found = run(sources.rows("softmax", "bf16"), a)
    assert torch.allclose(found.double(), torch.softmax(a.double(), 1), rtol=2.0**-7, atol=0)
    assert torch.equal(run(sources.TRANSPOSE, a), a.T)


@pytest.mark.parametrize("sizes", [(0, 5, 7), (5, 0, 7), (5, 7, 0), (1, 1, 1), (1, 7, 1), (33, 1, 1000)], ids=str)
def test_next_to_nothing(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = (torch.randint(-2, 3, shape, device="cuda").to(torch.bfloat16) for shape in ((m, k), (k, n)))
    found = run(sources.product(to="f32"), a, b)
    assert found.shape == (m, n)
    assert torch.equal(found.double(), a.double() @ b.double())


@pytest.mark.parametrize("types", ["bf16", "f32", "f64"])
def test_what_is_no_number_goes_where_it_belongs(types: str) -> None:
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}[types]
    a, b = torch.randn(256, 512, device="cuda").to(dtype), torch.randn(512, 384, device="cuda").to(dtype)
    a[3, 5], a[7, 100], b[9, 11], b[200, 300] = float("nan"), float("inf"), float("-inf"), float("nan")
    a[7, 9] = 0.0
    found, wanted = run(sources.product(types=types), a, b).double().cpu().numpy(), (a.double() @ b.double()).cpu().numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(wanted))
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(wanted))
