"""Signatures in which sizes and ints are numbers: those that a block multiplies or divides loop variables by (`g * O + o`, `y * stride`).
With them such indices are affine. Kernels are made for the numbers that calls have; these are few, as groups, strides and heads are."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from compiler.hir.affine import Affine
from compiler.lowering.kernel import NumbersWanted, Signature, TensorInput
from compiler.lowering.sizes import fact
from runtime.records import evolve
from runtime.tensor import Tensor

VERSIONS = 8
"""Of a kernel that is right without numbers, by different numbers, before it is used as it is."""

STAND_IN = 2
"""What a number counts as while a program is checked or shown, and no call says it."""


def numbers_of(values: Mapping[str, Any]) -> dict[str, int]:
    """Extents and ints of a call by their names in a launch; `values` are tensors and numbers."""
    known: dict[str, int] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            known |= {fact(name, axis): int(extent) for axis, extent in enumerate(value.shape)}
            known[f"{name}.numel"] = prod(map(int, value.shape))
        elif isinstance(value, int | np.integer):
            known[name] = int(value)
    return known


def stand_ins(signature: Signature) -> dict[str, int]:
    """The same where no call is known."""
    known = {scalar.name: STAND_IN for scalar in signature.scalars}
    for tensor in signature.tensors:
        extents = [dim if isinstance(dim, int) else STAND_IN for dim in tensor.dims]
        known |= {fact(tensor.name, axis): extent for axis, extent in enumerate(extents)}
        known[f"{tensor.name}.numel"] = prod(extents)
    return known


def numbered(signature: Signature, wanted: NumbersWanted, known: Mapping[str, int]) -> Signature:
    """The signature with the wanted numbers, where these are the launch's extents and ints."""
    known = dict(known)
    for rule in wanted.sizes:
        known[rule.name] = rule.form.evaluate(known.__getitem__)
    extents = {str(rule.form): rule.name for rule in wanted.sizes}
    names = frozenset(wanted.names).difference(name for name, _ in signature.numbers)

    def extent(tensor: TensorInput, axis: int) -> int | str | Affine | None:
        own = fact(tensor.name, axis)
        return known[own] if tensor.dims[axis] is None and not names.isdisjoint((own, extents.get(own))) else tensor.dims[axis]

    tensors = [evolve(tensor, dims=[extent(tensor, axis) for axis in range(tensor.rank)]) for tensor in signature.tensors]
    scalars = [evolve(scalar, value=known[scalar.name]) if scalar.name in names else scalar for scalar in signature.scalars]
    sizes = sorted(rule.name for rule in wanted.sizes if rule.name in names)
    return evolve(signature, tensors=tensors, scalars=scalars, numbers=(*signature.numbers, *((name, known[name]) for name in sizes)))
