"""A strategy ready to run: its metadata, and its code linked with the engine's."""

from collections.abc import Sequence

from compiler.backends.native.link import Linked, ObjectModule
from quantdsl.metadata import StrategyMetadata
from runtime.records import frozen


@frozen
class LinkedStrategy:
    """`path` as messages call it; `modules`: what was linked, the engine's code and the program's; `outside`: the functions of C that they
    are linked with, and `unknown` those among them that do more than compute and copy; `seconds`: what each stage of making it took."""

    path: str
    metadata: StrategyMetadata
    linked: Linked
    modules: Sequence[ObjectModule]
    outside: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: dict[str, float]
