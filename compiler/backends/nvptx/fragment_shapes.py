"""Which fragments the tensor cores of NVIDIA's GPUs multiply, and how many registers of a thread hold each."""

from compiler.backends.llvm.types import F32, F64, I32, LlvmType
from compiler.hir.types import Fragment, FragmentRole
from compiler.machines.units import wmma
from compiler.machines.units.unit import Shape
from runtime.records import frozen


@frozen
class WarpProduct:
    """How the hardware multiplies: registers a thread of a, of b; its name of the operands' type."""

    a: int
    b: int
    word: str


_HALF = {(16, 16, 16): (8, 8), (32, 8, 16): (8, 8), (8, 32, 16): (8, 8)}
_BRAIN = {(16, 16, 16): (4, 4), (32, 8, 16): (8, 2), (8, 32, 16): (2, 8)}
_BYTES = {(16, 16, 16): (2, 2), (32, 8, 16): (4, 1), (8, 32, 16): (1, 4)}
PRODUCTS: dict[tuple[str, Shape], WarpProduct] = {
    **{("f16", shape): WarpProduct(a, b, "f16") for shape, (a, b) in _HALF.items()},
    **{("bf16", shape): WarpProduct(a, b, "bf16") for shape, (a, b) in _BRAIN.items()},
    **{(dtype, shape): WarpProduct(a, b, word) for dtype, word in (("i8", "s8"), ("u8", "u8")) for shape, (a, b) in _BYTES.items()},
    ("f32", (16, 16, 8)): WarpProduct(4, 4, "tf32"),
    ("f64", (8, 8, 4)): WarpProduct(1, 1, "f64"),
    ("f16", (8, 8, 8)): WarpProduct(1, 1, "f16"),
    ("bf16", (8, 8, 8)): WarpProduct(1, 1, "bf16"),
}
"""By the dtype of `a` and `b`, and rows, columns, depth. f32 operands are rounded to tf32."""

PADDED = (8, 8, 8)
"""The shape that is the upper half of a larger one."""


def shape_of(fragment: Fragment) -> Shape:
    return fragment.rows, fragment.columns, fragment.depth


def registers_of(fragment: Fragment) -> tuple[LlvmType, int] | None:
    """The registers of a thread that hold its part of a fragment: their type, and how many. None: no product is of such fragments."""
    shape, dtype = shape_of(fragment), fragment.dtype
    if fragment.role is FragmentRole.ACCUMULATOR:
        if not any(known == shape and dtype in wmma.SUMS[operand] for operand, known in PRODUCTS):
            return None
        if shape == PADDED or dtype == "f64":
            return scalar_kind(dtype), 2
        return scalar_kind(dtype), 4 if dtype == "f16" else 8
    product = PRODUCTS.get((dtype, shape))
    if product is None:
        return None
    kind = I32 if dtype == "f32" else scalar_kind(dtype)
    return kind, product.a if fragment.role is FragmentRole.A else product.b


def scalar_kind(dtype: str) -> LlvmType:
    """The register that holds a matrix element of 32 or 64 bits, or a pair of 16-bit or four 8-bit ones."""
    return {"f32": F32, "f64": F64}.get(dtype, I32)
