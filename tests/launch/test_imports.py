"""A call that another process kept is made without the compiler: what `zynml.compile` loads before it must know a program's text."""

import subprocess
import sys

STAGES = ("lowering.compute", "hir.build", "analysis", "passes", "schedule", "backends", "launch.kernels", "launch.cpu", "devices", "driver")


def test_no_stage_of_the_compiler_is_loaded_before_a_program_is_compiled() -> None:
    loaded = subprocess.run([sys.executable, "-c", "import sys, zynml.compiled; print(*sys.modules)"], capture_output=True, text=True, check=True)
    names = loaded.stdout.split()
    assert "compiler.launch.kept_programs" in names
    assert [name for name in names if name.startswith(tuple(f"compiler.{stage}" for stage in STAGES))] == []
