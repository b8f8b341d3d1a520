"""Every alternative of every rule of both grammars is in some program of the repository."""

from pathlib import Path

import pytest

from grammars.loader import load
from grammars.machine import Rule
from grammars.recorded import recorded
from tests.grammars.texts import GRAMMARS, parsed, texts

PROGRAMS = Path(__file__).parent / "programs"
SHARED = (PROGRAMS / "shared.zynml").read_text(encoding="utf-8")
ONLY_IN_FAULTS = {"empty_block", "compute_empty"}
"""Actions of alternatives for a block without lines, which is always an error."""


def _is_only_in_faults(rule: Rule) -> bool:
    without_lines = (rule.origin == "match_expression" and len(rule.keep) == 1) or (rule.origin == "clauses" and rule.length == 2)
    return rule.action in ONLY_IN_FAULTS or without_lines


@pytest.mark.parametrize("language", ["zynml", "quantdsl"])
def test_every_alternative_is_in_some_program(language: str) -> None:
    used = set(recorded(SHARED, GRAMMARS[language]).used)
    for _, other, text in texts():
        program = parsed(text, other) if other == language else None
        used |= program.used if program is not None else set()
    missing = [
        f"{rule.origin} of {rule.length} symbols, action {rule.action}, keeping {rule.keep}"
        for rule in load(GRAMMARS[language]).rules
        if rule not in used and rule.origin != "expression_only" and not _is_only_in_faults(rule)
    ]
    # Chains of comparisons parse, and are then refused: ZYN0107.
    missing = [each for each in missing if not (language == "quantdsl" and each.startswith("__comparison_plus"))]
    assert missing == [], "write them into a file of tests/grammars/programs"
    assert len(used) > 550
