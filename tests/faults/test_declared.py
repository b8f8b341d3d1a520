"""Every declared fault can be planted, and its tests exist; `make faults` sees that they fail."""

import subprocess
import sys
from collections import Counter

import pytest

from tests.faults.declared import ROOT, Fault, faults, objections
from tests.faults.running import Copy

FAULTS = faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.room}/{fault.name}")
def test_a_fault_can_be_planted(fault: Fault) -> None:
    assert objections(fault) == []


def test_there_is_a_fault_in_every_room() -> None:
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    assert len(FAULTS) >= 60
    files = {fault.file for fault in FAULTS}
    folders = ("compiler/analysis/lift", "compiler/passes/", "compiler/schedule/gpu/", "compiler/backends/llvm/", "compiler/backends/nvptx/")
    folders += ("compiler/hir/", "compiler/lowering/", "compiler/typed_ast/", "compiler/fusion/", "compiler/launch/", "compiler/diagnostics")
    folders += ("quantdsl/engine/", "quantdsl/check/", "runtime/cache/", "runtime/cuda/", "runtime/replay/", "zyntax/")
    assert [folder for folder in folders if not any(file.startswith(folder) for file in files)] == []


def test_a_declaration_that_no_longer_holds_is_said_to_be_stale() -> None:
    fault = Fault("room", "name", "compiler/source.py", "no such text", "other", "seen", ("tests/no_such_file.py", "tests/conftest.py::test_none"))
    assert objections(fault) == [
        "its text occurs 0 times in compiler/source.py",
        "tests/no_such_file.py doesn't exist",
        "tests/conftest.py::test_none doesn't exist",
    ]


def test_a_fault_is_caught_by_a_test_that_fails_and_the_copy_is_as_before(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In a copy of a few files, whose only test looks at a number."""
    root = tmp_path_factory.mktemp("copy") / "tree"
    root.mkdir()
    (root / "one.py").write_text("ONE = 1\n", encoding="utf-8")
    (root / "test_one.py").write_text(
        "from one import ONE\n\ndef test_it():\n    assert ONE == 1\n\ndef test_other():\n    assert ONE\n", encoding="utf-8"
    )
    copy = Copy(root)
    fault = Fault("room", "name", "one.py", "ONE = 1", "ONE = 2", "seen", ("test_one.py::test_it",))
    assert copy.run(["test_one.py"]).passed
    found = copy.verdict(fault)
    assert (found.caught, found.failed) == (True, ("test_one.py::test_it",))
    assert (root / "one.py").read_text(encoding="utf-8") == "ONE = 1\n"
    survivor = Fault("room", "name", "one.py", "ONE = 1", "ONE = 2", "seen", ("test_one.py::test_it", "test_one.py::test_other"))
    assert (copy.verdict(survivor).caught, copy.verdict(survivor).words) == (False, "survives test_one.py::test_other")


def test_the_command_names_faults_and_rooms_that_it_doesnt_know() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.faults", "no-such"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stderr) == (1, "no fault or room no-such\n")
