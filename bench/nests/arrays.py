"""Operands of a nest, and its answer in float64, by any library of arrays: `bench.nests.numpy_arrays`, or PyTorch's in `bench.gpu`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.nests.form import FLOATS, BenchNest, Operand

GAP = 8
"""Elements between the rows of a padded operand."""


PIECE = 1 << 26
"""Elements that are compared at a time."""


def operands_of(nest: BenchNest, library: Any) -> dict[str, Any]:
    """The inputs of a nest, made by a library of arrays."""
    return {name: _operand(nest, operand, library) for name, operand in nest.operands.items()}


def _operand(nest: BenchNest, operand: Operand, library: Any) -> Any:
    shape = list(nest.shape(operand.dims))
    match operand.layout:
        case "columns":
            return library.swapped(_content(nest, operand, [*shape[:-2], shape[-1], shape[-2]], library))
        case "padded":
            return _content(nest, operand, [*shape[:-1], shape[-1] + GAP], library)[..., : shape[-1]]
    return _content(nest, operand, shape, library)


def _content(nest: BenchNest, operand: Operand, shape: Sequence[int], library: Any) -> Any:
    match operand.content:
        case "normal" if operand.dtype in FLOATS:
            return library.normal(shape, operand.dtype)
        case "share":
            return library.share(shape, operand.dtype)
        case "whole":
            return library.below(4, shape, operand.dtype)
        case "table":
            return library.below(nest.extent(operand.below), shape, operand.dtype)
        case "pointers":
            return library.rising(shape[0], nest.extent(operand.below), operand.dtype)
    raise ValueError(operand)


def wanted(nest: BenchNest, operands: Mapping[str, Any], library: Any) -> Any:
    """The result in float64."""
    inputs = {
        name: library.indices(operands[name]) if operand.content in ("table", "pointers") else library.wide(operands[name])
        for name, operand in nest.operands.items()
    }
    return nest.reference(library, inputs, nest.sizes)


def largest_error(ours: Any, reference: Any, library: Any) -> float:
    """Of any element, over its own size plus that of a usual one (the root of the mean square); infinite where shapes differ. Equal
    infinities are no error."""
    if tuple(ours.shape) != tuple(reference.shape):
        return math.inf
    xp = library.xp
    ours, reference = ours.reshape(-1), reference.reshape(-1)
    pieces = [slice(start, start + PIECE) for start in range(0, len(reference), PIECE)]
    squares, count = 0.0, 0
    for piece in pieces:
        finite = reference[piece][xp.isfinite(reference[piece])]
        squares += float((finite * finite).sum())
        count += len(finite)
    usual = max(math.sqrt(squares / max(count, 1)), 1e-300)
    worst = 0.0
    for piece in pieces:
        given, right = library.wide(ours[piece]), reference[piece]
        differs = given != right
        given, right = given[differs], right[differs]
        error = xp.abs(given - right)
        if not xp.isfinite(error).all():
            return math.inf
        if len(right):
            worst = max(worst, float((error / (xp.abs(right) + usual)).max()))
    return worst
