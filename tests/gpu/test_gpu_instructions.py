"""Every GPU instruction on the device: the emulator's cases, the same text, the same expected values; and the warp-specialised product."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tests.emulator_cases
import tests.emulator_hopper_cases  # noqa: F401  (both write their cases down)
from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import GpuTarget, gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.types import Mem
from compiler.launch.cuda.maps import launch_maps
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import fill, to_device, to_host
from runtime.cuda.errors import CudaRefused
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.tensor_map import PARAMETER
from tests.emulated import CASES, Case, Launch
from tests.warp_specialised import GEMM


def target(gpu: Gpu) -> GpuTarget:
    major, minor = gpu.device.properties.capability
    return gpu_target("sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}")


def launched(gpu: Gpu, function: HirFunction, arguments: Sequence[Any], grid: Sequence[int], shared: int = 0) -> list[Any]:
    """The arguments after a launch, arrays as they are on the device then."""
    module = compile_kernels(function, target(gpu))
    (entry,) = module.entries
    image: bytes | str = assemble(module).bytes if can_assemble() else module.text
    values, sizes = [], {}
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        if isinstance(parameter.type, Mem):
            values.append(on_device(gpu, argument))
        else:
            values.append(argument)
            sizes[parameter.name] = int(argument)
    maps = launch_maps(function, entry, sizes)
    record = gpu.allocate(64)
    fill(record, 0, gpu.stream)
    plan = CheckedLaunch(
        gpu.modules.load(image, function.name).kernel(entry.symbol),
        [packed(parameter.kind, parameter.dtype) for parameter in entry.parameters],
        grid,
        entry.block or (1, 1, 1),
        shared=entry.dynamic_bytes + shared,
        cooperative=entry.cooperative,
    )
    addresses = [value.pointer if isinstance(value, DeviceArray) else value for value in values]
    plan(gpu.stream, *values, *maps.of(gpu.device, addresses), record)
    return [from_device(value, argument) if isinstance(value, DeviceArray) else value for value, argument in zip(values, arguments, strict=True)]


def packed(kind: str, dtype: str) -> str:
    return {"memory": "pointer", "fault": "pointer", "tensor_map": PARAMETER}.get(kind, {"index": "i64", "i1": "bool"}.get(dtype, dtype))


def on_device(gpu: Gpu, array: np.ndarray) -> DeviceArray:
    """Types that the runtime has no name for travel as bytes of their width."""
    held = array.view(np.uint8) if array.dtype.name.startswith("float8") else array
    return to_device(held, gpu.allocate(max(1, held.nbytes)), gpu.stream)


def from_device(value: DeviceArray, argument: np.ndarray) -> np.ndarray:
    return np.asarray(to_host(value)).view(argument.dtype)


def check(gpu: Gpu, launch: Launch) -> None:
    found = launched(gpu, launch.function(), launch.arguments, launch.grid, launch.shared_bytes)
    for place, expected in launch.expected.items():
        np.testing.assert_array_equal(found[place], expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_device_computes_what_numpy_says(gpu: Gpu, case: Case) -> None:
    launch = case.make()
    try:
        check(gpu, launch)
    except ZyntaxError as refusal:
        (diagnostic,) = refusal.diagnostics
        assert diagnostic.code == "0504" and target(gpu).machine.name != "sm_90a", diagnostic.message
        pytest.skip(diagnostic.message)
    except CudaRefused as refusal:
        # what the hardware doesn't take, the runtime says: a tensor without elements
        assert any(isinstance(argument, np.ndarray) and not argument.size for argument in launch.arguments), refusal


@pytest.mark.parametrize("m,n,k", [(128, 64, 128), (1000, 1016, 1000), (129, 72, 8), (1, 8, 64), (2048, 2048, 2048)])
def test_a_warp_specialised_product(gpu: Gpu, m: int, n: int, k: int) -> None:
    if target(gpu).machine.name != "sm_90a":
        pytest.skip("the device has no products of warpgroups")
    generator = np.random.default_rng(m + n + k)
    a, b = (generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    grid = (-(-m // 128), -(-n // 64), 1)
    c = launched(gpu, parse_function(GEMM), [a, b, np.full((m, n), 7, np.float32), m, n, k], grid)[2]
    x, y = a.astype(np.float64), b.astype(np.float64)
    # tensor cores cut bits off while they add: two units in the last place of the sum of the terms' absolute values, a term of 16
    assert (np.abs(c - x @ y) <= 2.0**-22 * np.sqrt(k) * (np.abs(x) @ np.abs(y))).all()


def test_an_array_whose_rows_lie_askew_is_refused(gpu: Gpu) -> None:
    if target(gpu).machine.name != "sm_90a":
        pytest.skip("the device has no bulk copies")
    a, b, c = np.zeros((8, 9), ml_dtypes.bfloat16), np.zeros((9, 8), ml_dtypes.bfloat16), np.zeros((8, 8), np.float32)
    with pytest.raises(CudaRefused, match=r"^the rows of bf16\[8, 9\] are \(18,\) bytes apart; boxes are copied where that is a multiple of 16$"):
        launched(gpu, parse_function(GEMM), [a, b, c, 8, 8, 9], (1, 1, 1))
