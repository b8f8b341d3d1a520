"""Random blocks, split over devices and whole: where a block is split, nothing but its time changes."""

import pytest

import zynml
from compiler.devices.places import EmulatorPlace
from tests.random_cases.running import random_case
from tests.random_nests.families import random_program
from tests.random_nests.running import _same

DEVICES = '@device(["emulator:sm_80", "cpu", "emulator:sm_90a"]) @parallel(data)'


@pytest.fixture(autouse=True)
def _compiled_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three devices that are the processor: the emulator has tests of its own, and takes long."""
    monkeypatch.setattr(EmulatorPlace, "block", lambda self, block: block)


def with_devices(text: str) -> str:
    """The program with its first block on three devices."""
    start = text.index("compute(") + len("compute")
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return f"{text[: position + 1]} {DEVICES}{text[position + 1 :]}"
    raise AssertionError(text)


def split(text: str) -> zynml.CompiledProgram:
    return zynml.compile(with_devices(text), opt="0", threads=1)


@pytest.mark.parametrize("batch", range(4))
def test_cases_with_known_results(batch: int) -> None:
    compared = 0
    for seed in range(20 * batch, 20 * batch + 20):
        case = random_case(seed, tiny=True)
        try:
            result = split(case.source).f(*case.inputs)
        except zynml.ZynMLError as refusal:
            assert refusal.codes == ("ZYN0417",), f"seed {seed}\n{refusal}"
            continue
        case.compare(result)
        compared += 1
    assert compared >= 10  # most of them are products, windows, attention and rows


@pytest.mark.parametrize("batch", range(4))
def test_nests_of_any_form(batch: int) -> None:
    for seed in range(25 * batch, 25 * batch + 25):
        program = random_program(seed)
        try:
            whole = zynml.compile(program.text, opt="0", threads=1).f(*program.values())
            result = split(program.text).f(*program.values())
        except zynml.ZynMLError as refusal:
            assert program.may_refuse or refusal.codes == ("ZYN0417",), f"seed {seed}\n{refusal}"
            continue
        _same(program, result, whole, f"seed {seed}, split and whole")
