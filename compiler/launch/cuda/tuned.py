"""What tuning runs found, in the user's cache: an entry for each kernel, of this compiler, with what was found for devices, facts and
sizes. A damaged entry, or a tiling that is no candidate any more, is as none; of two processes that write one entry at once one may have
to try again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict

from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.launch.cache import TUNING_RUNS
from compiler.schedule.gpu.choose import LaunchChoice
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.price.block_digits import BlockDigits
from compiler.schedule.gpu.products.tiling import Tiling
from runtime.cuda.device import CudaDevice
from runtime.records import evolve

MOST = 256
"""Runs that an entry holds; the oldest go first."""


def name_of(field: HirFunction) -> str:
    """The entry of a kernel, whatever it is called."""
    return TUNING_RUNS.name(print_function(evolve(field, name="kernel")))


def case_of(facts: Facts, sizes: Mapping[str, int], device: CudaDevice) -> str:
    """What a run's finding holds for: the device and its driver, what the kernel is made for, and the sizes."""
    held = facts.machine.name, facts.units, sorted(facts.aligned), facts.lengths, facts.inside, sorted(sizes.items())
    return f"{device.properties} {device.driver.version} {held}"


def known_choice(name: str, case: str, choices: Sequence[LaunchChoice]) -> LaunchChoice | None:
    """The choice that a run took, here or in another process; None where none is known."""
    tiling = _runs(name).get(case, {}).get("tiling")
    return next((choice for choice in choices if _as_json(choice.cut) == tiling), None) if tiling is not None else None


def keep(name: str, case: str, choice: LaunchChoice, sizes: Mapping[str, int], device: str) -> None:
    """Put a run's choice there. `device`: its name."""
    runs = {key: run for key, run in _runs(name).items() if key != case}
    left = dict([*runs.items()][1 - MOST :])
    TUNING_RUNS.keep(lambda: name, {**left, case: {"tiling": _as_json(choice.cut), "sizes": dict(sizes), "device": device}})


def words(field: HirFunction) -> Iterator[str]:
    """What is known of a kernel, a line a run."""
    for run in _runs(name_of(field)).values():
        try:
            fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in run["tiling"].items()}
            sizes = ", ".join(f"{name}={value}" for name, value in run["sizes"].items())
            yield f"tuned on {run['device']} for {sizes}: {'; '.join(_cut_of(fields).words())}"
        except (AttributeError, KeyError, TypeError):
            continue  # of another version of this file


def _runs(name: str) -> dict[str, Any]:
    runs = TUNING_RUNS.find(lambda: name, lambda head, image: {case: run for case, run in head.items() if isinstance(run, dict)})
    return runs or {}


def _cut_of(fields: Mapping[str, Any]) -> Tiling | ThreadTable | BlockDigits:
    kind = ThreadTable if "registers" in fields else BlockDigits if "resident" in fields else Tiling
    return kind(**fields)


def _as_json(cut: Tiling | ThreadTable | BlockDigits | None) -> Any:
    """The choice as JSON gives it back."""
    return None if cut is None else {name: _lists(value) for name, value in asdict(cut).items()}


def _lists(value: Any) -> Any:
    return [_lists(part) for part in value] if isinstance(value, tuple) else value
