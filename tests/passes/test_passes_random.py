"""Every pass keeps the meaning of random nests, of their carried form and of their fields."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from compiler.analysis.lift import lift
from compiler.emulator.interpret import interpret
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.hir.verify import verify
from compiler.passes.canonicalize import canonicalize
from compiler.passes.cse import cse
from compiler.passes.dce import dce
from compiler.passes.hoist import hoist
from compiler.passes.slots_to_carried import slots_to_carried
from tests.shrinking import require_passing

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from random_nests import RandomNest, random_nest

Pass = Callable[[HirFunction], HirFunction]
SEEDS = range(60)


def _cleaned(function: HirFunction) -> HirFunction:
    return dce(hoist(canonicalize(cse(function))))


@pytest.mark.parametrize("step", [slots_to_carried, canonicalize, cse, hoist, lambda f: dce(cse(f)), _cleaned])
@pytest.mark.parametrize("form", ["slots", "carried", "field"])
def test_a_pass_keeps_what_a_nest_computes(step: Pass, form: str) -> None:
    for seed in SEEDS:

        def check(nest: RandomNest, seed: int = seed) -> None:
            function = {"slots": lambda f: f, "carried": slots_to_carried, "field": lift}[form](nest.function)
            after = step(function)
            verify(after)
            expected, found = nest.arguments(seed), nest.arguments(seed)
            interpret(function, expected)
            interpret(after, found)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}\n{print_function(function)}\n{print_function(after)}")

        require_passing(partial(random_nest, seed, None), check, (Exception,))
