"""The machine for grammars without layout. After a syntax error it goes on behind the next end of a line (or `;`), in the state that it had
behind the one before, so that one run finds all faults."""

from collections.abc import Mapping
from typing import Any

from grammars.faults import Fault, Token
from grammars.lexicon import Lexicon
from grammars.machine import MAX_FAULTS, Machine, Tables

MAX_DEPTH = 2000
"""Of what is open: passes over the tree recurse over it."""
_USUAL = {
    "NAME": "a name",
    "CNAME": "a name",
    "WORD": "a word",
    "IDENTIFIER": "a name",
    "NUMBER": "a number",
    "SIGNED_NUMBER": "a number",
    "INT": "a whole number",
    "SIGNED_INT": "a whole number",
    "FLOAT": "a number",
    "SIGNED_FLOAT": "a number",
    "STRING": "a text in quotes",
    "ESCAPED_STRING": "a text in quotes",
    "$END": "the end of the file",
}
"""What terminals are in words, where their language doesn't say it."""


class PlainMachine(Machine):
    """One parse. `methods` are the actions of the rules of `tables`, None for helper rules; `names`: terminals in words."""

    def __init__(self, tables: Tables, methods: list[Any], actions: object, text: str, start: str, names: Mapping[str, str]) -> None:
        assert tables.lexicon is not None
        self.tables, self.text, self.start = tables, text, start
        self.lexicon: Lexicon = tables.lexicon
        self.actions, self.reductions, self.climbs = actions, tables.reductions(methods), tables.climbs
        self.names = names
        self.faults: list[Fault] = []
        self.end_state = tables.ends[start]
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        self.starts: list[int] = []
        self.end = 0
        self.previous = Token("", "", 0, 0)
        self.safe = self._snapshot()
        self._expected: dict[int, frozenset[str]] = {}

    def _run(self) -> Any:
        text, position = self.text, 0
        length = len(text)
        skipping = False
        while position < length and len(self.faults) < MAX_FAULTS:
            found = self.lexicon.match(text, position, self.lexicon.all if skipping else self._here())
            if found is None and not skipping:
                found = self.lexicon.match(text, position, self.lexicon.all)
            if found is None or found[1] == position:
                if not skipping:
                    self.faults.append(_unknown(text[position], position))
                    self._back()
                    skipping = True
                position += 1
                continue
            kind, end = found
            token = Token(kind, text[position:end], position, end)
            position = end
            if kind in self.lexicon.ignored:
                continue
            if skipping:
                skipping = kind not in self.lexicon.ends
            elif not self._feed(token):
                self._report(token)
                self._back()
                skipping = kind not in self.lexicon.ends
            elif len(self.states) > MAX_DEPTH:
                hint = "write it in several statements"
                self.faults.append(Fault("0108", f"nested too deep: over {MAX_DEPTH:,} symbols are open", token.start, end, hint=hint))
                return None
            else:
                self.previous = token
                if kind in self.lexicon.ends:
                    self.safe = self._snapshot()
        end_token = Token("$END", "", length, length)
        if skipping or not self._feed(end_token):
            if not self.faults:
                self._report(end_token)
            return None
        return self.values[-1]

    def _here(self) -> frozenset[str]:
        """The kinds that the state has an entry for."""
        state = self.states[-1]
        if state not in self._expected:
            self._expected[state] = frozenset(self.tables.states[state]) & self.tables.terminals
        return self._expected[state]

    def _back(self) -> None:
        """To the state behind the last end of a statement."""
        self._return_to(self.safe)

    def _report(self, token: Token) -> None:
        previous = self.previous
        expected = sorted({self._word(kind) for kind in self.tables.terminals if self._accepts(kind)}, key=_literals_last)
        words = expected[0] if len(expected) == 1 else f"{', '.join(expected[:-1])} or {expected[-1]}"
        on_line = previous.text and previous.kind not in self.lexicon.ends
        after = f" after `{previous.text}`" if on_line and len(previous.text) <= 40 else " here" if on_line else ""
        start, end, label = token.start, token.end, ""
        if token.kind == "$END" or (token.kind in self.lexicon.ends and "\n" in token.text):
            start = previous.end if on_line else token.start
            end, label = start + 1, "the file ends here" if token.kind == "$END" else "the line ends here"
        elif token.kind in self.lexicon.words and token.text in self.lexicon.words[token.kind]:
            label = f"`{token.text}` is a word of the language"
        self.faults.append(Fault("0101", f"expected {words}{after}", start, max(end, start + 1), label))

    def _word(self, kind: str) -> str:
        if kind in self.names:
            return self.names[kind]
        if kind in self.lexicon.literals:
            return f"`{self.lexicon.literals[kind]}`"
        if kind in self.lexicon.ends:
            return "the end of the line"
        name = kind.strip("_").lower().replace("_", " ")
        return _USUAL.get(kind, f"{'an' if name[:1] in 'aeiou' else 'a'} {name}")


def _unknown(character: str, position: int) -> Fault:
    shown = f"`{character}`" if character.isprintable() and not character.isspace() else f"the character U+{ord(character):04X}"
    return Fault("0101", f"{shown} has no meaning here", position, position + 1)


def _literals_last(word: str) -> tuple[bool, bool, str]:
    return word.startswith("the end"), word.startswith("`"), word
