"""Programs whose blocks may run on a CPU or on emulated GPUs, with paces and a clock that a test sets."""

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout

import pytest
from attrs import Factory, define
from fake_driver import FakeDriver

from compiler.devices.costs import Rates
from compiler.diagnostics import ZyntaxError, render
from compiler.driver import CompileOptions, Session
from compiler.source import Source, Sources
from zynml.api import open_source

INFINITE = float("inf")
SLOW_CPU = Rates(call=1e-5, copy=0.0, copy_to=INFINITE, copy_from=INFINITE, memory=1e9, arithmetic=1e9)
QUICK_GPU = Rates(call=1e-4, copy=0.0, copy_to=1e9, copy_from=1e9, memory=1e12, arithmetic=1e12)


@define
class Clock:
    """Seconds that pass only when they are told to: `step` at each look."""

    now: float = 0.0
    step: float = 0.0
    looks: int = 0

    def __call__(self) -> float:
        self.looks += 1
        self.now += self.step
        return self.now


@define
class Ran:
    """What a program printed, and what was told about its blocks."""

    output: str
    told: list[str]
    session: Session


@define
class Machine:
    """Runs programs. `rates` by device; the clock stands still, so that runs take no time, unless a test winds it."""

    fake: FakeDriver
    rates: dict[str, Rates] = Factory(lambda: {"cpu": SLOW_CPU, "cuda:0": QUICK_GPU, "cuda:1": QUICK_GPU})
    clock: Clock = Factory(Clock)

    def open(self, text: str, device: str | None = None, explain: Callable[[str], None] | None = None) -> Session:
        source = Source("program.zynml", text)
        options = CompileOptions(device=device, threads=1, explain=explain)
        session = open_source(source, options, Sources(source), lambda warning: None)
        places = session.placement.places
        places.measure = lambda place: self.rates[place.device]
        places.clock = self.clock
        return session

    def run(self, text: str, device: str | None = None) -> Ran:
        told: list[str] = []
        session = self.open(text, device, told.append)
        output = io.StringIO()
        with redirect_stdout(output):
            session.run()
        return Ran(output.getvalue(), told, session)

    def fails(self, text: str, device: str | None = None) -> str:
        """All messages, as a user reads them."""
        with pytest.raises(ZyntaxError) as caught, redirect_stdout(io.StringIO()):
            session = self.open(text, device)
            session.run()
        sources = Sources(Source("program.zynml", text))
        return "\n\n".join(render(diagnostic, sources) for diagnostic in caught.value.diagnostics)

    @property
    def copies(self) -> Mapping[str, int]:
        """Copies so far, by direction."""
        return {name: self.fake.calls[f"cuMemcpy{way}Async"] for name, way in (("in", "HtoD"), ("out", "DtoH"))}
