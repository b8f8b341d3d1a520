"""Compiling for the GPU that is here: `--backend cuda`, its cubin loaded as a file, what is reported against what the driver says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import GpuTarget, ptx_of_driver, target_of_device
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import GridIndex, SharedAlloc, SyncThreads
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import Mem, Space
from runtime.cuda.gpu import Gpu
from zyntax.main import cli

needs_assembler = pytest.mark.skipif(not can_assemble(), reason="the extra `compute` isn't installed")

PROGRAM = """let x = arange(0, 100)
let y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
let total = compute(x) -> tensor[1] @kernel(custom) @workgroup(64) @grid(2) {
    let i = global_idx().x
    if i < N: atomic_add(out[0], x[i])
}
println(y[99], total[0])
"""


@pytest.fixture
def target(gpu: Gpu) -> GpuTarget:
    return target_of_device(gpu.device.properties.capability)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.zynml"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def zyntax(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exception is None, done.exception
    return done.output


def test_cuda_compiles_for_the_device_and_runs(program: Path, target: GpuTarget) -> None:
    assert zyntax("compile", str(program), "--backend", "cuda") == "198.0 4950.0\n"
    shown = zyntax("compile", str(program), "--backend", "cuda", "--emit", "ptx")
    assert f".target {target}\n" in shown and shown.endswith("198.0 4950.0\n")


@needs_assembler
def test_a_cubin_from_a_file_can_be_loaded(program: Path, gpu: Gpu, target: GpuTarget) -> None:
    zyntax("compile", str(program), "--backend", "nvptx", "--target", str(target), "--emit", "cubin")
    module = gpu.modules.load(program.with_suffix(".cubin").read_bytes())
    assert module.kernel("kernel_line3").registers > 0


def test_devices_and_bench_tell_of_it(gpu: Gpu, target: GpuTarget) -> None:
    (first, *_) = [entry for entry in json.loads(zyntax("devices", "--json")) if entry["device"].startswith("cuda")]
    assert (first["name"], first["target"]) == (gpu.device.properties.name, str(target))
    assert 0 < first["memory_free"] <= first["memory"]
    assert tuple(first["ptx_version"]) == ptx_of_driver(gpu.device.properties.driver_version)
    figures = json.loads(zyntax("bench", "launch", "--json"))["microseconds"]
    assert figures and all(0 < value < 1e6 for value in figures.values())


def test_the_limits_of_the_table_are_the_device_s(gpu: Gpu, target: GpuTarget) -> None:
    limits, held = gpu.device.properties, target.machine
    assert held.warps * 32 == limits.max_threads_per_multiprocessor
    assert held.blocks == limits.max_blocks_per_multiprocessor
    assert held.shared == limits.shared_per_multiprocessor
    assert held.block_shared == limits.shared_per_block_opt_in
    assert held.registers == limits.registers_per_multiprocessor


def staged(threads: int, elements: int, registers: int) -> HirFunction:
    """A kernel that has so many floats of shared memory, and no more registers than that."""
    f = FunctionBuilder("f", Form.THREAD)
    s = f.body.emit(SharedAlloc(type=Mem("f32", (elements,), space=Space.SHARED)), "s").result
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    f.body.store(s, f.body.const(1.0), ["t"])
    f.body.emit(SyncThreads())
    f.body.store(f.parameter("out", Mem("f32", (threads,))), f.body.load(s, [threads - 1 - Affine.of("t")]), ["t"])
    function = f.finish()
    function.kernel_info = HirKernelInfo(workgroup=(threads, 1, 1), max_registers=registers)
    return function


@needs_assembler
@pytest.mark.parametrize("registers", [24, 255])
@pytest.mark.parametrize("elements", [1024, 2500, 5000, 12000])
@pytest.mark.parametrize("threads", [32, 96, 256, 1000])
def test_blocks_of_a_multiprocessor_as_the_driver_counts_them(gpu: Gpu, target: GpuTarget, threads: int, elements: int, registers: int) -> None:
    module = compile_kernels(staged(threads, elements, registers), target)
    cubin = assemble(module)
    kernel = gpu.modules.load(cubin.bytes).kernel("f")
    use = cubin.kernels["f"]
    assert (use.registers, use.shared) == (kernel.registers, 4 * elements)
    assert assemble(module).kernels == cubin.kernels, "an assembler that has seen it before says as much"
    counted = gpu.device.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel.handle, threads, 0)
    assert target.machine.resident_blocks(threads, use.registers, use.shared) == counted


@pytest.mark.parametrize("registers", range(16, 256, 24))
@pytest.mark.parametrize("threads", [32, 64, 96, 160, 256, 512, 1024])
def test_registers_alone(target: GpuTarget, threads: int, registers: int) -> None:
    """The calculator's own rule: whole warps of each scheduler, and no more registers than there are."""
    blocks = target.machine.resident_blocks(threads, registers, 0)
    warps = -(-threads // 32)
    assert blocks * warps * 32 * registers <= target.machine.registers
    assert blocks <= target.machine.blocks
