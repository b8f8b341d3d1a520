"""The LALR(1) machine: runs Lark's tables over the tokens of the layout filter, building nodes as rules complete.

The lexer is contextual: the state decides which spellings are looked for. After a syntax error the machine goes back to
the beginning of the statement and on at the next one of the same block, so that one run finds all faults."""

import re
from functools import cached_property
from typing import Any

from attrs import field

from grammars.comments import explained
from grammars.expected import describe_error
from grammars.faults import Fault, Token
from grammars.layout import Layout
from grammars.lexicon import Lexicon
from grammars.scan import mask
from grammars.signs import fault_of_sign
from grammars.slips import LINE_ENDS, Stop
from grammars.words import Words, kinds
from runtime.records import frozen

MAX_FAULTS = 100
_STATEMENT_BEGINS = frozenset(["NL", "SEMICOLON", "INDENT", "LBRACE"])
# Words that begin a statement and nothing else.
_BEGINS_ONLY = kinds("LET MUT VAR WHILE RETURN BREAK CONTINUE STRUCT ENUM TRAIT IMPL FROM YIELD THROW")


@frozen(eq=False)
class Rule:
    """A production: what it makes, from how many symbols, and what becomes of their values.

    `keep` lists (index, spliced) of the symbols whose values are passed on; `absent` says after how many of those a None
    stands for an optional part. `action` is None for a helper rule, whose values are spliced into the rule around it."""

    origin: str
    length: int
    action: str | None
    unwrap: bool
    keep: tuple[tuple[int, bool], ...]
    absent: tuple[int, ...]


@frozen(eq=False)
class Tables:
    """Everything the machine needs of a grammar. In `states` an entry is the state to go to, or `-1 - rule`."""

    scanner: re.Pattern[str]
    scanner_after_dot: re.Pattern[str]
    states: list[dict[str, int]]
    rules: list[Rule]
    starts: dict[str, int]
    ends: dict[str, int]
    terminals: frozenset[str]
    lexicon: Lexicon | None = None
    """Of a grammar without layout."""
    climbs: dict[tuple[int, int, str], int] = field(factory=dict)
    """The state that unit rules lead to from a state, with the state below it and the token that follows: found once."""
    _methods: dict[type, list[Any]] = field(factory=dict)

    @cached_property
    def units(self) -> list[str | None]:
        """The origin of each rule that only passes one value on; None for any other."""
        return [rule.origin if rule.unwrap and rule.length == 1 and not rule.absent else None for rule in self.rules]

    @cached_property
    def plain(self) -> list[tuple[int, ...] | None]:
        """The indices of the values that an action takes, for rules that take them just as they are; None for any other."""
        return [
            tuple(index for index, _ in rule.keep)
            if rule.action and not rule.unwrap and not rule.absent and not any(spliced for _, spliced in rule.keep)
            else None
            for rule in self.rules
        ]

    def methods(self, actions: type) -> list[Any]:
        """The action of each rule in a class of actions, None for a helper rule."""
        if actions not in self._methods:
            self._methods[actions] = [getattr(actions, rule.action) if rule.action else None for rule in self.rules]
        return self._methods[actions]


class _Spliced(list[Any]):
    """The values of a helper rule."""


@frozen
class _Snapshot:
    states: list[int]
    values: list[Any]
    starts: list[int]
    ends: list[int]


