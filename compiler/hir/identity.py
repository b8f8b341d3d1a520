"""Identities of the monoids: what a reduction over nothing gives."""

from compiler.hir.types import DTYPES, is_float, is_signed

LAST_INDEX = 2**63 - 1
"""Index beside the identity of `argmin` and `argmax`: higher than any real one, so that any element beats it."""


def lowest(dtype: str) -> float | int:
    if is_float(dtype):
        return float("-inf")
    return -(1 << (DTYPES[dtype] - 1)) if is_signed(dtype) else 0


def highest(dtype: str) -> float | int:
    if is_float(dtype):
        return float("inf")
    bits = DTYPES[dtype]
    return (1 << (bits - 1)) - 1 if is_signed(dtype) else (1 << bits) - 1


def identity_of(monoid: str, dtypes: list[str]) -> list[float | int]:
    """The identity, one number for each component. Of float `add` it is -0.0's harmless stand-in 0.0: a sum of nothing is 0."""
    first = dtypes[0]
    zero, unit = (0.0, 1.0) if is_float(first) else (0, 1)
    match monoid:
        case "add" | "or" | "xor":
            return [zero]
        case "mul":
            return [unit]
        case "and":
            return [1 if first == "i1" else highest(first) if not is_signed(first) else -1]
        case "min":
            return [highest(first)]
        case "max":
            return [lowest(first)]
        case "argmin":
            return [highest(first), *[LAST_INDEX] * (len(dtypes) - 1)]
        case "argmax":
            return [lowest(first), *[LAST_INDEX] * (len(dtypes) - 1)]
        case "moments":
            return [0.0] * len(dtypes)
        case "exponentials":
            return [lowest(first), 0.0]
        case _:
            raise AssertionError(f"no monoid {monoid}")
