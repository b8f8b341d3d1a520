"""How factors of f32 are multiplied: what a block says, else the option, else the program's `config`."""

import numpy as np
import pytest

import zynml
from compiler.options import CompileOptions, origin
from compiler.source import Source

PRODUCT = """
def f(a: tensor[M, K], b: tensor[K, N]) {
    compute(a, b) %s {
        for i in 0..M, j in 0..N:
            var sum = 0.0
            for k in 0..K: sum += a[i, k] * b[k, j]
            out[i, j] = sum
    }
}
"""


@pytest.mark.parametrize(
    ("block", "config", "option", "expected"),
    (
        ("", "", None, None),
        ("", "", "tf32", "tf32"),
        ("", 'config { products: "tf32" }\n', None, "tf32"),
        ("", 'config { products: "tf32" }\n', "f32", "f32"),
        ("", 'config { products: "f32" }\n', "tf32", "tf32"),
        ("@precision(products=f32)", 'config { products: "tf32" }\n', "tf32", "f32"),
        ("@precision(products=tf32)", "", "f32", "tf32"),
        ("@precision(floats=strict)", "", "tf32", None),
        ("@precision(floats=strict)", "", "f32", "f32"),
    ),
)
def test_the_block_before_the_option_before_the_program(block: str, config: str, option: str | None, expected: str | None) -> None:
    program = zynml.compile(config + PRODUCT % block, products=option)
    assert [word in program.hir for word in ("products=f32", "products=tf32")] == [expected == "f32", expected == "tf32"]


@pytest.mark.parametrize(("products", "bits"), (("tf32", 11), ("f32", 24)))
def test_factors_have_the_bits_that_the_setting_leaves_them(products: str, bits: int) -> None:
    """Factors of 24 bits, one of them a power of two: the sum shows how many bits of the other were multiplied."""
    a = np.full((64, 64), 1 + 2.0**-23, np.float32) * np.eye(64, dtype=np.float32)
    program = zynml.compile(PRODUCT % "@tensor_cores(on)" if products == "tf32" else PRODUCT % "", device="emulator:sm_80", products=products)
    result = program.f(a, 2 * np.eye(64, dtype=np.float32))
    expected = 2.0 if bits == 11 else 2 + 2.0**-22
    np.testing.assert_array_equal(result, np.eye(64) * expected)


def test_an_unknown_way_is_told() -> None:
    with pytest.raises(ValueError, match="products='bf16': there is f32 and tf32"):
        zynml.compile("def f(x) { x }", products="bf16")


def test_programs_that_are_kept_are_kept_by_how_they_multiply() -> None:
    source = Source("p.zynml", PRODUCT % "")
    assert len({origin(source, CompileOptions(products=products)) for products in (None, "f32", "tf32")}) == 3
