"""A parse that keeps its tokens instead of a tree: what the formatter reads, and what compares two spellings of one program."""

from collections.abc import Callable
from typing import Any

from grammars.faults import ParseFailure, Token
from grammars.grammar import Grammar
from grammars.loader import load
from grammars.machine import GENERAL, Machine, Rule


class Recorded(Machine):
    """`tokens` are those of the layout filter, in order; those without text open and close blocks and end lines. `roles` names the rule
    that took each of the others, by its offset. `used` are the rules of the grammar that the text needs."""

    def __init__(self, text: str, grammar: Grammar, start: str) -> None:
        super().__init__(load(grammar), grammar.words, _NoActions(), text, start)
        self.climbs: dict[tuple[int, str, str], int] = {}
        self.reductions = [(GENERAL, rule.length, rule.origin, None, rule) for rule in reversed(self.tables.rules)]
        self.tokens: list[Token] = []
        self.roles: dict[int, str] = {}
        self.used: set[Rule] = set()

    def _take(self, tokens: list[Token]) -> None:
        self.tokens += tokens
        super()._take(tokens)

    def _climbed(self, below: int, origin: str, kind: str) -> int:
        """The state behind one rule: each counts here, also one that only passes a value on."""
        return self.tables.states[below][origin]

    def _value(self, rule: Rule, method: Any, taken: list[Any], start: int, end: int) -> Any:
        self.used.add(rule)
        for value in taken:
            if type(value) is Token and value.text:
                self.roles.setdefault(value.start, rule.action or rule.origin)

    @property
    def meaning(self) -> list[tuple[str, str]]:
        """What two texts have in common that differ in white space and comments alone: kinds and spellings of their tokens."""
        return [(token.kind, self.text[token.start : token.end] if token.text else "") for token in self.tokens]


def recorded(text: str, grammar: Grammar, start: str = "program") -> Recorded:
    """The tokens of a program. Raises ParseFailure for one with syntax errors."""
    machine = Recorded(text, grammar, start)
    machine.run()
    if machine.faults:
        raise ParseFailure(tuple(machine.faults))
    return machine


class _AnyMethod(type):
    def __getattr__(cls, name: str) -> Callable[..., None]:
        return _nothing


class _NoActions(metaclass=_AnyMethod):
    """Has an action for every rule, which makes nothing."""


def _nothing(actions: object, start: int, end: int, *values: object) -> None:
    return None
