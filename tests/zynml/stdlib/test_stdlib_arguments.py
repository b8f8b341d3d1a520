"""Every entry of the library called with arguments of all kinds, mostly wrong ones: a value that the static type admits, or a
coded fault. Never another exception."""

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from library_calls import admits, constant_of, type_of

from compiler.typed_ast.library import REQUIRED, CallTypes, LibraryFault, LibraryFunction, TypeFault
from compiler.typed_ast.types import Type
from runtime.tensor import Tensor
from runtime.values import NONE, ElementArray, ElementSet, Err, Nothing, Ok, Some, is_array

INTERNAL = ("index set",)
"""Called with indices in a tuple, always."""


def t(values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype=dtype))


def values() -> list[Any]:
    """New ones each time: methods change their receivers."""
    numbers = [0, 1, -1, 2, 7, 2**62, -(2**63), True, False, 0.5, -2.0, np.inf, np.nan]
    numbers += [np.float32(1.5), np.int8(-3), np.uint64(2**63), ml_dtypes.bfloat16(2)]
    texts = ["", "a", "f32", "x.npy", "cpu"]
    lists: list[Any] = [[], [1], [1, 2], [1.0, 2.0], [[1, 2], [3, 4]], [[1], [2, 3]], ["a"], [None], [float("nan"), 1.0], [t([1]), t([2])]]
    others: list[Any] = [(), (1,), (0, 1), (1, "a"), range(0), range(3), range(5, 0, -2), None, {"a": 1}, slice(0, 1)]
    tensors = [t(1.0), t([]), t([1, 2, 3]), t([[1, 2], [3, 4]]), t(np.zeros((0, 3))), t(np.ones((2, 3, 4)))]
    tensors += [t([1, 2], np.int64), t([[True, False]], bool), t([1, 2], ml_dtypes.bfloat16), t([1, 0], np.uint8)]
    return numbers + texts + lists + others + tensors + [lambda *a: 1, lambda x: True, lambda a, b: a]


def receivers() -> list[Any]:
    """Those that have methods and are no arguments."""
    wrapped: list[Any] = [NONE, Some((1,)), Some((NONE,)), Ok((0.5,)), Err(("a",))]
    return [*wrapped, {}, {"a": 1}, {(1, 2): [3]}, ElementSet(), ElementSet({1: None}), np.array([1, 2]), np.array([0.5]), ElementArray(["a"])]


RECEIVERS = {
    "tensor": lambda v: isinstance(v, Tensor),
    "List": lambda v: type(v) is list,
    "String": lambda v: isinstance(v, str),
    "range": lambda v: isinstance(v, range),
    "tuple": lambda v: type(v) is tuple,
    "int": lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, float | np.floating),
    "bool": lambda v: isinstance(v, bool),
    "Option": lambda v: type(v) in (Some, Nothing),
    "Result": lambda v: type(v) in (Ok, Err),
    "array": is_array,
    "HashMap": lambda v: type(v) is dict,
    "HashSet": lambda v: isinstance(v, ElementSet),
}


def calls(
    function: LibraryFunction, receiver: str | None, random_: random.Random, count: int
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for _ in range(count):
        pool = values()
        bound: list[Any] = []
        given: dict[str, Any] = {}
        for parameter in function.parameters:
            if parameter.name == "self" and receiver is not None:
                value: Any = random_.choice([v for v in (*pool, *receivers()) if RECEIVERS[receiver](v)])
            elif parameter.variadic:
                value = tuple(random_.choice(pool) for _ in range(random_.randint(0, 3)))
            elif parameter.default is not REQUIRED and random_.random() < 0.5:
                bound.append(parameter.default)
                continue
            else:
                value = random_.choice(pool)
            bound.append(value)
            given[parameter.name] = value
        yield bound, given


def static_type(function: LibraryFunction, given: dict[str, Any], constants: dict[str, Any]) -> Type | None:
    """None where the rule objects."""
    if isinstance(function.result, Type):
        return function.result
    variadic = {p.name for p in function.parameters if p.variadic}
    types = {n: tuple(map(type_of, v)) if n in variadic else type_of(v) for n, v in given.items()}
    try:
        return function.result(CallTypes(types, constants))
    except TypeFault:
        return None


@pytest.mark.parametrize("seed", [1, 2])
def test_any_argument_gives_a_value_or_a_coded_fault(call: Any, seed: int) -> None:
    random_ = random.Random(seed)
    entries: list[tuple[str | None, LibraryFunction]] = [(None, f) for f in call.library.functions.values()]
    entries += [(kind, f) for (kind, _), f in call.library.methods.items()]
    Path("x.npy").write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for receiver, function in entries:
            if function.name in INTERNAL:
                continue
            for bound, given in calls(function, receiver, random_, 6):
                kind = static_type(function, given, {n: c for n, v in given.items() if (c := constant_of(v)) is not None})
                loose = static_type(function, given, {})
                try:
                    found = function.implementation(*bound)
                except LibraryFault as fault:
                    assert fault.message and len(fault.code) == 4
                    continue
                # A chain of weak numbers may end in another float type than the rule thinks; every other type must be true.
                if function.name not in ("clamp", "clip", "max", "min"):
                    for expected in (kind, loose):
                        assert expected is None or admits(expected, found), (function.name, expected, found, bound)
