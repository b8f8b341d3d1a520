"""Which cases of a test are slow, by `breadth.toml`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

ROOT = Path(__file__).parents[2]

TABLE = Path(__file__).with_name("breadth.toml")


@frozen
class Breadth:
    """`products`: of the combinations of several parameters, the commit tier runs so few that each value of each parameter occurs. `cases`:
    patterns of single slow cases. `thinned`: of a long list, the commit tier runs every n-th case. `whole`: tests that are slow as they are."""

    products: frozenset[str] = field(converter=frozenset, default=())
    cases: Mapping[str, Sequence[re.Pattern[str]]] = field(factory=dict)
    thinned: Mapping[str, int] = field(factory=dict)
    whole: frozenset[str] = field(converter=frozenset, default=())

    @property
    def tests(self) -> list[str]:
        return [*self.products, *self.cases, *self.thinned, *self.whole]

    def slow(self, test: str, cases: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Those of a test's cases that are slow. `cases`: by the name in brackets, the value of each parameter."""
        if test in self.whole:
            return {*cases}
        names = [name for name in cases if not any(pattern.fullmatch(name) for pattern in self.cases.get(test, ()))]
        kept = names[:: self.thinned.get(test, 1)]
        if test in self.products:
            kept = covering({name: cases[name] for name in kept})
        return {*cases} - {*kept}


def covering(cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """So few cases that each value of each parameter occurs in one; of equally good ones the first."""
    missing = {name: set(values.items()) for name, values in cases.items()}
    kept = []
    while any(missing.values()):
        best = max(missing, key=lambda name: len(missing[name]))
        kept.append(best)
        seen = missing.pop(best)
        missing = {name: values - seen for name, values in missing.items()}
    return kept


def breadth() -> Breadth:
    """As the table has it."""
    rooms = tomllib.loads(TABLE.read_text(encoding="utf-8")).values()
    cases: dict[str, list[re.Pattern[str]]] = {}
    for entry in (entry for room in rooms for entry in room.get("cases", ())):
        test, _, pattern = entry.removesuffix("]").partition("[")
        cases.setdefault(test, []).append(re.compile(re.escape(pattern).replace(r"\*", ".*")))
    return Breadth(
        products=[test for room in rooms for test in room.get("products", ())],
        cases=cases,
        thinned={test: every for room in rooms for test, every in room.get("thinned", {}).items()},
        whole=[test for room in rooms for test in room.get("whole", ())],
    )
