"""A strategy ready to run: its facts, and its code linked with the engine's."""

from attrs import frozen

from compiler.backends.native.link import Linked
from quantdsl.facts import Facts


@frozen
class Strategy:
    """`path` as messages call it; `seconds`: what each stage of making it took."""

    path: str
    facts: Facts
    linked: Linked
    seconds: dict[str, float]
