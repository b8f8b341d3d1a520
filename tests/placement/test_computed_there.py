"""Functions of the library on tensors that lie on a GPU run there: their values are NumPy's, and only numbers are copied."""

import ml_dtypes
import numpy as np
import pytest

from runtime.tensor import Tensor
from tests.quantdsl.host.running import printed

DTYPES = {"bool": np.bool_, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
          "f32": np.float32, "f64": np.float64}
ROUNDED = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-22, "f64": 2.0**-50}
"""Relative errors: half a unit of the last place in 16 bits, a few units in others."""


def run(machine, text: str, **arrays) -> dict:
    """What a program's variables hold: `text` reads tensors on the GPU by their names."""
    session = machine.open(text)
    functions = session.host.functions
    given = {name: Tensor(array) for name, array in arrays.items()}
    value = functions["f"](*given.values())
    assert all(tensor.host is not None for tensor in given.values())
    return value


def samples(dtype: str, count: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(count) < 0.5
    if DTYPES[dtype] in (np.uint8, np.int32, np.int64):
        return rng.integers(0, 120, count).astype(DTYPES[dtype])
    return (rng.standard_normal(count) * 3).astype(DTYPES[dtype])


def program(expression: str, *names: str) -> str:
    """A function that sends its tensors to the GPU first."""
    sent = "\n".join(f'    let {name} = {name}0.to_device("cuda:0")' for name in names)
    return f"def f({', '.join(f'{name}0' for name in names)}) {{\n{sent}\n    {expression}\n}}\n"


CASTS = [
    (source, target)
    for source in DTYPES
    for target in DTYPES
    if target in ROUNDED or source in ("bool", target) or (source, target) in (("u8", "i32"), ("u8", "i64"), ("i32", "i64"))
]


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(machine, source, target) -> None:
    x = samples(source, 33)
    value = run(machine, program(f"a as tensor[?, {target}]", "a"), a=x)
    assert str(value.device) == "cuda:0" and value.dtype_name == target and machine.copies == {"in": 1, "out": 0}
    np.testing.assert_array_equal(value.contents.astype(np.float64), x.astype(DTYPES[target]).astype(np.float64))


def test_special_floats_are_cast(machine) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 3.4e38, 1e-45, 65520.0, 1.0 + 2.0**-9], np.float32)
    for target in ("bf16", "f16", "f64"):
        value = run(machine, program(f"a as tensor[?, {target}]", "a"), a=x.copy()).contents
        with np.errstate(over="ignore"):
            expected = x.astype(DTYPES[target])
        np.testing.assert_array_equal(value.astype(np.float64), expected.astype(np.float64))
        assert np.signbit(value.astype(np.float64)[3])


@pytest.mark.parametrize(("source", "target", "code"), [("f32", "i32", "0806"), ("i64", "u8", "0806")])
def test_casts_that_may_stop_look_at_every_element(machine, source, target, code) -> None:
    message = machine.fails(f'let x = full([3], 1000000000000, dtype={source}).to_device("cuda:0")\nprintln(x as tensor[?, {target}])\n')
    assert f"error[ZYN{code}]" in message and "does not fit" in message


@pytest.mark.parametrize("dtype", list(ROUNDED))
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b", lambda a, b: a + b),
        ("a - 2.5", lambda a, b: a - 2.5),
        ("3.0 * a", lambda a, b: 3.0 * a),
        ("a / b", lambda a, b: a / b),
        ("-a", lambda a, b: -a),
        ("abs(a)", lambda a, b: np.abs(a)),
        ("a.relu()", lambda a, b: np.maximum(a, 0)),
        ("a.exp()", lambda a, b: np.exp(a)),
        ("a.tanh()", lambda a, b: np.tanh(a)),
        ("floor(a)", lambda a, b: np.floor(a)),
    ],
)
def test_elements(machine, dtype, expression, expected) -> None:
    a, b = samples(dtype, 24), samples(dtype, 24, 4)
    value = run(machine, program(expression, "a", "b"), a=a, b=b)
    assert str(value.device) == "cuda:0" and value.dtype_name == dtype and machine.copies["out"] == 0
    np.testing.assert_allclose(
        value.contents.astype(np.float64), expected(a.astype(np.float64), b.astype(np.float64)), rtol=ROUNDED[dtype], atol=1e-7
    )


def test_dtypes_that_meet(machine) -> None:
    a, b = samples("f16", 7), samples("bf16", 7)
    value = run(machine, program("a + b", "a", "b"), a=a, b=b)
    assert value.dtype_name == "f32" and str(value.device) == "cuda:0"
    np.testing.assert_array_equal(value.contents, a.astype(np.float32) + b.astype(np.float32))
    ints = run(machine, program("a * b", "a", "b"), a=samples("i32", 7), b=samples("f32", 7))
    assert ints.dtype_name == "f32"
    np.testing.assert_array_equal(ints.contents, samples("i32", 7).astype(np.float32) * samples("f32", 7))


