"""Cubins: what the assembler reports, and what happens without it."""

import sys

import pytest
from kernels import compiled, pointwise

from compiler.backends.nvptx.assemble import assemble, assembler_version, can_assemble
from compiler.backends.nvptx.target import gpu_target
from compiler.diagnostics import ZyntaxError

needs_assembler = pytest.mark.skipif(not can_assemble(), reason="the assembler of the extra isn't installed: pip install 'zyntax-lang[compute]'")


@needs_assembler
def test_the_report_names_registers_spills_and_shared_memory() -> None:
    cubin = assemble(compiled(pointwise("f", lambda b, v: b.op("exp", v[0]), "f32")))
    assert set(cubin.kernels) == {"f"}
    assert 0 < cubin.registers <= 64
    assert (cubin.spills, cubin.shared) == (0, 0)
    assert "f" in cubin.log and cubin.bytes.startswith(b"\x7fELF")


@needs_assembler
def test_the_same_ptx_gives_the_same_cubin() -> None:
    module = compiled(pointwise("f", lambda b, v: b.op("sin", v[0]), "f64"))
    assert assemble(module).bytes == assemble(module).bytes


@needs_assembler
def test_refused_ptx_is_an_internal_fault() -> None:
    with pytest.raises(ZyntaxError) as raised:
        assemble(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f() { wrong; }\n", gpu_target("sm_90"))
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "0901"
    assert diagnostic.message.startswith("internal fault in the NVPTX back end: the assembler refuses its PTX: ")


@needs_assembler
def test_an_unresolved_call_is_found() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .func g();\n.visible .entry f() { call g; ret; }\n"
    with pytest.raises(ZyntaxError):
        assemble(text, gpu_target("sm_90"))


def test_without_the_extra_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(ZyntaxError) as raised:
        assemble(compiled(pointwise("f", lambda b, v: b.add(v[0], v[0]), "f32")))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0501", "cubins are made by NVIDIA's nvJitLink, which isn't installed")
    assert diagnostic.hint == "pip install 'zyntax-lang[compute]'; PTX is made without it"
    assembler_version.cache_clear()
    try:
        assert not can_assemble()
    finally:
        assembler_version.cache_clear()


