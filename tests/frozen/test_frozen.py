"""What changes here was meant to change: `make frozen` says what, `python -m tests.frozen --write` accepts it."""

import json
from pathlib import Path

from tests.frozen.__main__ import DIGESTS, ROOT, collect, digests_of


def test_hir_and_messages_of_the_fixed_list_are_as_frozen(tmp_path: Path) -> None:
    digests = digests_of(collect(ROOT, tmp_path / "now", quick=True))
    assert digests == json.loads(DIGESTS.read_text())


def test_the_order_of_sets_reaches_nothing_that_is_made(tmp_path: Path) -> None:
    first, second = (digests_of(collect(ROOT, tmp_path / seed, quick=True, only="gpt", seed=seed)) for seed in ("1", "2"))
    assert first and first == second
