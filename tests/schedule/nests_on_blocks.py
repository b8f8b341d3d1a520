"""Programs whose nests go through `nest_launches` whether or not they lift, on the emulator with everything watched."""

from collections.abc import Callable
from typing import Any

import pytest

import zynml
from compiler.analysis.dependence import analyse
from compiler.diagnostics import Diagnostic
from compiler.hir.gpu import SyncThreads
from compiler.hir.module import HirFunction
from compiler.launch import emulator as device_kernels
from compiler.launch import thread_kernels
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.launches import Launches


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Launches]:
    """Nests keep their loops, and what the sanitizer finds fails the test. Gives the launches that are made from here on."""
    emulate: Callable[..., Any] = device_kernels.emulate
    made: list[Launches] = []

    def only_nests(nest: HirFunction, field: HirFunction | None, facts: Facts) -> Launches:
        made.append(nest_launches(nest, analyse(nest)))
        return made[-1]

    def report(found: tuple[Diagnostic, ...]) -> None:
        assert not found, "; ".join(f"{one.message}: {one.label}" for one in found)

    monkeypatch.setattr(thread_kernels, "launches_for", only_nests)
    monkeypatch.setattr(device_kernels, "emulate", lambda *call: emulate(*call[:-1], report))
    return made


def emulated(text: str) -> zynml.CompiledProgram:
    return zynml.compile(text, device="emulator")


def barriers(function: HirFunction) -> int:
    return sum(isinstance(op, SyncThreads) for top in function.body.body for op in top.walk())
