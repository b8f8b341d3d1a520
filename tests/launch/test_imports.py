"""A call that another process kept is made without the compiler: what `zynml.compile` loads before it must know a program's text."""

import os
import subprocess
import sys
from pathlib import Path

STAGES = ("lowering.compute", "hir.build", "analysis", "passes", "schedule", "backends", "launch.kernels", "launch.cpu", "devices", "driver")


def test_no_stage_of_the_compiler_is_loaded_before_a_program_is_compiled() -> None:
    loaded = subprocess.run([sys.executable, "-c", "import sys, zynml.compiled; print(*sys.modules)"], capture_output=True, text=True, check=True)
    names = loaded.stdout.split()
    assert "compiler.launch.kept_programs" in names
    assert [name for name in names if name.startswith(tuple(f"compiler.{stage}" for stage in STAGES))] == []


PRODUCT = """
import sys
import numpy
import zynml
program = zynml.compile("def product(x: tensor[M, K], y: tensor[K, N]): tensor {"
    "compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } } }")
x = numpy.ones((3, 5), numpy.float32)
assert (program.product(x, numpy.ones((5, 4), numpy.float32)) == 5).all()
print(*sys.modules)
"""

NOT_NEEDED = (
    "attr",  # asked of classes of fields by nobody
    "ml_dtypes",  # no elements of 8 or 16 bits
    "compiler.codes",  # the pages of errors
    "compiler.devices.calibration",
    "compiler.devices.split",
    "compiler.hir.parse",
)


def test_a_first_call_loads_nothing_that_it_has_no_use_for(tmp_path: Path) -> None:
    known = {**os.environ, "ZYNTAX_CACHE_DIR": str(tmp_path)}
    loaded = subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, text=True, check=True, env=known).stdout.split()
    assert "compiler.lowering.compute" in loaded
    assert [name for name in loaded if name.startswith(NOT_NEEDED)] == []
    again = subprocess.run([sys.executable, "-c", PRODUCT], capture_output=True, text=True, check=True, env=known).stdout.split()
    assert [name for name in again if name.startswith(("grammars", "llvmlite", *(f"compiler.{stage}" for stage in STAGES)))] == []
