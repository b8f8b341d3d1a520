"""The tables of an author's grammar, and what is wrong with one that has none, or has them by luck."""

import re
from collections.abc import Iterable

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.language import Language
from grammars.grammar import Grammar
from grammars.loader import conflicts, load
from grammars.machine import Tables

_COLLISION = re.compile(r"Reduce/Reduce collision in Terminal\('([^']+)'\) between the following rules:((?:\s*- <[^>]*>)+)")
_MOST = 5
_LONGEST = 300


def tables_of(grammar: Grammar, language: Language) -> Tables:
    """The tables of an author's grammar. Raises ZyntaxError where Lark can't make them."""
    try:
        return load(grammar)
    except Exception as error:
        raise ZyntaxError(_unusable(grammar, language, error)) from error


def _unusable(grammar: Grammar, language: Language, error: Exception) -> Diagnostic:
    file = grammar.files[-1]
    collisions = collided(str(error))
    if collisions:
        hint = "after one of them the same may follow as after the other: let the grammar say by a word which one it is"
        return Diagnostic("0110", f"the grammar of `{language.title}` is ambiguous", notes=[*collisions, f"its file is {file}"], hint=hint)
    words = " ".join(str(error).split())
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
    return Diagnostic("0110", f"the grammar of `{language.title}` can't be used: {words}", notes=[f"its file is {file}"])


def collided(message: str) -> list[str]:
    """The pairs of rules in Lark's message that can't be told apart, each in words."""
    found: dict[tuple[str, ...], set[str]] = {}
    for terminal, rules in _COLLISION.findall(message):
        found.setdefault(tuple(sorted(re.findall(r"<([^>]*)>", rules))), set()).add(terminal)
    return [f"{_listed(rules)} can't be told apart before {_named(terminals)}" for rules, terminals in sorted(found.items())]


def shifted(grammar: Grammar, known: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The places where a grammar could go on or end a rule, and goes on, in words. `known` aren't told."""
    rules: dict[str, set[str]] = {}
    for terminal, rule in set(conflicts(grammar)) - set(known):
        rules.setdefault(rule, set()).add(terminal)
    return [f"`{rule}` could end before {_named(terminals)}, and goes on" for rule, terminals in sorted(rules.items())]


def _listed(rules: Iterable[str]) -> str:
    return " and ".join(f"`{' '.join(rule.split())}`" for rule in rules)


def _named(terminals: Iterable[str]) -> str:
    listed = sorted("the end of the file" if terminal == "$END" else f"`{terminal}`" for terminal in terminals)
    return ", ".join(listed[:_MOST]) + (f" and {len(listed) - _MOST} others" if len(listed) > _MOST else "")
