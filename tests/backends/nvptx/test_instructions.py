"""Every GPU instruction becomes the PTX that it should, and assembles for every target that allows it; others refuse it in words. Each
has a case here and one in the emulator, and the emulator's cases assemble too."""

import pytest
from gpu_case import Kernel
from gpu_cases import CASES, Case
from kernels import lines

import compiler.hir.instructions  # noqa: F401  (all are declared)
import tests.emulator_hopper_cases  # noqa: F401  (writes its cases down)
from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.hir.gpu import Atomic
from compiler.hir.instruction import INSTRUCTIONS
from compiler.hir.types import Mem
from compiler.hir.verify import faults
from tests.emulated import CASES as EMULATED
from tests.emulator_cases import ATOMICS, ORDERS, SCOPES

TARGETS = tuple(PTX_VERSIONS)
needs_assembler = pytest.mark.skipif(not can_assemble(), reason="the assembler of the extra isn't installed: pip install 'zyntax-lang[compute]'")


def allowed(case: Case, arch: str) -> bool:
    major, minor = gpu_target(arch).machine.capability
    return arch in case.specific if case.specific else 10 * major + minor >= case.sm or case.lacking is None


def native_target(case: Case) -> str:
    return case.specific[0] if case.specific else f"sm_{case.sm}"


def test_every_gpu_instruction_has_a_case_in_each_ring() -> None:
    """PTX and cubin are made of the same cases."""
    declared = {name for name, cls in INSTRUCTIONS.items() if cls.family.is_gpu}
    assert declared - {case.instruction for case in CASES} == set()
    assert declared - {name for case in EMULATED for name in case.instructions} == set()


@needs_assembler
@pytest.mark.parametrize("part", range(4))
def test_what_the_emulator_runs_assembles(part: int) -> None:
    functions = [case.make().function() for case in EMULATED[part::4]]
    cubin = assemble(compile_kernels(functions, gpu_target("sm_90a")))
    assert len(cubin.kernels) == len(functions)
    assert cubin.spills == 0


@pytest.mark.parametrize("operation,dtype", ATOMICS)
def test_every_atomic_is_made_in_every_order_and_scope(operation: str, dtype: str) -> None:
    kernel = Kernel("f")
    mem, value = kernel.builder.parameter("m", Mem(dtype, (16,))), kernel.const(1, dtype)
    compare = {"compare": kernel.const(2, dtype)} if operation == "cas" else {}
    for order in ORDERS:
        for scope in SCOPES:
            kernel.keep(kernel.emit(Atomic(operation=operation, mem=mem, index=(0,), value=value, order=order, scope=scope, **compare)).result)
    text = compile_kernels(kernel.finish(), gpu_target("sm_90a")).text
    for scope in ("cta", "gpu", "sys"):
        for order in ("relaxed", "acquire", "release", "acq_rel"):
            found = text.count(f"atom.{order}.{scope}.global.")
            assert found == (2 if order == "acq_rel" else 1), (order, scope)
        assert text.count(f"fence.sc.{scope};") == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_instruction_becomes_this_line(case: Case) -> None:
    function = case.function()
    ptx = compile_kernels(function, gpu_target(native_target(case))).text
    assert case.line in lines(ptx), ptx
    if case.absent:
        assert case.absent not in ptx.split("{", 1)[1]


@pytest.mark.parametrize("arch", TARGETS)
def test_targets_without_the_instruction_say_so(arch: str) -> None:
    refused = [case for case in CASES if not allowed(case, arch)]
    for case in refused:
        with pytest.raises(ZyntaxError) as raised:
            compile_kernels(case.function(), gpu_target(arch))
        (diagnostic,) = raised.value.diagnostics
        assert (diagnostic.code, diagnostic.message) == ("0504", f"`{arch}` has no {case.lacking}"), case.name


@needs_assembler
@pytest.mark.parametrize("arch", TARGETS)
def test_every_case_assembles(arch: str) -> None:
    cases = [case for case in CASES if allowed(case, arch)]
    cubin = assemble(compile_kernels([case.function() for case in cases], gpu_target(arch)))
    assert cubin.bytes[:4] == b"\x7fELF"
    assert set(cubin.kernels) == {case.name for case in cases}
    assert cubin.spills == 0


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_the_same_functions_give_the_same_bytes(arch: str) -> None:
    cases = [case for case in CASES if allowed(case, arch)]
    first, second = (compile_kernels([case.function() for case in cases], gpu_target(arch)).text for _ in range(2))
    assert first == second


def test_every_case_is_well_formed() -> None:
    for case in CASES:
        assert list(faults(case.function())) == [], case.name
