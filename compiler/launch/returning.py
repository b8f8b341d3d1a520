"""What is known of a function whose calls on a GPU may come back (see `launch.cuda.repeats`)."""

from collections.abc import Mapping

from runtime.records import frozen


@frozen
class Returning:
    """What of a function decides how its calls come back. `parameters`: where each of its own stands, by the block's names for them;
    `count`: how many there are; `sizes`: the names that it gives to extents. `several`: it is not one block of its parameters, but
    several, or with values between: their numbers follow from the function's."""

    parameters: Mapping[str, int]
    count: int
    sizes: frozenset[str] = frozenset()
    several: bool = False
    number: str = ""
    """The type of number that the function says it gives; empty where it says nothing."""
