"""Every GPU instruction becomes the PTX that it should, and assembles for every target that allows it; others refuse it in words."""

import pytest
from gpu_cases import CASES, Case
from kernels import lines

import compiler.hir.instructions  # noqa: F401  (all are declared)
from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.hir.instruction import INSTRUCTIONS
from compiler.hir.verify import faults

TARGETS = tuple(PTX_VERSIONS)


def allowed(case: Case, arch: str) -> bool:
    target = gpu_target(arch)
    return arch in case.specific if case.specific else target.number >= case.sm or case.lacking is None


def native_target(case: Case) -> str:
    return case.specific[0] if case.specific else f"sm_{case.sm}"


def test_every_gpu_instruction_has_a_case() -> None:
    declared = {name for name, cls in INSTRUCTIONS.items() if cls.family.is_gpu}
    assert declared - {case.instruction for case in CASES} == set()


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


@pytest.mark.skipif(not can_assemble(), reason='the assembler of the extra isn\'t installed: pip install "zyntax[compute]"')
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
