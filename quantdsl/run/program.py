"""A strategy ready to run: its facts, and its code linked with the engine's."""

from attrs import frozen

from compiler.backends.native.link import Linked
from quantdsl.facts import Facts


@frozen
class Strategy:
    """`path` as messages call it; `outside`: the functions of C that its code and the engine's are linked with, and `unknown` those among
    them that do more than compute and copy; `seconds`: what each stage of making it took."""

    path: str
    facts: Facts
    linked: Linked
    outside: tuple[str, ...]
    unknown: tuple[str, ...]
    seconds: dict[str, float]
