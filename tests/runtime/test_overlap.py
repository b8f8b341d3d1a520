"""Whether arrays share memory: compared with the sets of addresses of their elements."""

from itertools import product

import numpy as np
import pytest

from runtime.overlap import elements_at, overlaps_itself, share_memory

NOWHERE = 1 << 44
"""An address at which this process has nothing: reading there would end it."""


def bytes_of(start, shape, strides, itemsize):
    starts = (start + sum(n * s for n, s in zip(index, strides, strict=True)) for index in product(*map(range, shape)))
    return {address + byte for address in starts for byte in range(itemsize)}


def random_view(random):
    rank = int(random.integers(0, 4))
    shape = tuple(int(n) for n in random.integers(0, 5, rank))
    itemsize = int(random.choice([1, 2, 4, 8]))
    strides = tuple(int(n) * int(random.choice([1, itemsize])) for n in random.integers(-9, 10, rank))
    return int(random.integers(0, 60)), shape, strides, itemsize


def test_share_memory_is_that_a_byte_is_common():
    random = np.random.default_rng(813)
    answers = []
    for _ in range(2000):
        first, second = random_view(random), random_view(random)
        arrays = [elements_at(NOWHERE + start, shape, strides, size) for start, shape, strides, size in (first, second)]
        answers.append(bool(bytes_of(*first) & bytes_of(*second)))
        assert share_memory(*arrays) is answers[-1], (first, second)
    assert 200 < sum(answers) < 1800


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.s_[::2], np.s_[1::2]),
        (np.s_[:, ::2], np.s_[:, 1::2]),
        (np.s_[:, :9], np.s_[:, 9:]),
        (np.s_[:, :, 1:-1, 1:-1], np.s_[:, :, 0, :]),
        (np.s_[::2, ::3, 1:-1, :4], np.s_[::2, ::3, 1:-1, 5:]),
        (np.s_[..., ::3], np.s_[::2, ..., 1::3]),
    ],
)
def test_slices_that_miss_each_other_are_told_apart_at_any_size(first, second):
    whole = elements_at(NOWHERE, (64, 64, 57, 63), (4 * 64 * 57 * 63, 4 * 57 * 63, 4 * 63, 4), 4)
    assert not share_memory(whole[first], whole[second])
    assert not share_memory(whole[first].transpose(), whole[second])
    assert share_memory(whole[first], whole)


def test_what_would_take_too_long_counts_as_shared():
    # a knapsack of weights without a common divisor: the bounded search gives up
    weights = [3**k * 2 ** (30 - k) + k for k in range(30)]
    first = elements_at(NOWHERE, [3] * 30, weights, 1)
    second = elements_at(NOWHERE + sum(weights) - 7, [3] * 2, weights[:2], 1)
    assert share_memory(first, second)


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"), [((3, 4), (4, 1), False), ((3, 4), (0, 1), True), ((3, 4), (1, 1), True), ((1, 4), (0, 1), False)]
)
def test_elements_of_an_array_that_share_memory(shape, strides, overlaps):
    assert overlaps_itself(shape, strides) is overlaps
