"""Runs of functions that machine code answers from then on."""

from typing import Any

import pytest

from compiler.launch.cuda import runs


def learnt_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list to which each function that is learnt adds how many launches it has."""
    made, answer = list[int](), runs.answer_calls

    def noting(plan: Any, *rest: Any) -> None:
        answer(plan, *rest)
        made.append(len(plan.launches))

    monkeypatch.setattr(runs, "answer_calls", noting)
    return made
