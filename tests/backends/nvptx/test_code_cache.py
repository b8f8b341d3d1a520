"""Kernels for GPUs in the user's cache: what comes out is what went in, and damage costs only time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compiler.backends.nvptx.compile import PtxModule
from compiler.backends.nvptx.target import GpuTarget
from compiler.driver import CompileOptions
from compiler.fusion.program_kernels import kernels
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.launch.cuda import code as cuda_code
from compiler.launch.cuda.code import GpuCode, gpu_code
from compiler.launch.thread_kernels import thread_kernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import facts_of
from compiler.source import Source, Sources
from zynml.api import open_source

PRODUCT = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16]) {
    compute(A, B) { for i in 0..M, j in 0..N {
        var s = 0.0
        for k in 0..K: s += A[i, k] * B[k, j]
        out[i, j] = s
    } }
}"""
TAKEN = "def f(x: tensor[N], at: tensor[M, i32]) { compute(x, at) { for i in 0..M: out[i] = x[at[i]] } }"
SORT = "def f(x: tensor[N, i32]) { compute(x) @kernel(sort) { for i in 0..N: yield x[i] } }"


def device(*capability: int) -> Any:
    """What is asked of a device."""
    return SimpleNamespace(properties=SimpleNamespace(capability=capability))


DEVICE = device(9, 0)


def functions(text: str, target: str) -> list[HirFunction]:
    """The kernels of a program's block, for sizes that large units divide."""
    source = Source("<program>", text)
    session = open_source(source, CompileOptions(), Sources(source), warn=lambda warning: None)
    ((compute, built),) = kernels(session)
    sizes = {one.name: 4096 for one in built.nest.parameters if not isinstance(one.type, Mem)}
    memories = [one.name for one in built.nest.parameters if isinstance(one.type, Mem)]
    return thread_kernel(built, compute, facts_of(sizes, memories, MACHINES[target])).functions


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_code, "assembler_version", lambda: "")
    return tmp_path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[GpuTarget]:
    """A target for each time that anything was compiled."""
    made: list[GpuTarget] = []
    original = cuda_code.compile_kernels

    def counted(kernels: list[HirFunction], target: GpuTarget, sources: object = None) -> PtxModule:
        made.append(target)
        return original(kernels, target)

    monkeypatch.setattr(cuda_code, "compile_kernels", counted)
    return made


@pytest.mark.parametrize("text", [PRODUCT, TAKEN, SORT], ids=["product", "checks", "sort"])
def test_the_second_time_nothing_is_compiled(text: str, folder: Path, compiled: list[GpuTarget]) -> None:
    first = gpu_code(functions(text, "sm_90a"), DEVICE)
    again = gpu_code(functions(text, "sm_90a"), DEVICE)
    assert again == first
    assert len(compiled) == 1
    parameters = [parameter for entry in first.entries for parameter in entry.parameters]
    assert any(parameter.map is not None for parameter in parameters) == (text is PRODUCT)
    assert any(entry.checks for entry in first.entries) == (text is TAKEN)


def test_targets_and_functions_have_names_of_their_own(folder: Path, compiled: list[GpuTarget]) -> None:
    found = [gpu_code(functions(text, "sm_80"), device(*capability)) for text in (TAKEN, SORT) for capability in ((8, 0), (8, 9))]
    assert len(compiled) == len(set(map(_text, found))) == len(list((folder / "code").glob("*.zyn"))) == 4


def test_what_is_damaged_is_made_again(folder: Path, compiled: list[GpuTarget]) -> None:
    kernel = functions(TAKEN, "sm_90")
    first = gpu_code(kernel, DEVICE)
    (kept,) = (folder / "code").glob("*.zyn")
    held = bytearray(kept.read_bytes())
    held[-1] ^= 1
    kept.write_bytes(held)
    assert gpu_code(kernel, DEVICE) == first
    assert len(compiled) == 2


def test_without_a_cache_all_is_compiled(folder: Path, compiled: list[GpuTarget], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    kernel = functions(TAKEN, "sm_90")
    assert gpu_code(kernel, DEVICE) == gpu_code(kernel, DEVICE)
    assert len(compiled) == 2
    assert not list(folder.iterdir())


def _text(code: GpuCode) -> str:
    assert isinstance(code.image, str)
    return code.image
