"""Compiles translated functions and brings arguments to the form in which they run: the machinery that `interpret.py` and
`threads.py` share."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.emulator import arrays, host_memory, tile_memory
from compiler.emulator.expressions import NARROW
from compiler.emulator.fault import KernelFault, fault
from compiler.emulator.translate import Translator
from compiler.hir import numbers
from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.text import print_instruction
from compiler.hir.types import Mem, Pointer, Tile, is_float


@lru_cache(maxsize=1024)
def _code(source: str, name: str) -> CodeType:
    """Many functions become the same source each time: those of an engine that many programs are run with, say."""
    return compile(source, f"<@{name}>", "exec")


def finish(translator: Translator, functions: dict[str, Callable[..., Any]], more: Mapping[str, Any] = {}) -> Callable[..., Any]:
    """Compile what a translator writes, and the functions it calls; `more` is what its source may call besides. Failures that an `attempt`
    caught are put in its list `caught`."""
    source = translator.translate()
    more = {"caught": [], **more}
    namespace: dict[str, Any] = {**ENVIRONMENT, **more, **translator.constants, "functions": functions}
    exec(_code(source, translator.function.name), namespace)
    run: Callable[..., Any] = namespace["run"]
    functions.setdefault(translator.function.name, run)
    for name in translator.called:
        if name not in functions:
            assert translator.module is not None
            target = translator.module.functions[name]
            finish(Translator(target, translator.module), functions, more)
    return run


def sizes_of(function: HirFunction, arguments: Sequence[Any]) -> dict[str, int]:
    """The values of int parameters, by name."""
    return {
        parameter.name: int(argument)
        for parameter, argument in zip(function.parameters, arguments, strict=True)
        if isinstance(parameter.type, Tile) and not is_float(parameter.type.dtype)
    }


def prepare(function: HirFunction, arguments: Sequence[Any]) -> list[Any]:
    """Arguments as the compiled function wants them: arrays as they lie in memory, numbers of the right type."""
    if len(arguments) != len(function.parameters):
        raise fault(f"@{function.name} takes {len(function.parameters)} arguments, not {len(arguments)}")
    sizes = sizes_of(function, arguments)
    return [_prepare(function, p, a, sizes) for p, a in zip(function.parameters, arguments, strict=True)]


def _prepare(function: HirFunction, parameter: Value, argument: Any, sizes: dict[str, int]) -> Any:
    match parameter.type:
        case Mem() as type_:
            return _memory(function, parameter.name, type_, argument, sizes)
        case Tile(axes=()) as type_:
            value = argument.item() if isinstance(argument, np.generic | np.ndarray) else argument
            if not isinstance(value, bool | int | float):
                value = float(value)
            return numbers.convert(value, "i1" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f64", type_.dtype)
        case Pointer():
            return host_memory.address_of(argument)
        case _:
            return argument


def _memory(function: HirFunction, name: str, type_: Mem, argument: Any, sizes: dict[str, int]) -> np.ndarray:
    if not isinstance(argument, np.ndarray):
        raise fault(f"%{name} of @{function.name} is a memory, not {type(argument).__name__}")
    dims = tuple(max(0, _number(form, sizes)) for form in type_.dims)
    if argument.shape != dims:
        raise fault(f"%{name} of @{function.name} has shape {dims}, not {argument.shape}")
    return arrays.stored(argument, type_.dtype, name)


def _number(form: Affine, sizes: dict[str, int]) -> int:
    def size(name: str) -> int:
        if name not in sizes:
            raise fault(f"the size {name} is not a parameter")
        return sizes[name]

    return form.evaluate(size)


def _outside(op: Instruction, index: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    raise ZyntaxError(Diagnostic("0901", f"`{print_instruction(op)}` reaches {tuple(map(int, index))} in a memory of shape {shape}"))


def _check_all(condition: np.ndarray, code: str, site: int, values: tuple[Any, ...]) -> None:
    if not condition.all():
        first = tuple(np.argwhere(~condition)[0])
        raise KernelFault(
            code, site, tuple(v[first].item() if isinstance(v, np.ndarray) and v.shape == condition.shape else v for v in values)
        )


def _int_divide(a: int, b: int) -> int:
    if b == 0:
        raise KernelFault("0806", -1, (a, b))
    return numbers.int_divide(a, b)


def _int_remainder(a: int, b: int) -> int:
    if b == 0:
        raise KernelFault("0806", -1, (a, b))
    return numbers.int_remainder(a, b)


ENVIRONMENT: dict[str, Any] = {
    **{name: getattr(numbers, name) for name in ("round_f32", "round_f16", "round_bf16", "round_e4m3", "round_e5m2", "int_to_float")},
    **{name: getattr(numbers, name) for name in ("int_power", "float_to_int", "divide", "remainder", "smaller", "larger", "power", "fma")},
    **{name: getattr(numbers, name) for name in ("bits_of", "number_of", "bitcast", "beats")},
    **{f"float_{name}": function for name, function in numbers.FLOAT_UNARY.items()},
    **{name: getattr(module, name) for module in (arrays, tile_memory) for name in module.__all__},
    **{f"numbers_{dtype}": numbers.Numbers(dtype) for dtype in NARROW},
    **host_memory.CALLS,
    "atan2": math.atan2,
    "int_divide": _int_divide,
    "int_remainder": _int_remainder,
    "int_fma": lambda a, b, c, dtype: numbers.wrap(a * b + c, dtype),
    "outside": _outside,
    "check_all": _check_all,
    "KernelFault": KernelFault,
}
"""What the written source may call."""
