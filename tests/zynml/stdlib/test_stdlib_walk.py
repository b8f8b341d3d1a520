"""Every function and method of the library's list, called once on small data: tensors beside NumPy in float64, containers beside their values."""

import math
from typing import Any

import numpy as np
import pytest

from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from runtime.tensor import Tensor
from zynml.api import open_source

A = np.array([[1.0, -2.0, 0.5], [3.0, 4.0, -0.25]])
P = np.abs(A) + 0.5
S = np.array([[1.0, 2.0], [3.0, 4.0]])
IMAGE = np.arange(16.0).reshape(1, 1, 4, 4)
HEAD = """let a = tensor([[1.0, -2.0, 0.5], [3.0, 4.0, -0.25]])
let p = a.abs() + 0.5
let s = tensor([[1.0, 2.0], [3.0, 4.0]])
let image = arange(0, 16).reshape(1, 1, 4, 4)
"""


def value_of(expression: str, before: str = "") -> Any:
    source = Source("p.zynml", f"{HEAD}{before}\nlet result = {expression}\n")
    host = open_source(source, CompileOptions(device="cpu"), Sources(), lambda warning: None).host
    host.run()
    return host.value("result")


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normed(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def gelu(x: Any) -> Any:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


WINDOWS = IMAGE[0, 0].reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(2, 2, 4)
CONVOLVED = np.array([[IMAGE[0, 0, y : y + 2, x : x + 2].sum() for x in range(3)] for y in range(3)])

CREATION = {
    "Tensor::zeros(2, 3)": np.zeros((2, 3)),
    "Tensor::zeros([2, 3])": np.zeros((2, 3)),
    "Tensor::ones(2)": np.ones(2),
    "Tensor::full([2, 2], 3.5)": np.full((2, 2), 3.5),
    "Tensor::eye(3)": np.eye(3),
    "Tensor::arange(0.0, 3.0)": np.arange(3.0),
    "Tensor::arange(1.0, 2.0, step=0.25)": np.arange(1.0, 2.0, 0.25),
    "Tensor::arange(1.0, 2.0, 0.25)": np.arange(1.0, 2.0, 0.25),
    "Tensor::linspace(0.0, 1.0, 5)": np.linspace(0.0, 1.0, 5),
    "Tensor::from_array([[1.0, 2.0]])": np.array([[1.0, 2.0]]),
    "tensor([[1.0], [2.0]])": np.array([[1.0], [2.0]]),
    "zeros_1d(3)": np.zeros(3),
    "Tensor::zeros_2d(2, 3)": np.zeros((2, 3)),
    "Tensor::ones_3d(1, 2, 3)": np.ones((1, 2, 3)),
    "Tensor::full_1d(3, 2.0)": np.full(3, 2.0),
    "Tensor::full_2d([2, 3], 2.0)": np.full((2, 3), 2.0),
    'zeros(2, dtype=f64, device="cpu")': np.zeros(2),
    'allocate([2, 3], f32, "cpu")': np.zeros((2, 3)),
}
STRUCTURE = {
    "a.reshape(3, 2)": A.reshape(3, 2),
    "a.reshape([6])": A.reshape(6),
    "a.flatten()": A.ravel(),
    "a.reshape(1, 6).squeeze()": A.ravel(),
    "a.unsqueeze(0)": A[None],
    "a.transpose()": A.T,
    "a.transpose(0, 1)": A.T,
    "a.reshape(1, 2, 3).permute(2, 0, 1)": A.reshape(1, 2, 3).transpose(2, 0, 1),
    "a.concat(a)": np.concatenate([A, A]),
    "concat([a, a], axis=1)": np.concatenate([A, A], axis=1),
    "stack([a, a])": np.stack([A, A]),
    "stack(a.split(2))": np.stack(np.split(A, 2)),
    "a.expand(4, 2, 3)": np.broadcast_to(A, (4, 2, 3)),
    "a.repeat(2, 1)": np.tile(A, (2, 1)),
    "a.get(4)": A.ravel()[4],
    "a.get([1, 2])": A[1, 2],
    "a.slice(1, 0, 2)": A[:, 0:2],
    "a.slice([0, 1], [1, 3])": A[0:1, 1:3],
    "tensor([7.0]).item()": 7.0,
    "tensor(a.to_list())": A,
    "a.tril()": np.tril(A),
    "a.gather(1, tensor([[2], [0]]))": np.take_along_axis(A, np.array([[2], [0]]), 1),
    "a.scatter_add(1, tensor([[2], [2]]), tensor([[10.0], [20.0]]))": A + np.array([[0, 0, 10.0], [0, 0, 20.0]]),
    "a.embedding(tensor([1, 1, 0]))": A[[1, 1, 0]],
    "tensor([0, 2]).one_hot(3)": np.eye(3)[[0, 2]],
    'a.to_device("cpu")': A,
}
OPERATORS = {
    "a + s[0, 1]": A + 2.0,
    "2.0 - a": 2.0 - A,
    "a * a": A * A,
    "a / p": A / P,
    "p % 0.75": np.fmod(P, 0.75),
    "p ^ 2.0": P**2,
    "s @ a": S @ A,
    "-a": -A,
    "a > 0.5": A > 0.5,
    "a == a": A == A,
    "a <= s[:, 0:1]": S[:, 0:1] >= A,
}
REDUCTIONS = {
    **{f"a.{name}()": getattr(A, name)() for name in ("sum", "mean", "max", "min", "prod", "argmax", "argmin")},
    **{f"a.{name}(axis=1)": getattr(A, name)(axis=1) for name in ("sum", "mean", "max", "min", "prod", "argmax", "argmin")},
    **{f"a.{name}_axis(0)": getattr(A, name)(axis=0) for name in ("sum", "mean", "max", "min", "prod", "argmax", "argmin")},
    **{f"a.{name}({axes})": getattr(A, name)(ddof=1, **given) for name in ("std", "var") for axes, given in (("", {}), ("axis=1", {"axis": 1}))},
    "a.std_axis(0)": A.std(axis=0, ddof=1),
    "a.var_axis(1)": A.var(axis=1, ddof=1),
    "(a > 3.0).any()": True,
    "(a > 3.0).all(axis=0)": (A > 3).all(axis=0),
    "(a > 0.0).any_axis(1)": (A > 0).any(axis=1),
    "(a > 0.0).all_axis(1)": (A > 0).all(axis=1),
    "a.sum(axis=0, keepdims=true)": A.sum(axis=0, keepdims=True),
    "a.cumsum(axis=1)": A.cumsum(axis=1),
}
FUNCTIONS = {
    **{f"p.{name}()": getattr(np, name)(P) for name in ("abs", "sqrt", "exp", "log", "sin", "cos", "tanh")},
    "p.pow(1.5)": P**1.5,
    "a.clamp(-1.0, 1.0)": A.clip(-1, 1),
    "where(a > 0.0, a, p)": np.where(A > 0, A, P),
    "a.relu()": np.maximum(A, 0),
    "a.sigmoid()": sigmoid(A),
    "a.gelu()": gelu(A),
    "a.silu()": A * sigmoid(A),
    "a.softmax()": softmax(A, 1),
    "softmax(a, axis=0)": softmax(A, 0),
    "a.layer_norm()": normed(A),
    "a[0].dot(a[1])": A[0] @ A[1],
    "s.matmul(a)": S @ A,
    "a.cross_entropy(tensor([2, 0]))": -np.log(softmax(A, 1)[[0, 1], [2, 0]]).mean(),
    "image.conv2d(ones(1, 1, 2, 2))": CONVOLVED[None, None],
    "conv2d(image, ones(1, 1, 2, 2), stride=2)": CONVOLVED[None, None, ::2, ::2],
    "image.max_pool2d(2)": WINDOWS.max(axis=2)[None, None],
    "image.avg_pool2d(2)": WINDOWS.mean(axis=2)[None, None],
    "a.topk(2).0": np.sort(A, axis=1)[:, ::-1][:, :2],
    "a.topk(2).1": np.argsort(-A, axis=1)[:, :2],
    "a.sort()": np.sort(A, axis=1),
    "a.sort(axis=0, descending=true)": -np.sort(-A, axis=0),
    "a.argsort()": np.argsort(A, axis=1),
    'einsum("ij,jk->ik", s, a)': S @ A,
    'einsum("ij->j", a)': A.sum(axis=0),
    "a.allclose(a + 1.0e-9)": True,
    "a.allclose(p)": False,
    "a.quantize(int8).0": np.rint(A / (4.0 / 127)),
    "a.quantize(i8).1": 4.0 / 127,
}


@pytest.mark.parametrize("expression", [*CREATION, *STRUCTURE, *OPERATORS, *REDUCTIONS, *FUNCTIONS])
def test_a_call_on_tensors_gives_what_numpy_gives(expression: str) -> None:
    expected = {**CREATION, **STRUCTURE, **OPERATORS, **REDUCTIONS, **FUNCTIONS}[expression]
    found = value_of(expression)
    array = np.asarray(found.array if isinstance(found, Tensor) else found)
    assert array.shape == np.shape(expected)
    # Inputs are of f32, and a few operations on them are rounded to it.
    np.testing.assert_allclose(array.astype(np.float64), np.asarray(expected, np.float64), rtol=3e-6, atol=3e-6)


VALUES = {
    "a.shape()": [2, 3],
    "a.shape(1)": 3,
    "a.ndim()": 2,
    "a.numel()": 6,
    "a.dtype()": "f32",
    "a.device()": "cpu",
    "tensor([1, 2]).dtype()": "i64",
    "tensor([true]).dtype()": "bool",
    "tensor([1i8, 2]).sum()": 3,
    "Tensor::rand(2, 3).shape()": [2, 3],
    "Tensor::randn_2d(2, 3).shape()": [2, 3],
    "compute_devices()[0]": "cpu",
    'memory_pool("cpu").to_map().contains_key("idle")': True,
    "Some(3).is_some()": True,
    "Some(3).is_none()": False,
    "Some(3).unwrap()": 3,
    "half(3).unwrap_or(7)": 7,
    "half(8).map(n => n + 1).unwrap()": 5,
    "half(8).and_then(n => half(n)).unwrap()": 2,
    'half(3).ok_or("odd").is_err()': True,
    "checked(4).is_ok()": True,
    "checked(4).unwrap()": 4,
    "checked(-4).unwrap_or(0)": 0,
    "checked(4).map(n => n * 2).unwrap()": 8,
    "checked(4).and_then(n => checked(n - 9)).is_err()": True,
    "checked(4).ok().unwrap()": 4,
    'checked(-4).map_err(e => e + "!").is_err()': True,
    "[1, 2].len()": 2,
    "xs": [9, 3, 1, 5],
    "xs.get(1)": 3,
    "xs.contains(5)": True,
    "xs.is_empty()": False,
    '["b", "a"].join("-")': "b-a",
    "xs.sorted()": [1, 3, 5, 9],
    "xs.sum()": 18,
    "m.len()": 2,
    'm.get("a").unwrap()': 1,
    'm.contains_key("zz")': False,
    'm.contains("b")': True,
    "m.keys()": ["b", "c"],
    "m.values()": [2, 3],
    "m.is_empty()": False,
    "t.len()": 2,
    "t.contains(4)": True,
    "t.is_empty()": False,
    '"a,b".split(",")': ["a", "b"],
    '"text".len()': 4,
    '"text".contains("ex")': True,
    '"".is_empty()': True,
    '"text".get(1)': "e",
    "(0..5).map(i => i * i)": [0, 1, 4, 9, 16],
    "(0..5).filter(i => i % 2 == 1)": [1, 3],
    "[1, 2, 3].take(2)": [1, 2],
    "[1, 2, 3].skip(2)": [3],
    '["x", "y"].enumerate()': [(0, "x"), (1, "y")],
    '[1, 2].zip(["x", "y"])': [(1, "x"), (2, "y")],
    "[1].chain([2, 3])": [1, 2, 3],
    "[1, 2, 3].fold(10, (sum, x) => sum + x)": 16,
    "(0..3).collect()": [0, 1, 2],
    "[1, 2, 3].find(x => x > 1).unwrap()": 2,
    "[1, 2, 3].any(x => x > 2)": True,
    "[1, 2, 3].all(x => x > 2)": False,
    "[1, 2, 3].count(x => x > 1)": 2,
    "range(1, 4).to_list()": [1, 2, 3],
    "len([1, 2])": 2,
    "min(2, 3)": 2,
    "max(2.5, 3.5)": 3.5,
    "abs(-4)": 4,
    "sqrt(16.0)": 4.0,
    'extern string_concat("a", "b")': "ab",
    "extern string_length(\"abc\")": 3,
    "extern tensor_arange(0.0, 3.0, 1.0).sum() as f64": 3.0,
    "extern tensor_add(s, s).sum() as f64": 20.0,
}
FUNCTIONS_AND_CONTAINERS = """
fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }
fn checked(n: int) -> Result<int, String> { if n >= 0 { Ok(n) } else { Err("negative") } }
mut xs = [3, 1]
xs.push(5)
xs.insert(0, 9)
mut gone = [1, 2]
gone.remove(0)
gone.clear()
assert(gone.is_empty())
mut m = {"a": 1, "b": 2}
let one = m.get("a")
m.insert("c", 3)
assert(m.remove("a").unwrap() == 1 and one.unwrap() == 1)
mut n = {1: "x"}
n.clear()
assert(n.is_empty())
mut t = HashSet::from([3, 4])
t.insert(5)
t.remove(3)
mut u = HashSet::from([1])
u.clear()
assert(u.is_empty())
mut order = [3, 1, 2]
order.sort()
assert(order == [1, 2, 3])
let w = tensor([1.0, 2.0])
mut changed = w.clone()
changed.set(0, 5.0)
changed.set([1], 6.0)
assert(changed.get(0) == 5.0 and changed.get([1]) == 6.0)
synchronize()
"""


@pytest.mark.parametrize("expression", VALUES)
def test_a_call_gives_its_value(expression: str) -> None:
    before = FUNCTIONS_AND_CONTAINERS + ('m.insert("a", 1)\n' if 'm.get("a")' in expression else "")
    found = value_of(expression, before)
    assert found == VALUES[expression] or (hasattr(found, "item") and found.item() == VALUES[expression])


def test_vectors_of_the_library() -> None:
    x, y = S, np.array([[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]])
    before = "import zynml.vector as v\nlet x = s\nlet y = tensor([[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]])"
    lengths = np.linalg.norm(x, axis=1)[:, None]
    expected = {
        "v.normalize(x)": x / lengths,
        "v.cosine(x, y)": (x / lengths) @ (y / np.linalg.norm(y, axis=1)[:, None]).T,
        "v.l2(x, y)": np.linalg.norm(x[:, None] - y[None], axis=2),
        "v.topk(x, 1).0": x.max(axis=1)[:, None],
    }
    for expression, value in expected.items():
        np.testing.assert_allclose(value_of(expression, before).array, value, rtol=3e-6, atol=3e-6)
