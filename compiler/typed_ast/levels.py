"""How much is done for the speed of a program, and what may be done with its floats."""

from enum import Enum

PRODUCTS = ("f32", "tf32")
"""How factors of f32 are multiplied where a program says it: each product as one FMA, or rounded to tf32."""


FLOATS = ("contract", "strict")
"""What a compiler may do with floats: round a product and the sum that takes it once, and sum in any order; or nothing at all, so that bits
are those of the loops as written."""


class OptimizationLevel(Enum):
    """`-O`: none, quick, standard, all; for size; for latency above throughput."""

    O0 = "0"
    O1 = "1"
    O2 = "2"
    O3 = "3"
    OS = "s"
    OLATENCY = "latency"
