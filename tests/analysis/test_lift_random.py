"""The field of a nest means what the nest means: random nests of every family, bit for bit (their numbers are small integers)."""

import numpy as np
import pytest
from random_nests import FAMILIES, random_nest

from compiler.analysis.lift import Refused, lift
from compiler.emulator.interpret import interpret
from compiler.hir.text import print_function
from compiler.hir.types import Mem

SEEDS = 40


@pytest.mark.parametrize("family", FAMILIES)
def test_the_field_of_a_random_nest_computes_what_the_nest_computes(family: str) -> None:
    refused = []
    for seed in range(SEEDS):
        nest = random_nest(seed, family)
        before, after = nest.arguments(seed), nest.arguments(seed)
        try:
            field = lift(nest.function)
        except Refused as reason:
            refused.append((seed, str(reason)))
            continue
        interpret(nest.function, before)
        interpret(field, after)
        for parameter, expected, found in zip(nest.function.parameters, before, after, strict=True):
            if isinstance(parameter.type, Mem):
                np.testing.assert_array_equal(
                    found, expected, err_msg=f"{parameter} of seed {seed}\n{print_function(nest.function)}\n{print_function(field)}"
                )
    assert len(refused) <= SEEDS // 8, refused
