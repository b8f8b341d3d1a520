"""Products of matrices in any layout, with batches, of any types, with what follows the sum."""

from typing import Any

import numpy as np

from tests.kernels.checks import DTYPES
from tests.random_cases.case import Array, Case, Draw, wide

TYPES = (
    ("bf16", "bf16"), ("bf16", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32"), ("u8", "i32"),
    ("i32", "i32"),
)  # fmt: skip
"""Of operands and results."""

AFTER = {
    "": lambda s, r, c, z: s,
    "{s} * 0.5": lambda s, r, c, z: s * 0.5,
    "max({s}, 0.0)": lambda s, r, c, z: np.maximum(s, 0),
    "{s} + {r}": lambda s, r, c, z: s + r,
    "max({s} + {c}, 0.0)": lambda s, r, c, z: np.maximum(s + c, 0),
    "({s} + {c}) * 0.25 + {z}": lambda s, r, c, z: (s + c) * 0.25 + z,
    "{z} - {s}": lambda s, r, c, z: z - s,
    "{s} * sigmoid({s})": lambda s, r, c, z: s / (1 + np.exp(-s)),
}
"""What becomes of a sum, with a value for each row, for each column, for each element."""


def product(draw: Draw) -> Case:
    types, to = draw.one(TYPES)
    whole = types[0] in "iu"
    batches = int(draw.one((0, 0, 0, 1, 2)))
    m, n, k = draw.extents(3, 1 << 26)
    *counts, m, n = (*(draw.extent(4) for _ in range(batches)), m, n)
    exact_values = draw.often(0.5)
    i, j, t = draw.name(), draw.name(), draw.name()
    axes = [(draw.name(), f"B{number}", count) for number, count in enumerate(counts)]
    rows, columns, terms = (i, "M", m), (j, "N", n), (t, "K", k)

    def operand(own: tuple[str, str, int]) -> tuple[list[tuple[str, str, int]], Array]:
        pair = [own, terms] if draw.often(0.5) else [terms, own]
        place = int(draw.chance.integers(3)) if axes and draw.often(0.3) else 0
        order = [*pair[:place], *axes, *pair[place:]]
        return order, draw.array(types, [extent for _, _, extent in order], exact_values)

    (order_a, a), (order_b, b) = operand(rows), operand(columns)
    after = "" if whole else str(draw.one([*AFTER, "", ""]))
    out = [*axes, *([columns, rows] if draw.often(0.15) else [rows, columns])]
    inputs: list[tuple[str, list[tuple[str, str, int]], str, Array]] = [("A", order_a, types, a), ("B", order_b, types, b)]
    extra = {"{r}": ("R", [rows]), "{c}": ("C", [columns]), "{z}": ("Z", out)}
    made: dict[str, Any] = {"{r}": 0.0, "{c}": 0.0, "{z}": 0.0}
    for mark, (name, order) in extra.items():
        if mark in after:
            value = draw.array(types, [extent for _, _, extent in order], exact_values)
            inputs.append((name, order, types, value))
            made[mark] = value
    term = f"A[{_indices(order_a)}] * B[{_indices(order_b)}]"
    stored = after or "{s}"
    for mark, (name, order) in extra.items():
        stored = stored.replace(mark, f"{name}[{_indices(order)}]")
    body = f"var s = {'0' if whole else '0.0'}\nfor {t} in 0..K: s += {term}\nout[{_indices(out)}] = {stored.replace('{s}', 's')}"
    loops = draw.loops([f"{name} in 0..{size}" for name, size, _ in out], body, "        ")
    declared = ", ".join(f"{name}: tensor[{', '.join(size for _, size, _ in order)}, {dtype}]" for name, order, dtype, _ in inputs)
    kind = "matmul" if not axes else "batched_matmul"
    promise = f" @kernel({kind})" if draw.often(0.5) else ""
    source = f"""
def f({declared}) {{
    compute({", ".join(name for name, *_ in inputs)}) -> tensor[{", ".join(size for _, size, _ in out)}, {to}]{promise} {{
{loops}
    }}
}}"""

    def summed(change: Any = lambda x: x) -> Array:
        found = np.einsum(change(wide(a)), _numbers(order_a), change(wide(b)), _numbers(order_b), _numbers(out), optimize=True)
        return np.asarray(found)

    def spread(mark: str, order: list[tuple[str, str, int]]) -> Any:
        value = made[mark]
        if isinstance(value, float):
            return value
        names = [name for name, *_ in order]
        shape = [extent if name in names else 1 for name, _, extent in out]
        turned = np.transpose(wide(value), [names.index(name) for name, *_ in out if name in names])
        return turned.reshape(shape)

    def wanted() -> Any:
        values = [spread(mark, order) for mark, (_, order) in extra.items()]
        found = AFTER[after](summed(), *values)
        return found.astype(np.int32) if whole else found

    def magnitude() -> Any:
        return summed(np.abs) + sum(np.abs(spread(mark, order)) for mark, (_, order) in extra.items())

    given = [value for *_, value in inputs]
    words = f"{types} to {to}, {'x'.join(map(str, (*counts, m, n, k)))}, {after or 'the sum'}"
    return Case("product", source, given, wanted, magnitude, k, whole and DTYPES[to].kind == "i", [draw.layout(value) for value in given], words)


def _indices(order: list[tuple[str, str, int]]) -> str:
    return ", ".join(name for name, *_ in order)


def _numbers(order: list[tuple[str, str, int]]) -> list[int]:
    """Axes as numbers for einsum."""
    return [ord(name) - ord("a") for name, *_ in order]
