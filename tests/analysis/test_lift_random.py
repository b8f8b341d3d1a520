"""The field of a nest means what the nest means: random nests of every family, bit for bit (their numbers are small integers)."""

from functools import partial

import numpy as np
import pytest
from random_nests import FAMILIES, RandomNest, random_nest

from compiler.analysis.lift import Refused, lift
from compiler.emulator.interpret import interpret
from compiler.hir.text import print_function
from compiler.hir.types import Mem
from tests.shrinking import require_passing

SEEDS = 40


@pytest.mark.parametrize("family", FAMILIES)
def test_the_field_of_a_random_nest_computes_what_the_nest_computes(family: str) -> None:
    refused: list[str] = []
    for seed in range(SEEDS):

        def check(nest: RandomNest, seed: int = seed) -> None:
            try:
                field = lift(nest.function)
            except Refused as reason:
                refused.append(f"seed {seed}: {reason}")
                return
            before, after = nest.arguments(seed), nest.arguments(seed)
            interpret(nest.function, before)
            interpret(field, after)
            for parameter, expected, found in zip(nest.function.parameters, before, after, strict=True):
                if isinstance(parameter.type, Mem):
                    np.testing.assert_array_equal(found, expected, err_msg=f"{parameter} of seed {seed}\n{print_function(field)}")

        require_passing(partial(random_nest, seed, family), check, (Exception,))
    assert len(refused) <= SEEDS // 8, refused
