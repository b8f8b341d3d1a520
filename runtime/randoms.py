"""Random numbers by counter on the host, one at a time: the numbers that kernels compute from the same (seed, i, j), which
`compiler.hir.randoms` defines."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statistics import NormalDist

_WORD = (1 << 32) - 1


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10: four words of 32 bits."""
    (a, b, c, d), (k, m) = counter, key
    for step in range(10):
        if step:
            k, m = k + 0x9E3779B9 & _WORD, m + 0xBB67AE85 & _WORD
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = right >> 32 ^ b ^ k, right & _WORD, left >> 32 ^ d ^ m, left & _WORD
    return a, b, c, d


def bits(seed: int, i: int, j: int) -> int:
    """64 random bits. Negative counters and seeds count from 2**64 down."""
    low, high, _, _ = philox((i & _WORD, i >> 32 & _WORD, j & _WORD, j >> 32 & _WORD), (seed & _WORD, seed >> 32 & _WORD))
    return high << 32 | low


def random(seed: int, i: int, j: int) -> float:
    """In [0, 1), 24 bits: an f32."""
    return ((bits(seed, i, j) & _WORD) >> 8) * 2.0**-24


def uniform(seed: int, i: int, j: int) -> float:
    """In [0, 1), 53 bits."""
    return (bits(seed, i, j) >> 11) * 2.0**-53


def normal(seed: int, i: int, j: int) -> float:
    """Mean 0, deviation 1."""
    return _standard().inv_cdf(((bits(seed, i, j) >> 12) + 0.5) * 2.0**-52)


@cache
def _standard() -> "NormalDist":
    # Its quantile is that of algorithm AS 241, as the kernels' is.
    from statistics import NormalDist

    return NormalDist()
