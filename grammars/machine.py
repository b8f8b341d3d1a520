"""The LALR(1) machine: runs Lark's tables over the tokens of the layout filter, building nodes as rules complete.

The lexer is contextual: the state decides which spellings are looked for. After a syntax error the machine goes back to
the beginning of the statement and on at the next one of the same block, so that one run finds all faults."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

from grammars.comments import explained
from grammars.expected import describe_error
from grammars.faults import Fault, Token
from grammars.layout import Layout
from grammars.lexicon import Lexicon
from grammars.scan import mask
from grammars.signs import fault_of_sign
from grammars.slips import LINE_ENDS, Stop
from grammars.words import Words, kinds
from runtime.records import field, frozen
from runtime.uncollected import uncollected

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


_UNIT, _OF_ONE, _OF_ALL, _OF_SOME, _PASSED, _GROWN, GENERAL = range(7)
Reduction = tuple[int, int, str, Any, Any]
"""How a rule is reduced: a way, its length, its origin, its action, and which of its values count: for `_OF_SOME` a function that
picks them, for `_PASSED` the index of the one, for `_GROWN` the entries of `keep` behind the first, for `GENERAL` the rule."""


class States(dict[int, dict[str, int]]):
    """The entries of each state by kind, read out of the text of its row, `kind entry kind entry ...`, when a parse first comes there."""

    def __init__(self, kinds: Sequence[str], rows: Sequence[str]) -> None:
        self.kinds, self.rows = kinds, rows

    def __missing__(self, state: int) -> dict[str, int]:
        numbers = [*map(int, self.rows[state].split())]
        entries = self[state] = dict(zip(map(self.kinds.__getitem__, numbers[::2]), numbers[1::2], strict=True))
        return entries


@frozen(eq=False)
class Tables:
    """Everything the machine needs of a grammar. In `states` an entry is the state to go to, or `-1 - rule`. A scanner matches a token
    and the blanks behind it: the last group is the token, whose name is its kind; `signs` has those that are one spelling each."""

    scanner: re.Pattern[str]
    scanner_after_dot: re.Pattern[str]
    signs: dict[str, str]
    states: "States"
    rules: list[Rule]
    starts: dict[str, int]
    ends: dict[str, int]
    terminals: frozenset[str]
    before_int: frozenset[int]
    """The states in which a whole number may stand as such."""
    lexicon: Lexicon | None = None
    """Of a grammar without layout."""
    climbs: dict[tuple[int, str, str], int] = field(factory=dict)
    """The state that a rule leads to from a state with a token that follows, behind all unit rules it then calls for: found once."""
    _reductions: dict[type, list[Reduction]] = field(factory=dict)

    @cached_property
    def units(self) -> list[str | None]:
        """The origin of each rule that only passes one value on; None for any other. A start rule ends the parse, so it is none."""
        return [
            rule.origin if rule.unwrap and rule.length == 1 and not rule.absent and rule.origin not in self.starts else None
            for rule in self.rules
        ]

    def reductions_of(self, actions: type) -> list[Reduction]:
        """How the rules are reduced with a class of actions: `[-1 - rule]`, as `states` has it."""
        if actions not in self._reductions:
            self._reductions[actions] = self.reductions([getattr(actions, rule.action) if rule.action else None for rule in self.rules])
        return self._reductions[actions]

    def reductions(self, methods: Sequence[Any]) -> list[Reduction]:
        """How the rules are reduced with the action of each; None for a helper rule."""
        return [self._reduction(*each) for each in zip(self.rules, self.units, methods, strict=True)][::-1]

    def _reduction(self, rule: Rule, unit: str | None, method: Any) -> Reduction:
        way, picks = _way(rule, unit, method)
        return way, rule.length, rule.origin, method, picks


def _way(rule: Rule, unit: str | None, method: Any) -> tuple[int, Any]:
    if unit is not None:
        return _UNIT, None
    if rule.absent or not rule.length:
        return GENERAL, rule
    indices, spliced = [index for index, _ in rule.keep], [spliced for _, spliced in rule.keep]
    if method is None:
        if rule.keep and rule.unwrap:
            return _PASSED, indices[0]
        return (_GROWN, rule.keep[1:]) if spliced[:1] == [True] and indices[0] == 0 else (GENERAL, rule)
    if any(spliced):
        return GENERAL, rule
    if indices == list(range(rule.length)):
        return (_OF_ONE, None) if rule.length == 1 else (_OF_ALL, None)
    return _OF_SOME, _picking(indices)


def _picking(indices: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that picks some values of a list."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return itemgetter(slice(indices[0], indices[0] + 1) if indices else slice(0, 0))


@frozen
class _Snapshot:
    states: list[int]
    values: list[Any]
    starts: list[int]
    end: int


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
        self.reductions, self.climbs = tables.reductions_of(type(actions)), tables.climbs
        self.end_state = tables.ends[start]
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        self.starts: list[int] = []
        self.end = 0
        self.depth = 0
        self.skipping: int | None = None
        self.previous = Token("", "", 0, 0)
        self.snapshots = {0: self._snapshot()}

    def run(self) -> Any:
        """The value of the start rule, or None when there are faults (`self.faults`) that leave none."""
        with uncollected():
            return self._run()

    def _run(self) -> Any:
        position, text, layout = 0, self.masked, self.layout
        if any(fault.code == "0108" for fault in self.faults):
            return None
        length, signs = len(text), self.tables.signs
        plain, after_dot, before_int = self.tables.scanner.match, self.tables.scanner_after_dot.match, self.tables.before_int
        while position < length and len(self.faults) < MAX_FAULTS and not layout.too_deep:
            match = (after_dot if self.states[-1] in before_int and self.skipping is None else plain)(text, position)
            if match is None:
                self._unknown_character(position)
                position += 1
                continue
            assert match.lastindex is not None
            kind, end = match.lastgroup or signs[match[match.lastindex]], match.end(match.lastindex)
            if kind != "WHITESPACE":
                self._take(layout.push(kind, position, end))
            position = match.end()
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
        table, reductions, states, values = self.tables.states, self.reductions, self.states, self.values
        starts, climbs, actions = self.starts, self.climbs, self.actions
        kind, end = token.kind, self.end  # All that is on the stack ends where the last token did.
        while True:
            action = table[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                values.append(token)
                starts.append(token.start)
                self.end = token.end
                return True
            way, length, origin, method, picks = reductions[action]
            if way == _OF_ONE:
                states.pop()
                values[-1] = method(actions, starts[-1], end, values[-1])
            elif way == _UNIT:
                states.pop()
            elif not length:
                starts.append(end)
                values.append(self._value(picks, method, [], end, end))
            else:
                taken = values[-length:]
                start = starts[-length]
                del states[-length:], values[-length:], starts[-length:]
                if way == _OF_SOME:
                    values.append(method(actions, start, end, *picks(taken)))
                elif way == _OF_ALL:
                    values.append(method(actions, start, end, *taken))
                elif way == _GROWN:  # A list that grows to the right keeps growing in place.
                    series = taken[0]
                    for index, spliced in picks:
                        if spliced:
                            series += taken[index]
                        else:
                            series.append(taken[index])
                    values.append(series)
                elif way == _PASSED:
                    values.append(taken[picks])
                else:
                    values.append(self._value(picks, method, taken, start, end))
                starts.append(start)
            below = states[-1]
            reached = climbs.get((below, origin, kind))
            if reached is None:
                reached = self._climbed(below, origin, kind)
            states.append(reached)
            if reached == self.end_state and kind == "$END":
                return True

    def _climbed(self, below: int, origin: str, kind: str) -> int:
        """The state after a rule and all unit rules that a token then calls for, one after the other."""
        table, units = self.tables.states, self.tables.units
        state = table[below][origin]
        while (action := table[state].get(kind)) is not None and action < 0 and (unit := units[-1 - action]) is not None:
            state = table[below][unit]
        self.climbs[below, origin, kind] = state
        return state

    def _value(self, rule: Rule, method: Any, taken: list[Any], start: int, end: int) -> Any:
        values: list[Any] = []
        if rule.absent:
            for (index, spliced), absent in zip(rule.keep, rule.absent, strict=False):
                values += (None,) * absent
                values += taken[index] if spliced else (taken[index],)
            values += (None,) * rule.absent[-1]
        else:
            for index, spliced in rule.keep:
                values += taken[index] if spliced else (taken[index],)
        return values if method is None else method(self.actions, start, end, *values)

    # ---- errors -----------------------------------------------------------------------------------------------------------

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(self.states[:], self.values[:], self.starts[:], self.end)

    def _return_to(self, saved: _Snapshot) -> None:
        self.states, self.values, self.starts, self.end = saved.states[:], saved.values[:], saved.starts[:], saved.end

    def _restore(self, depth: int) -> None:
        """Back to the beginning of the statement that was being read in the block at `depth`; what follows is skipped."""
        while depth not in self.snapshots:
            depth -= 1
        self._return_to(self.snapshots[depth])
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
