"""Every program of the gallery on the emulator, by the command that its head gives: it prints what it states, and each compute block agrees
with the CPU."""

from pathlib import Path

import pytest

from compiler.launch.emulator import EmulatedBlock
from tests.programs.on_devices import PROGRAMS, ROOT, beside_the_cpu, emulator_command
from zyntax.main import cli


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_gives_what_it_gives_on_the_cpu(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = emulator_command(program)
    assert command[1] == program.relative_to(ROOT).as_posix()
    assert command[2:4] == ["--device", "emulator"]
    monkeypatch.chdir(ROOT)
    with beside_the_cpu(EmulatedBlock) as blocks:
        code = cli.main(args=[*command, "--render-dir", str(tmp_path)], prog_name="zyntax", standalone_mode=False)
    assert not code
    assert blocks
