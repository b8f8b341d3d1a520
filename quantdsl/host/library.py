"""ZynML's library as QuantDSL's programs see it: what makes tensors of floats makes f64 ones unless `dtype` says otherwise."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from compiler.typed_ast.library import CallTypes, Library, LibraryFault, LibraryFunction, LibraryParameter
from compiler.typed_ast.types import BOOL, DType, Scalar, TensorType, Type
from runtime.records import evolve
from zynml.stdlib import StdlibSettings
from zynml.stdlib import library as zynml_library

_ALWAYS = ("zeros", "ones", "eye", "arange", "linspace", "rand", "randn")
_OF_LISTS = ("tensor", "from_array", "new")
_OF_TEXT = (".csv", ".tsv")


def library(settings: StdlibSettings) -> Library:
    found = zynml_library(settings)
    found.warns_of_shadowing = False  # QuantDSL's own checker knows its names
    functions = dict(found.functions)
    for name, function in found.functions.items():
        wanted = _chosen(_stem(name))
        if wanted is not None and any(parameter.name == "dtype" for parameter in function.parameters):
            functions[name] = _doubled(function, wanted)
    functions["str"] = evolve(functions["to_string"], name="str")
    parameters = (LibraryParameter("a"), LibraryParameter("b"), LibraryParameter("rel", 1e-9))
    functions["approx"] = LibraryFunction("approx", parameters, BOOL, _approx, "Whether two floats are equal up to `rel` of the larger.")
    found.functions = functions
    return found


def _stem(name: str) -> str:
    """`zeros` of `Tensor::zeros`, `tensor_zeros` and `zeros_2d`."""
    stem = name.split("::")[-1]
    return (stem[:-3] if stem[-3:] in ("_1d", "_2d", "_3d") else stem).removeprefix("tensor_") or stem


Choice = Callable[[Any], bool]
"""Whether what a function is given first makes floats that nothing else gives a type to."""


def _chosen(stem: str) -> Choice | None:
    if stem in _ALWAYS:
        return lambda given: True
    if stem in _OF_LISTS:
        return _holds_floats
    return (lambda path: isinstance(path, str) and path.endswith(_OF_TEXT)) if stem == "load" else None


def _holds_floats(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return any(map(_holds_floats, given))
    return type(given) is float


def _doubled(function: LibraryFunction, makes_floats: Choice) -> LibraryFunction:
    place = next(n for n, parameter in enumerate(function.parameters) if parameter.name == "dtype")

    def implementation(*values: Any) -> Any:
        if values[place] is None and makes_floats(values[0]):
            values = (*values[:place], DType.F64.value, *values[place + 1 :])
        return function.implementation(*values)

    return evolve(function, implementation=implementation, result=partial(_typed, function))


def _typed(function: LibraryFunction, calls: CallTypes) -> Type:
    """The rule's type; where it makes an f32 of nothing that says so, an f64."""
    rule = function.result
    type_: Type = rule if isinstance(rule, Type) else rule(calls)
    given = next(iter(calls.types.values()), None)
    natural = "dtype" not in calls.types and not isinstance(given, TensorType)
    if natural and isinstance(type_, TensorType) and type_.element == Scalar(DType.F32):
        return evolve(type_, element=Scalar(DType.F64))
    return type_


def _approx(a: Any, b: Any, rel: Any) -> bool:
    """Whether two numbers are equal up to `rel` of the larger."""
    for value in (a, b, rel):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise LibraryFault("0203", "`approx` compares numbers")
    return math.isclose(a, b, rel_tol=rel)
