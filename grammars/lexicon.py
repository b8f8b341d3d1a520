"""The terminals of a grammar without layout, and which of them are looked for in a state of the parser, as Lark's contextual lexer does it:
a terminal that can't stand there is no terminal, so a word may be a name elsewhere."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.records import Factory, frozen


@frozen(eq=False)
class Lexicon:
    """`patterns` by name, the first that matches counts. `literals` are those that are one spelling. `words`, of a pattern: the literals
    among what it matches, by spelling. `ignored`: what no rule takes; `ends`: what ends a statement wherever it stands, a line's end or
    `;`."""

    patterns: Mapping[str, str]
    literals: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]
    ignored: frozenset[str]
    ends: frozenset[str]
    _scanners: dict[frozenset[str], re.Pattern[str]] = Factory(dict)

    @classmethod
    def of(cls, spellings: Iterable[tuple[str, str]], data: Mapping[str, Any]) -> "Lexicon":
        """From what `spelled` gave."""
        return cls(dict(spellings), data["literals"], data["words"], frozenset(data["ignored"]), frozenset(data["ends"]))

    def match(self, text: str, position: int, kinds: frozenset[str]) -> tuple[str, int] | None:
        """Kind and end of the token at a position, of those that may stand there or are ignored."""
        found = self._scanner(kinds).match(text, position)
        if found is None or found.lastgroup is None:
            return None
        kind = self.words.get(found.lastgroup, {}).get(found.group(), found.lastgroup)
        return (kind if kind in kinds or kind in self.ignored else found.lastgroup), found.end()

    def _scanner(self, kinds: frozenset[str]) -> re.Pattern[str]:
        if kinds not in self._scanners:
            wanted = kinds | self.ignored
            inside = {name for pattern in wanted & self.words.keys() for name in self.words[pattern].values()}
            names = [name for name in self.patterns if name in wanted and name not in inside]
            self._scanners[kinds] = re.compile("|".join(f"(?P<{name}>{self.patterns[name]})" for name in names) or r"(?!)")
        return self._scanners[kinds]

    @property
    def all(self) -> frozenset[str]:
        return frozenset(self.patterns)


def spelled(lexer: Any) -> dict[str, Any]:
    """What Lark's lexer knows of its terminals beside their patterns, as plain data."""
    literals = {terminal.name: terminal.pattern.value for terminal in lexer.terminals if terminal.pattern.type == "str"}
    words: dict[str, dict[str, str]] = {}
    for terminal in lexer.terminals:
        if terminal.name in literals:
            continue
        pattern = re.compile(terminal.pattern.to_regexp())
        found = {
            text: name
            for name, text in literals.items()
            if (whole := pattern.match(text)) is not None and whole.group() == text and _priority(lexer, name) == terminal.priority
        }
        if found:
            words[terminal.name] = found
    ignored = sorted(lexer.ignore_types)
    ends = [
        terminal.name
        for terminal in lexer.terminals
        if terminal.name not in ignored
        and (literals.get(terminal.name) == ";" or re.fullmatch(terminal.pattern.to_regexp(), "\n") is not None)
    ]
    return {"literals": literals, "words": words, "ignored": ignored, "ends": ends}


def _priority(lexer: Any, name: str) -> int:
    return int(next(terminal.priority for terminal in lexer.terminals if terminal.name == name))