class Machine:
    """One parse. `actions` has a method for each rule's action: it takes the span's start and end, then the values."""

    def __init__(self, tables: Tables, words: Words, actions: object, text: str, start: str) -> None:
        self.tables = tables
        self.text = text
        self.start = start
        self.masked, scan_faults = mask(text)
        self.faults: list[Fault] = list(scan_faults)
        self.layout = Layout(self.masked, words)
        self.actions = actions
        self.methods = tables.methods(type(actions))
        self.units, self.plain = tables.units, tables.plain
        self.end_state = tables.ends[start]
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.end = 0
        self.depth = 0
        self.skipping: int | None = None
        self.previous = Token("", "", 0, 0)
        self.snapshots = {0: self._snapshot()}

    def run(self) -> Any:
        """The value of the start rule, or None when there are faults (`self.faults`) that leave none."""
        position, text, layout = 0, self.masked, self.layout
        if any(fault.code == "0108" for fault in self.faults):
            return None
        length = len(text)
        plain, after_dot = self.tables.scanner, self.tables.scanner_after_dot
        states = self.tables.states
        while position < length and len(self.faults) < MAX_FAULTS and not layout.too_deep:
            scanner = after_dot if self.skipping is None and "INT" in states[self.states[-1]] else plain
            match = scanner.match(text, position)
            if match is None:
                self._unknown_character(position)
                position += 1
                continue
            kind, end = match.lastgroup, match.end()
            assert kind is not None
            if kind != "WHITESPACE":
                self._take(layout.push(kind, position, end))
            position = end
        if layout.too_deep or len(self.faults) >= MAX_FAULTS:
            self.faults = _without_consequences(self.faults, layout.faults)
            return None
        self._take(layout.finish())
        self.faults = [explained(fault, self.text, text) for fault in _without_consequences(self.faults, layout.faults)]
        if self.skipping is not None:
            self._restore(0)
        return self._finish()

    def _finish(self) -> Any:
        end = Token("$END", "", len(self.text), len(self.text))
        if not self._feed(end):
            if not self.faults:
                self._report(end)
            return None
        return self.values[-1]

    # ---- shifting and reducing ------------------------------------------------------------------------------------------

    def _take(self, tokens: list[Token]) -> None:
        if self.layout.panic:
            self.layout.panic = False
            if self.skipping is None:
                self._restore(self.depth)
        for token in tokens:
            if self.skipping is not None and not self._stops_skipping(token):
                continue
            if not self._feed(token):
                self._recover(token)
            elif token.kind in _STATEMENT_BEGINS:
                self._note(token)
            else:
                self.previous = token
                self.depth = token.depth

    def _note(self, token: Token) -> None:
        self.previous = token
        kind = token.kind
        if kind in _STATEMENT_BEGINS:
            self.depth = token.depth + (kind in ("INDENT", "LBRACE"))
            self.snapshots[self.depth] = self._snapshot()
        else:
            self.depth = token.depth

    def _feed(self, token: Token) -> bool:
        """Shift the token, after the reductions it calls for. False: it can't stand here (reductions may have happened)."""
        table, rules, states, values = self.tables.states, self.tables.rules, self.states, self.values
        starts, ends, methods, units, climbs = self.starts, self.ends, self.methods, self.units, self.tables.climbs
        kind = token.kind
        while True:
            top = states[-1]
            action = table[top].get(kind)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                values.append(token)
                starts.append(token.start)
                ends.append(token.end)
                self.end = token.end
                return True
            number = -1 - action
            if units[number] is not None:
                reached = climbs.get((states[-2], top, kind))
                states[-1] = self._climbed(states[-2], top, kind) if reached is None else reached
                continue
            rule = rules[number]
            length = rule.length
            if length:
                taken = values[-length:]
                start, end = starts[-length], ends[-1]
                del states[-length:], values[-length:], starts[-length:], ends[-length:]
            else:
                taken, start, end = [], self.end, self.end
            indices = self.plain[number]
            if indices is not None:
                values.append(methods[number](self.actions, start, end, *[taken[index] for index in indices]))
            else:
                values.append(self._value(rule, methods[number], taken, start, end))
            starts.append(start)
            ends.append(end)
            states.append(table[states[-1]][rule.origin])
            if kind == "$END" and states[-1] == self.end_state:
                return True

    def _climbed(self, below: int, state: int, kind: str) -> int:
        """The state after all unit rules that a token calls for, one after the other."""
        table, units, top = self.tables.states, self.units, state
        while (action := table[state].get(kind)) is not None and action < 0 and (origin := units[-1 - action]) is not None:
            state = table[below][origin]
        self.tables.climbs[below, top, kind] = state
        return state

    def _value(self, rule: Rule, method: Any, taken: list[Any], start: int, end: int) -> Any:
        keep, absent = rule.keep, rule.absent
        if method is None and not absent and keep:
            first, spliced = keep[0]
            if rule.unwrap:
                return taken[first]
            if spliced:  # A list that grows to the right keeps growing in place.
                values = taken[first]
                keep = keep[1:]
            else:
                values = _Spliced()
        else:
            values = _Spliced()
        for number, (index, spliced) in enumerate(keep):
            if absent:
                values += (None,) * absent[number]
            if spliced:
                values += taken[index]
            else:
                values.append(taken[index])
        if absent:
            values += (None,) * absent[-1]
        return values if method is None else method(self.actions, start, end, *values)

    # ---- errors -----------------------------------------------------------------------------------------------------------

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(self.states[:], self.values[:], self.starts[:], self.ends[:])

    def _restore(self, depth: int) -> None:
        """Back to the beginning of the statement that was being read in the block at `depth`; what follows is skipped."""
        while depth not in self.snapshots:
            depth -= 1
        saved = self.snapshots[depth]
        self.states, self.values = saved.states[:], saved.values[:]
        self.starts, self.ends = saved.starts[:], saved.ends[:]
        self.depth = self.skipping = depth
        self.layout.every_line_ends = True

    def _leave_skipping(self) -> None:
        self.skipping = None
        self.layout.every_line_ends = False

    def _recover(self, token: Token) -> None:
        self._report(token)
        closes = token.kind in ("DEDENT", "RBRACE") and token.depth < self.depth
        anew = token.kind in _BEGINS_ONLY and self._on_new_line(token)
        self._restore(self.depth if closes else token.depth)
        if anew:
            self._leave_skipping()
            self._feed_anew(token)
            return
        if self._stops_skipping(token) and token.kind not in ("NL", "SEMICOLON"):
            self._feed_anew(token)

    def _stops_skipping(self, token: Token) -> bool:
        """Whether the skipped statement ends at this token; then the machine reads on with it."""
        assert self.skipping is not None
        if token.kind in ("NL", "SEMICOLON") and token.depth <= self.skipping:
            self._restore(token.depth)
            self._leave_skipping()
            return True
        if token.kind in ("DEDENT", "RBRACE") and token.depth < self.skipping:
            self._leave_skipping()
            return True
        return False

    def _on_new_line(self, token: Token) -> bool:
        return "\n" in self.masked[self.previous.end : token.start]

    def _feed_anew(self, token: Token) -> None:
        if self._feed(token):
            self._note(token)
        else:
            self._restore(token.depth)

    def _report(self, token: Token) -> None:
        if token.kind != "$END" or not self.faults:
            acceptable = frozenset(kind for kind in self.tables.terminals if self._accepts(kind))
            shown = Token("NL", "", token.start, token.end) if token.kind in _BEGINS_ONLY and self._on_new_line(token) else token
            if self.start == "expression_only" and token.kind in ("NL", "$END"):
                shown = Token("$EXPRESSION_END", "", token.start, token.end)
            self.faults.append(self._described(shown, acceptable))

    def _described(self, token: Token, acceptable: frozenset[str]) -> Fault:
        begin = self.masked.rfind("\n", 0, min(self.previous.end, token.start)) + 1
        if token.kind not in LINE_ENDS:
            begin = self.masked.rfind("\n", 0, token.start) + 1
        end = self.masked.find("\n", begin)
        line = self.masked[begin : len(self.masked) if end < 0 else end]
        headers = tuple(self.layout.frames[-1].headers)
        return describe_error(Stop(token, self.previous, acceptable, headers, self.text, line, begin), self.layout.words)

    def _accepts(self, kind: str) -> bool:
        """Whether a token of this kind could stand here, tried on the states alone."""
        table, rules = self.tables.states, self.tables.rules
        states = self.states[:]
        while True:
            action = table[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                return True
            rule = rules[-1 - action]
            if rule.length:
                del states[-rule.length :]
            states.append(table[states[-1]][rule.origin])
            if states[-1] == self.end_state:
                return True

    def _unknown_character(self, position: int) -> None:
        if self.skipping is None:
            self.faults.append(fault_of_sign(self.text, position))
            self._restore(self.depth)


def _without_consequences(faults: list[Fault], of_layout: list[Fault]) -> list[Fault]:
    """All faults, but those that only follow from a bracket that is never closed, or from a fault that says so."""
    strings = [fault for fault in faults if fault.code == "0105"]
    brackets = [fault for fault in of_layout if not any(_takes(string, fault) for string in strings)]
    spans = [(fault.start, fault.others[0][0]) for fault in of_layout if fault.code == "0102" and fault.others and fault.message[1] in "(["]
    causes: list[Fault] = []
    for fault in sorted(faults, key=lambda fault: fault.start):
        follows = any(earlier.start <= fault.start <= earlier.hides for earlier in causes)
        if not follows and (fault.hides or not any(start < fault.start <= end for start, end in spans)):
            causes.append(fault)
    return [*brackets, *causes]


def _takes(string: Fault, bracket: Fault) -> bool:
    """Whether a string that is never closed took the bracket, or the one that closes it."""
    if bracket.code != "0102" or not bracket.others or bracket.start > string.start:
        return string.start < bracket.start <= string.hides
    return bracket.others[0][1] >= string.start