def test_shapes_broadcast(machine) -> None:
    a, b = samples("f32", 12).reshape(3, 1, 4), samples("f32", 5).reshape(5, 1)
    value = run(machine, program("a - b", "a", "b"), a=a, b=b)
    assert str(value.device) == "cuda:0"
    np.testing.assert_array_equal(value.contents, a - b)
    strided = run(machine, program("a.reshape(3, 4).transpose() + a.reshape(4, 3)", "a"), a=a)
    np.testing.assert_array_equal(strided.contents, a.reshape(3, 4).T + a.reshape(4, 3))


def test_shapes_that_do_not_fit_are_told_as_on_the_host(machine) -> None:
    text = 'let x = ones(3){0}\nlet y = ones(4){0}\ndef f(x, y) {{ x + y }}\nprintln(f(x, y))\n'
    there, here = (machine.fails(text.format(where)) for where in ('.to_device("cuda:0")', ""))
    assert there.split("program.zynml")[0] == here.split("program.zynml")[0] and there.startswith("error[ZYN0301]")


@pytest.mark.parametrize("symbol", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(machine, symbol) -> None:
    a, b = np.array([1.0, np.nan, -0.0, 2.0], np.float32), np.array([1.0, np.nan, 0.0, 3.0], np.float32)
    value = run(machine, program(f"a {symbol} b", "a", "b"), a=a, b=b)
    assert value.dtype_name == "bool" and str(value.device) == "cuda:0"
    np.testing.assert_array_equal(value.contents, eval(f"a {symbol} b"))


def test_ints_keep_their_checks(machine) -> None:
    message = machine.fails('let x = full([3], 2147483647, dtype=i32).to_device("cuda:0")\nprintln(x + x)\n')
    assert "error[ZYN0806]: integer overflow" in message


@pytest.mark.parametrize("dtype", list(ROUNDED))
@pytest.mark.parametrize("name", ["sum", "mean", "min", "max"])
@pytest.mark.parametrize("axis", ["0", "1", "[0, 2]", "-1", "-1, keepdims=true"])
def test_reductions_along_axes(machine, dtype, name, axis) -> None:
    x = samples(dtype, 60).reshape(3, 4, 5)
    value = run(machine, program(f"a.{name}(axis={axis})", "a"), a=x)
    assert str(value.device) == "cuda:0" and value.dtype_name == dtype and machine.copies["out"] == 0
    axes = tuple(eval(axis.split(", keep")[0])) if axis.startswith("[") else eval(axis.split(", keep")[0])
    expected = getattr(np, name)(x.astype(np.float64), axis=axes, keepdims="keepdims" in axis)
    np.testing.assert_allclose(value.contents.astype(np.float64), expected, rtol=ROUNDED[dtype], atol=1e-7)


@pytest.mark.parametrize("name", ["min", "max"])
def test_nan_wins(machine, name) -> None:
    x = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, -np.inf]], np.float32)
    value = run(machine, program(f"a.{name}(axis=1)", "a"), a=x)
    np.testing.assert_array_equal(value.contents, getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max"])
@pytest.mark.parametrize("call", ["a.{}()", "{}(a)"])
def test_a_number_alone_is_fetched(machine, monkeypatch, name, call) -> None:
    monkeypatch.setattr("zynml.stdlib.on_devices.FETCHED", 64)
    downloads: list[int] = []
    fetch = machine.fake.__class__.cuMemcpyDtoHAsync
    monkeypatch.setattr(machine.fake.__class__, "cuMemcpyDtoHAsync", lambda self, *at: (downloads.append(at[2]), fetch(self, *at))[1])
    x = samples("f32", 1000)
    value = run(machine, program(call.format(name), "a"), a=x)
    assert type(value) is np.float32 and len(downloads) == 1 and downloads[0] <= 8
    np.testing.assert_allclose(value, getattr(np, name)(x.astype(np.float64)), rtol=2.0**-22)


@pytest.mark.parametrize("dtype", ["bool", "u8", "i64", "bf16", "f32"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_joins(machine, dtype, axis) -> None:
    a, b = samples(dtype, 24).reshape(2, 3, 4), samples(dtype, 24, 4).reshape(2, 3, 4)
    value = run(machine, program(f"concat(a, b, a, axis={axis})", "a", "b"), a=a, b=b)
    assert str(value.device) == "cuda:0" and value.dtype_name == dtype and machine.copies["out"] == 0
    np.testing.assert_array_equal(value.contents, np.concatenate([a, b, a], axis))
    value = run(machine, program(f"stack([a, b], axis={axis - 1})", "a", "b"), a=a, b=b)
    assert str(value.device) == "cuda:0"
    np.testing.assert_array_equal(value.contents, np.stack([a, b], axis - 1))


def test_parts_of_a_tensor_are_joined(machine) -> None:
    a = samples("f32", 24).reshape(4, 6)
    value = run(machine, program("concat(a[:, 3:6], a.transpose()[0:4], axis=1)", "a"), a=a)
    np.testing.assert_array_equal(value.contents, np.concatenate([a[:, 3:6], a.T[0:4]], 1))


@pytest.mark.parametrize(("x", "y"), [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4)), ((2, 1, 3, 5), (2, 1, 5, 2))])
@pytest.mark.parametrize("dtypes", [("f32", "f32"), ("bf16", "bf16"), ("f16", "bf16"), ("f64", "f32")])
def test_products(machine, x, y, dtypes) -> None:
    a, b = samples(dtypes[0], int(np.prod(x))).reshape(x), samples(dtypes[1], int(np.prod(y)), 4).reshape(y)
    value = run(machine, program("a @ b", "a", "b"), a=a, b=b)
    dtype = {("bf16", "bf16"): "bf16", ("f64", "f32"): "f64"}.get(dtypes, "f32")
    assert str(value.device) == "cuda:0" and value.dtype_name == dtype and machine.copies["out"] == 0
    wide = a.astype(np.float64), b.astype(np.float64)
    # the rounding of the result, and that of five terms before it
    bound = ROUNDED[dtype] * np.abs(wide[0] @ wide[1]) + 5 * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert (np.abs(value.contents.astype(np.float64) - wide[0] @ wide[1]) <= bound).all()


@pytest.mark.parametrize("expression", ["a @ b[:, 0]", "a[0] @ b", "a[0].dot(b[:, 0])", "(a as tensor[?, ?, i32]) @ (b as tensor[?, ?, i32])", "a[0:0] @ b"])
def test_other_products_are_numpys(machine, expression) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
    value = run(machine, program(expression, "a", "b"), a=a, b=b)
    expected = {"a @ b[:, 0]": a @ b[:, 0], "a[0] @ b": a[0] @ b, "a[0].dot(b[:, 0])": a[0] @ b[:, 0], "a[0:0] @ b": a[0:0] @ b}
    np.testing.assert_array_equal(value.contents if isinstance(value, Tensor) else value, expected.get(expression, a @ b))


def test_products_of_vectors(machine) -> None:
    a, b = samples("f32", 5), samples("f32", 4)
    value = run(machine, program("a.outer(b)", "a", "b"), a=a, b=b)
    assert str(value.device) == "cuda:0"
    np.testing.assert_array_equal(value.contents, np.outer(a, b))


@pytest.mark.parametrize("condition", ["a > 0.0", "(a > 0.0) as tensor[?, i32]"])
def test_choices(machine, condition) -> None:
    a = np.array([1.0, -2.0, np.nan, 0.5], np.float32)
    value = run(machine, program(f"where({condition}, a, -1.5)", "a"), a=a)
    assert str(value.device) == "cuda:0" and machine.copies["out"] == 0
    np.testing.assert_array_equal(value.contents, np.where(a > 0, a, np.float32(-1.5)))


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_copies(machine, dtype) -> None:
    """They share nothing with the tensor."""
    a = samples(dtype, 12).reshape(3, 4)
    value = run(machine, program("a.transpose().clone()", "a"), a=a)
    assert str(value.device) == "cuda:0" and value.is_contiguous and machine.copies["out"] == 0
    np.testing.assert_array_equal(value.contents, a.T)
    value = run(machine, program("a.transpose().reshape(2, 6)", "a"), a=a)
    assert str(value.device) == "cuda:0" and machine.copies["out"] == 1
    np.testing.assert_array_equal(value.contents, a.T.reshape(2, 6))
    ran = machine.run('let a = arange(0, 3).to_device("cuda:0")\nmut b = a.clone()\nb[0] = 9.0\nprintln(a, b)\n')
    assert ran.output == "tensor([0.0, 1.0, 2.0], shape=[3], dtype=f32) tensor([9.0, 1.0, 2.0], shape=[3], dtype=f32)\n"


def test_a_program_of_another_language_computes_there_too(machine, capsys) -> None:
    """The library's own kernels follow ZynML's rules, whatever those of the program are."""
    text = """
fn main() {
    let numbers = arange(0, 1000)
    let base = compute(numbers) @device("cuda") -> tensor[N, f64] { for i in 0..N: out[i] = numbers[i] as f64 }
    let twice = 2.5 * base * base
    println(twice.sum())
}
"""
    assert printed(text, capsys) == f"{2.5 * sum(i * i for i in range(1000)):.1f}\n"
    assert machine.copies == {"in": 1, "out": 1}  # the first numbers, and the sum
