"""Random numbers by counter: the same numbers in kernels and on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import DType, Scalar
from runtime import randoms
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.shapes import is_int

family = FunctionFamily()


def _drawn(name: str, make: Callable[[int, int, int], float], *counters: Any) -> float:
    for counter in counters:
        if not is_int(counter):
            raise LibraryFault("0203", f"`{name}` counts in ints, not in {type_name(counter)}")
    seed, i, j = map(int, counters)
    return make(seed, i, j)


@family.function("random", result=Scalar(DType.F32), i="int", j="int")
def random(seed: Any, i: Any, j: Any = 0) -> np.float32:
    """A uniform f32 in [0, 1) that depends on the seed and the counters alone, in kernels as well."""
    return np.float32(_drawn("random", randoms.random, seed, i, j))


@family.function("uniform", result=Scalar(DType.F64), i="int", j="int")
def uniform(seed: Any, i: Any, j: Any = 0) -> float:
    """A uniform f64 in [0, 1) that depends on the seed and the counters alone, in kernels as well."""
    return _drawn("uniform", randoms.uniform, seed, i, j)


@family.function("normal", result=Scalar(DType.F64), i="int", j="int")
def normal(seed: Any, i: Any, j: Any = 0) -> float:
    """A normal f64 of mean 0 and deviation 1 that depends on the seed and the counters alone, in kernels as well."""
    return _drawn("normal", randoms.normal, seed, i, j)
