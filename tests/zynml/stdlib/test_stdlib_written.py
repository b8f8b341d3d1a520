"""Functions of the library that run as ZynML, or that write it: windows over images, sums by letters; and elements at named places."""

from typing import Any

import numpy as np
import pytest

import zynml
from runtime.tensor import Tensor
from zynml.stdlib.explained import explained

RANDOM = np.random.default_rng(5)


def t(values: Any) -> Tensor:
    return Tensor(np.asarray(values))


def _convolved(x: Any, w: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """Written out for one output after the other, in float64."""
    batch, _, height, width = x.shape
    filters, each, rows, columns = w.shape
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    down = (height + 2 * padding - (rows - 1) * dilation - 1) // stride + 1
    across = (width + 2 * padding - (columns - 1) * dilation - 1) // stride + 1
    out = np.zeros((batch, filters, down, across))
    for n, o, i, j in np.ndindex(out.shape):
        first = o // (filters // groups) * each
        part = x[n, first : first + each, i * stride :: dilation, j * stride :: dilation][:, :rows, :columns]
        out[n, o, i, j] = (part * w[o]).sum()
    return out


@pytest.mark.parametrize(
    ("shape", "weights", "options"),
    [
        ((2, 3, 7, 5), (4, 3, 3, 3), {}),
        ((1, 4, 9, 8), (6, 2, 3, 2), {"stride": 2, "padding": 1, "groups": 2}),
        ((1, 2, 11, 11), (2, 1, 3, 3), {"dilation": 3, "groups": 2}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ],
)
def test_conv2d_is_the_sum_over_windows(call: Any, shape: Any, weights: Any, options: dict[str, int]) -> None:
    x, w = RANDOM.random(shape, np.float32), RANDOM.random(weights, np.float32)
    wanted = _convolved(x, w, *({"stride": 1, "padding": 0, "dilation": 1, "groups": 1} | options).values())
    found = call.method(t(x), "conv2d", t(w), **options).contents
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    bias = RANDOM.random(weights[0], np.float32)
    np.testing.assert_allclose(call("conv2d", t(x), t(w), t(bias), **options).contents, wanted + bias[:, None, None], rtol=1e-5)


def test_pools_take_the_largest_and_the_mean_of_windows(call: Any) -> None:
    x = RANDOM.random((2, 3, 6, 7), np.float32)
    tiles = x[:, :, :6, :6].reshape(2, 3, 3, 2, 3, 2)
    np.testing.assert_array_equal(call.method(t(x), "max_pool2d", 2).contents, tiles.max(axis=(3, 5)))
    np.testing.assert_allclose(call.method(t(x), "avg_pool2d", 2).contents, tiles.astype(np.float64).mean(axis=(3, 5)), rtol=1e-6)
    padded = call.method(t(np.ones((1, 2, 2), np.float32)), "avg_pool2d", 2, padding=1).contents
    np.testing.assert_array_equal(padded, np.full((1, 2, 2), 0.25))


def test_faults_of_windows(call: Any) -> None:
    x, w = t(np.zeros((1, 3, 4, 4), np.float32)), t(np.zeros((2, 3, 5, 5), np.float32))
    assert call.fault("conv2d", x, w) == ("0301", "`conv2d` needs a height of at least 5, and the image has 4")
    assert call.fault("conv2d", x, t(np.zeros((2, 2, 1, 1), np.float32))) == (
        "0301",
        "the image has 3 channels, and the weights [2, 2, 1, 1] take 2",
    )
    assert call.fault("conv2d", x, w, padding=1, stride=0) == ("0203", "`stride` is at least 1, not 0")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij->ji", [(2, 5)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(3, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 1)]),
        ("i,j->ij", [(3,), (31,)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]),
        ("Ab,bA->b", [(2, 3), (3, 2)]),
    ],
)
def test_einsum_is_that_of_numpy(call: Any, equation: str, shapes: Any) -> None:
    tensors = [RANDOM.random(shape, np.float32) for shape in shapes]
    wanted = np.einsum(equation, *(one.astype(np.float64) for one in tensors))
    found = call("einsum", equation, *map(t, tensors))
    np.testing.assert_allclose(found.contents if isinstance(found, Tensor) else found, wanted, rtol=1e-5)


def test_einsum_of_ints_is_exact(call: Any) -> None:
    a, b = RANDOM.integers(-(2**40), 2**40, (3, 4)), RANDOM.integers(-9, 9, (4, 2))
    np.testing.assert_array_equal(call("einsum", "ij,jk->ik", t(a), t(b)).contents, a @ b)


def test_small_ints_are_summed_in_wider_ones(call: Any) -> None:
    a = np.full((1, 100), 100, np.int8)
    found = call("einsum", "ij,kj->ik", t(a), t(a)).contents
    assert found.dtype == np.int32 and found.tolist() == [[1_000_000]]


