"""Every example program for every target: PTX, then a cubin. A sample runs always; all of it with ZYNTAX_EXHAUSTIVE=1."""

import os
import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.driver import CompileOptions, Session
from compiler.emit import gpu_programs
from compiler.source import Sources
from zynml.api import open_program

PROGRAMS = sorted((Path(__file__).parents[3] / "programs" / "zynml").glob("*.zynml"))
ALL = list(product(PROGRAMS, PTX_VERSIONS))
SAMPLE = [(program, list(PTX_VERSIONS)[number % len(PTX_VERSIONS)]) for number, program in enumerate(PROGRAMS)]
SMALL = 400
"""Lines of PTX of a kernel that has to do without spills."""


@cache
def session(program: Path) -> Session:
    return open_program(str(program), CompileOptions(device="cpu"), Sources(), warn=lambda warning: None)


@pytest.mark.parametrize(
    ("program", "arch"),
    ALL if os.environ.get("ZYNTAX_EXHAUSTIVE") else SAMPLE,
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
def test_a_program_becomes_one_module_for_a_target(program: Path, arch: str) -> None:
    (made,) = gpu_programs(session(program), gpu_target(arch))
    code = re.sub(r"(?m)//.*$", "", made.ptx.text)
    assert f".target {arch}\n" in code
    assert "llvm" not in code
    assert ".extern .func" not in code
    bodies = entries_of(code)
    assert set(bodies) == {entry.symbol for entry in made.ptx.entries} == {f.name for f in made.module.functions.values()}
    assert len(bodies) >= len(made.kernels) > 0
    assert all(".reqntid" in body or ".maxntid" in body for body in bodies.values())
    assert all(re.search(r"\.loc\s+\d+ [1-9]", body) for body in bodies.values())
    if not can_assemble():
        return
    cubin = assemble(made.ptx)
    assert cubin.bytes.startswith(b"\x7fELF")
    assert set(cubin.kernels) == set(bodies)
    spilling = {name: cubin.kernels[name].spills for name, body in bodies.items() if body.count("\n") < SMALL and cubin.kernels[name].spills}
    assert spilling == {}
    assert all(0 < use.registers <= 255 for use in cubin.kernels.values())


def entries_of(ptx: str) -> dict[str, str]:
    """The text of each entry, by its name."""
    parts = re.split(r"\.visible \.entry (\w+)\(", ptx)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))
