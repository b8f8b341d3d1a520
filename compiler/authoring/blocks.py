"""Grammars with `layout="blocks"`: an author's rules behind those of `common.lark`, with ZynML's actions for the latter."""

import re
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.authoring.build import flat
from compiler.source import Source
from compiler.typed_ast import nodes
from grammars.faults import Fault
from grammars.grammar import COMMON, Grammar
from grammars.machine import Machine, Tables
from grammars.slip_tables import GENERAL
from grammars.words import COMMON_SOFT, DECLARATIONS, FOREIGN, HEADERS, Soft, Words

if TYPE_CHECKING:
    from compiler.authoring.actions import ActionCalls

SPECIAL = ("special_statement", "special_declaration", "special_operand")
"""The rules of `common.lark` that a language's own grammar defines; those that it leaves out match nothing."""

_FOLLOWS = r"[ \t]+(?![-+*/%]?=|(?:and|or|in|if|as|else|step|on|not)\b)[\w(\[\"'{-]"
_NEVER = "never_written"
_CALLS: ContextVar[Any] = ContextVar("CALLS")


def grammar_of(name: str, file: Path, start: str) -> Grammar:
    """The grammar of an author's file. A word that it `%declare`s is a word where a statement begins, or behind a value, if a value
    follows it; elsewhere it is a name."""
    text = file.read_text(encoding="utf-8")
    missing = [rule for rule in SPECIAL if not re.search(rf"^\??{rule}\b", text, re.MULTILINE)]
    more = "".join(f"\n%declare NO_{rule.upper()}\n?{rule}: NO_{rule.upper()} -> {_NEVER}\n" for rule in missing)
    return Grammar(name, (COMMON, file), _words(text), (start, "expression_only"), more=more)


def _words(text: str) -> Words:
    declared = " ".join(re.findall(r"^%declare\s+(.*)$", text, re.MULTILINE)).split()
    known = {soft.kind for softs in COMMON_SOFT.values() for soft in (softs if isinstance(softs, tuple) else (softs,))}
    own = [kind for kind in declared if kind not in known]
    soft = {kind.lower(): tuple(Soft(kind, place, _FOLLOWS) for place in ("start", "operand")) for kind in own}
    with_blocks = {kind for kind in own if re.search(rf"^[^/\n]*\b{kind}\b[^\n]*(?:\bblock\b|\"\{{\")", text, re.MULTILINE)}
    return Words({**COMMON_SOFT, **soft}, HEADERS | with_blocks, DECLARATIONS, foreign=FOREIGN, slips=GENERAL)


def parsed_in_blocks(
    grammar: Grammar, tables: Tables, calls: "ActionCalls", shared: type, source: Source, start: str
) -> tuple[Any, list[Fault]]:
    """The value that the actions build from a text, and all faults in it. `shared`: the actions of what `common.lark` says."""
    cls = _actions(grammar, tables, calls, shared)
    before = _CALLS.set(calls)
    try:
        actions = cls(source.path, source.text)
        machine = Machine(tables, grammar.words, actions, source.text, start)
        value = machine.run()
        return value, [*machine.faults, *actions.faults]
    finally:
        _CALLS.reset(before)


_MADE: dict[tuple[Grammar, type, type], type] = {}


def _actions(grammar: Grammar, tables: Tables, calls: "ActionCalls", shared: type) -> Any:
    """The shared actions with the author's in place of those that have their names."""
    author = type(calls.actions)
    key = (grammar, author, shared)
    if key not in _MADE:
        made = {name: _bridge(name) for name in require_actions(tables, calls, shared)}
        made |= {"statements": _statements(shared), "line_block": _line_block(shared)}
        _MADE[key] = type(shared.__name__, (shared,), {"grammar": grammar, _NEVER: None, **made})
    return _MADE[key]


def require_actions(tables: Tables, calls: "ActionCalls", shared: type) -> set[str]:
    """The actions that the author's class has. Raises ZyntaxError where neither it nor the shared one has one."""
    wanted = {rule.action for rule in tables.rules if rule.action}
    calls.require(wanted - {_NEVER} - {name for name in wanted if hasattr(shared, name)})
    return {name for name in wanted if calls.has(name)}


def _statements(shared: Any) -> Any:
    """An author's action may give several statements where one stands, or none."""

    def statements(self: Any, start: int, end: int, *given: Any) -> Any:
        return shared.statements(self, start, end, *(one for each in given for one in _each(each)))

    return statements


def _line_block(shared: Any) -> Any:
    def line_block(self: Any, start: int, end: int, given: Any) -> Any:
        return shared.colon_block(self, start, end, _each(given))

    return line_block


def _each(given: Any) -> list[Any]:
    return flat(given) if given is None or isinstance(given, list | tuple | nodes.Expression) else [given]


def _bridge(name: str) -> Any:
    def action(self: Any, start: int, end: int, *values: Any) -> Any:
        return _CALLS.get().called(name)(self, start + self.offset, end + self.offset, *values)

    return action