def test_faults_of_einsum(call: Any) -> None:
    a = t(np.zeros((2, 3), np.float32))
    assert call.fault("einsum", "ij,jk->ik", a, a) == ("0301", "`j` is 3 in one place and 2 in another: [2, 3] and [2, 3]")
    assert call.fault("einsum", "ij,jk->ik", a) == ("0204", '"ij,jk->ik" takes 2 tensors, but 1 is given')
    assert call.fault("einsum", "ijk->i", a) == ("0301", "`ijk` names 3 axes, and the tensor has 2")
    assert call.fault("einsum", "ij->ii", a) == ("0203", 'the result of "ij->ii" has a letter twice')
    assert call.fault("einsum", "ij->k", a) == ("0203", '`k` of the result stands in no operand of "ij->k"')
    assert call.fault("einsum", "i1->i", a) == ("0203", '"i1->i" isn\'t made of letters')


def test_rows_and_elements_at_named_places(call: Any) -> None:
    x = RANDOM.random((5, 4), np.float32)
    np.testing.assert_array_equal(call.method(t(x), "embedding", t([[4, 0], [1, 1]])).contents, x[[[4, 0], [1, 1]]])
    places = RANDOM.integers(0, 4, (5, 2))
    np.testing.assert_array_equal(call.method(t(x), "gather", 1, t(places)).contents, np.take_along_axis(x, places, 1))
    added = RANDOM.random((5, 2), np.float32)
    wanted = x.astype(np.float64)
    for row, column in np.ndindex(5, 2):
        wanted[row, places[row, column]] += added[row, column]
    np.testing.assert_allclose(call.method(t(x), "scatter_add", 1, t(places), t(added)).contents, wanted, rtol=1e-6)


def test_faults_of_named_places(call: Any) -> None:
    x = t(np.zeros((5, 4), np.float32))
    assert call.method_fault(x, "embedding", [5]) == ("0801", "index 5 is out of range: axis 0 has 5 elements")
    assert call.method_fault(x, "embedding", [0.5])[0] == "0407"
    message = "the indices have shape [2, 2], and but for axis 1 that of [5, 4] is needed"
    assert call.method_fault(x, "gather", 1, t([[0, 0], [0, 0]])) == ("0301", message)
    assert call.method_fault(x, "scatter_add", 1, t([[0]] * 5), t([[0]] * 4))[0] == "0301"
    assert call.method_fault(x, "scatter_add", 1, t([[0]] * 5), t([[0.0]] * 5)) == ("0207", "the values are f64, and the tensor f32")


def test_int8_numbers_come_back_within_half_a_scale(call: Any) -> None:
    x = RANDOM.normal(size=1000).astype(np.float32)
    q, scale = call.method(t(x), "quantize")
    assert q.contents.dtype == np.int8
    assert q.contents.max() == 127 or q.contents.min() == -127
    assert np.abs(q.contents.astype(np.float64) * scale - x).max() <= scale / 2 * (1 + 1e-6)
    zeros, one = call.method(t(np.zeros(3, np.float32)), "quantize")
    assert not zeros.contents.any() and one == 1.0
    assert call.method_fault(t([np.inf]), "quantize") == ("0203", "`quantize` takes finite numbers")


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_large_tensors_run_as_kernels_and_give_the_same(call: Any, name: str) -> None:
    x = RANDOM.normal(size=(3, 5, 1 << 15)).astype(np.float32)
    wide = x.astype(np.float64)
    logs = wide - wide.max(axis=-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
    wanted = logs if name == "log_softmax" else np.exp(logs)
    np.testing.assert_allclose(call.method(t(x), name).contents, wanted, rtol=2e-5)


def test_vectors_are_a_module_of_the_library() -> None:
    program = zynml.compile(
        "import zynml.vector\ndef near(a: tensor[M, D], b: tensor[N, D]) { (vector.cosine(a, b), vector.l2(a, b)) }\n"
    )
    a, b = RANDOM.normal(size=(4, 7)).astype(np.float32), RANDOM.normal(size=(3, 7)).astype(np.float32)
    cosine, distance = program.functions["near"](a, b)
    lengths = np.linalg.norm(a.astype(np.float64), axis=1)[:, None] * np.linalg.norm(b.astype(np.float64), axis=1)
    np.testing.assert_allclose(cosine, a.astype(np.float64) @ b.T.astype(np.float64) / lengths, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(distance, np.linalg.norm(a[:, None].astype(np.float64) - b, axis=2), rtol=1e-5)


def test_a_function_is_explained_with_its_text() -> None:
    text = explained("softmax")
    assert text is not None and text.startswith("* `x.softmax(") and text.rstrip().endswith("}")
    assert "for j in 0..C: top = max(top, x[i, j])" in text
    assert explained("nothing_of_that_name") is None
