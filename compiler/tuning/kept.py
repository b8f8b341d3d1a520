"""What tuning runs found, in the user's cache: an entry for a kernel, its sizes, the device and its driver, and this compiler. One that is
damaged, or names a tiling that is no candidate any more, is as none."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict

from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.schedule.gpu.choose import Choice
from compiler.schedule.gpu.facts import Facts
from runtime.cache.identity import identity
from runtime.cache.store import key_of, store


def name_of(field: HirFunction, facts: Facts, sizes: Mapping[str, int], device: str) -> str:
    """What a run is known by. `device`: it and its driver, in words."""
    held = [
        facts.architecture,
        f"{facts.units}",
        f"{sorted(facts.aligned)}",
        f"{facts.lengths}",
        f"{facts.inside}",
        f"{sorted(sizes.items())}",
    ]
    return key_of(["tuned", identity(), device, print_function(field), *held])


def found(name: str, choices: Sequence[Choice]) -> Choice | None:
    """The choice that a run took, here or in another process; None where none is known."""
    cache = store()
    entry = cache.get(name) if cache is not None else None
    if entry is None or not isinstance(entry[0], dict):
        return None
    return next((choice for choice in choices if told(choice.facts) == entry[0].get("tiling")), None)


def keep(name: str, choice: Choice, seconds: Sequence[float | None]) -> None:
    """Put a run's choice there, and how long the candidates took."""
    cache = store()
    if cache is not None:
        cache.put(name, {"tiling": told(choice.facts), "seconds": list(seconds)}, b"")


def told(facts: Facts) -> Any:
    """The tiling as JSON."""
    return None if facts.tiling is None else {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(facts.tiling).items()}
