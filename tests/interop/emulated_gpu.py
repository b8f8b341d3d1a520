"""A GPU without one: the driver in host memory, whose kernels are run by the interpreter of form C on what their arguments point to.
All of the way from a program to the driver's calls is the real one; only the device isn't."""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_driver import FakeDriver

from compiler.backends.nvptx.compile import KernelEntry, compile_kernels
from compiler.emulator.arrays import NUMPY
from compiler.emulator.fault import KernelFault
from compiler.emulator.interpret import interpret
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem


class Kernel:
    """A kernel of the fake driver: arguments from memory, as a GPU takes them, then the interpreter."""

    def __init__(self, function: HirFunction, entry: KernelEntry) -> None:
        self.function, self.entry = function, entry
        self.parameter_count = len(entry.parameters)

    def __call__(self, parameters: int, grid: tuple[int, int, int]) -> None:
        places = (ctypes.c_void_p * self.parameter_count).from_address(parameters)
        numbers = {
            each.name: _read(place, NUMPY[each.dtype], ())
            for place, each in zip(places, self.entry.parameters, strict=True)
            if each.kind == "number"
        }
        sizes = {name: int(value) for name, value in numbers.items() if value.dtype.kind in "iu"}
        arguments = [
            _memory(parameter.type, ctypes.c_uint64.from_address(place).value, sizes)
            if isinstance(parameter.type, Mem)
            else numbers[parameter.name].item()
            for place, parameter in zip(places, self.function.parameters, strict=False)
        ]
        record = ctypes.c_uint64.from_address(places[self.parameter_count - 1]).value
        try:
            interpret(self.function, arguments, grid=grid)
        except KernelFault as fault:
            self.report(fault, record)

    def report(self, fault: KernelFault, record: int) -> None:
        number = next(n for n, check in enumerate(self.entry.checks) if (check.code, check.site) == (fault.code, fault.site))
        values = [np.float64(v).view(np.int64) if isinstance(v, float) else int(v) for v in fault.values]
        words = [0, 1, number, *values]
        (ctypes.c_int64 * len(words)).from_address(record)[:] = words


class _At:
    def __init__(self, pointer: int, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (pointer, False),
            "shape": tuple(shape),
            "typestr": f"|V{dtype.itemsize}",
            "strides": None if strides is None else tuple(stride * dtype.itemsize for stride in strides),
        }


def _read(pointer: int, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None = None) -> Any:
    return np.asarray(_At(pointer, shape, dtype, strides)).view(dtype)


def _memory(mem: Mem, pointer: int, sizes: dict[str, int]) -> Any:
    shape = [max(0, dim.evaluate(sizes.__getitem__)) for dim in mem.dims]
    dtype = NUMPY[mem.dtype]
    if 0 in shape:
        return np.empty(shape, dtype)
    strides = None if mem.strides is None else [stride.evaluate(sizes.__getitem__) for stride in mem.strides]
    return _read(pointer, dtype, shape, strides)


def emulating(fake: FakeDriver) -> Any:
    """`compile_kernels`, which tells the driver besides what the kernels do that it will be given."""

    def compile_for_fake(program: Any, *arguments: Any) -> Any:
        made = compile_kernels(program, *arguments)
        functions = [program] if isinstance(program, HirFunction) else program
        for function, entry in zip(functions, made.entries, strict=True):
            # images are told apart by their kernels' names alone
            symbol = f"{entry.symbol}_{len(fake.kernels)}"
            fake.kernels[symbol] = Kernel(function, entry)
            object.__setattr__(entry, "symbol", symbol)
        return SimpleNamespace(entries=made.entries, text=made.text + symbol, hands_registers=False)

    return compile_for_fake
