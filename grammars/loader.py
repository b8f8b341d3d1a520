"""Grammars as tables: Lark makes the LALR(1) tables from the `.lark` files, JSON keeps them.

Tables lie beside this file in `tables/` (made by `python -m grammars.loader`, shipped in the wheel), or in the user's
cache folder; either is used only when its key, a hash of the grammar, is right. Lark is only needed to make them."""

import json
import os
import re
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from grammars.grammar import Grammar
from grammars.lexicon import Lexicon, spelled
from grammars.machine import Rule, States, Tables
from runtime.cache.digest import sha256
from runtime.entry_points import LANGUAGES, OWN, entry_points

_FOLDER = Path(__file__).parent
_SHIPPED = _FOLDER / "tables"
_FORMAT = 3
# Words of the layout filter are dropped from what actions get, except where they say which operator stands there.
_OPERATOR_RULES = ("binary", "unary", "_compare", "operator")
_CONTEXTUAL = "INT"


@cache
def load(grammar: Grammar) -> Tables:
    """The tables of a grammar, from the package, the user's cache, or made anew (and then kept)."""
    key = _key(grammar)
    tables = _read(_SHIPPED / f"{grammar.name}.json", key)
    if tables is not None:
        return tables
    user = _user_cache() / f"{grammar.name}-{key[:16]}.json"
    tables = _read(user, key)
    if tables is not None:
        return tables
    data = build(grammar)
    _write(user, data)
    return _tables(data)


def conflicts(grammar: Grammar) -> list[tuple[str, str]]:
    """The shift/reduce conflicts of a grammar, which Lark resolves as shift: (terminal, rule that could have ended)."""
    import logging

    from lark import logger

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    others, logger.handlers = logger.handlers, [handler]
    logger.setLevel(logging.DEBUG)
    try:
        _lark(grammar, debug=True)
    finally:
        logger.handlers = others
        logger.setLevel(level)
    terminals = [match[1] for line in lines if (match := re.match(r"Shift/Reduce conflict for terminal (\w+)", line))]
    # Names of helper rules are numbered by where they come up first.
    rules = [re.sub(r"_(\d+)\b", "", line.removeprefix(" * ").strip("<>")) for line in lines if line.startswith(" * ")]
    return list(zip(terminals, rules, strict=True))


def _lark(grammar: Grammar, debug: bool = False) -> Any:
    from lark import Lark

    postlex = _AcceptAll() if grammar.layout else None
    return Lark(
        grammar.text,
        parser="lalr",
        lexer="contextual",
        start=list(grammar.starts),
        maybe_placeholders=True,
        postlex=postlex,
        debug=debug,
        source_path=str(grammar.files[-1]),
    )


def build(grammar: Grammar) -> dict[str, Any]:
    """The tables as plain data, made by Lark."""
    text = grammar.text
    lark = _lark(grammar)
    declared = set(re.findall(r"\b[A-Z][A-Z_]*\b", " ".join(re.findall(r"^%declare(.*)$", text, re.MULTILINE))))
    table = lark.parser.parser._parse_table
    order = _numbering(table)
    rules: dict[Any, int] = {}
    states: list[dict[str, int]] = []
    for state in order:
        entries: dict[str, int] = {}
        for kind, (_, argument) in sorted(table.states[state].items(), key=_kind):
            entries[kind] = order[argument] if isinstance(argument, int) else -1 - rules.setdefault(argument, len(rules))
        states.append(entries)
    lexer = _root_lexer(lark)
    kinds = sorted({kind for state in states for kind in state})
    number = {kind: position for position, kind in enumerate(kinds)}
    written = ";".join(" ".join(f"{number[kind]} {entry}" for kind, entry in state.items()) for state in states)
    origins = {rule.origin.name for rule in rules}
    return {
        "key": _key(grammar),
        "lexicon": None if grammar.layout else spelled(lexer),
        "terminals": [[terminal.name, terminal.pattern.to_regexp()] for terminal in lexer.terminals],
        "rules": [_rule(rule, declared) for rule in rules],
        "kinds": kinds,
        "states": written,
        "sum": zlib.crc32(written.encode()),
        "before_int": [position for position, state in enumerate(states) if "INT" in state],
        "not_terminals": sorted(origins),
        "starts": {start: order[state] for start, state in sorted(table.start_states.items())},
        "ends": {start: order[state] for start, state in sorted(table.end_states.items())},
    }


def _numbering(table: Any) -> dict[int, int]:
    """The states in the order in which a walk from the starts meets them: Lark's own numbers differ from run to run."""
    waiting = [state for _, state in sorted(table.start_states.items())]
    order: dict[int, int] = {}
    for state in waiting:  # It grows while it is walked.
        if state not in order:
            order[state] = len(order)
            waiting += [argument for _, (_, argument) in sorted(table.states[state].items(), key=_kind) if isinstance(argument, int)]
    return order


def _kind(entry: tuple[str, object]) -> str:
    return entry[0]


class _AcceptAll:
    """Stands for the layout filter while Lark makes the tables; the machine runs the real one."""

    always_accept = ("NEWLINE", "NAME", "QUESTION")

    def process(self, stream: Any) -> Any:
        return stream


def _root_lexer(lark: Any) -> Any:
    lexer = lark.parser.lexer
    return getattr(lexer, "lexer", lexer).root_lexer


def _rule(rule: Any, declared: set[str]) -> list[Any]:
    """[origin, length, action, unwrap, keep, absent], as in `machine.Rule`."""
    origin = rule.origin.name
    name = rule.alias or origin
    words_matter = name in _OPERATOR_RULES
    empty = list(rule.options.empty_indices or ())
    gaps = (
        [len(ones) for ones in "".join("1" if absent else "0" for absent in empty).split("0")] if empty else [0] * (len(rule.expansion) + 1)
    )
    keep, absent, nones = [], [], 0
    for index, symbol in enumerate(rule.expansion):
        nones += gaps[index]
        if symbol.is_term and (symbol.filter_out or (symbol.name in declared and not words_matter)):
            continue
        keep.append([index, not symbol.is_term and symbol.name.startswith("_")])
        absent.append(nones)
        nones = 0
    absent.append(nones + gaps[len(rule.expansion)])
    helper = origin.startswith("_")
    unwrap = bool(rule.options.expand1) and not rule.alias and len(keep) == 1 and not keep[0][1] and not any(absent)
    return [origin, len(rule.expansion), None if helper or unwrap else name, unwrap, keep, absent if any(absent) else []]


def _tables(data: dict[str, Any]) -> Tables:
    spellings = data["terminals"]
    rules = [
        Rule(origin, length, action, unwrap, tuple((index, spliced) for index, spliced in keep), tuple(absent))
        for origin, length, action, unwrap, keep, absent in data["rules"]
    ]
    if zlib.crc32(data["states"].encode()) != data["sum"]:
        raise ValueError("states that nobody wrote")
    kinds = [*map(sys.intern, data["kinds"])]
    return Tables(
        scanner=_scanner([spelling for spelling in spellings if spelling[0] != _CONTEXTUAL]),
        scanner_after_dot=_scanner(spellings),
        signs={sign: sys.intern(name) for name, pattern in spellings if (sign := _sign(pattern)) is not None},
        states=States(kinds, data["states"].split(";")),
        rules=rules,
        starts=data["starts"],
        ends=data["ends"],
        terminals=frozenset(kinds).difference(data["not_terminals"]),
        before_int=frozenset(data["before_int"]),
        lexicon=None if data["lexicon"] is None else Lexicon.of(spellings, data["lexicon"]),
    )


def _scanner(spellings: list[list[str]]) -> re.Pattern[str]:
    """As `Tables` says. Neighbours that are one spelling each share a group without a name, which is much faster than a group each."""
    groups: list[str] = []
    for are_signs, neighbours in groupby(spellings, key=lambda spelling: _sign(spelling[1]) is not None):
        if are_signs:
            groups.append(f"({'|'.join(pattern for _, pattern in neighbours)})")
        else:
            groups += [f"(?P<{name}>{pattern})" for name, pattern in neighbours]
    blanks = next((pattern for name, pattern in spellings if name == "WHITESPACE"), "")
    return re.compile(f"(?:{'|'.join(groups)})(?:{blanks})?")


def _sign(pattern: str) -> str | None:
    """The text that a pattern matches alone, if it is such a one."""
    text = re.sub(r"\\(\W)", r"\1", pattern)
    return text if re.escape(text) == pattern else None


def _key(grammar: Grammar) -> str:
    """Of all that tables depend on: one text has other tables for other starts, and with the layout filter."""
    return sha256(f"{_FORMAT} {grammar.starts} {grammar.layout} {grammar.text}".encode()).hexdigest()


def _read(path: Path, key: str) -> Tables | None:
    try:
        data = json.loads(path.read_bytes())
        return _tables(data) if data["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, re.error):
        return None  # Absent or damaged: made anew.


def _user_cache() -> Path:
    folder = os.environ.get("ZYNTAX_CACHE_DIR")
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("zyntax")
    return Path(folder) / "grammars"


def _write(path: Path, data: dict[str, Any]) -> None:
    """Write atomically; a folder that can't be written to only costs the next start its time. What killed writers of this file left goes;
    one that is alive and loses its file to that writes the same tables."""
    import tempfile

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{path.name}.*.part"):
            left.unlink(missing_ok=True)
        handle, temporary = tempfile.mkstemp(".part", f"{path.name}.", path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, separators=(",", ":"))
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def own_grammars() -> list[Grammar]:
    """Of the languages of this distribution."""
    languages = {entry.load(): None for entry in entry_points(LANGUAGES) if entry.distribution == OWN}
    return [language.grammar for language in languages]


def ship(grammars: Iterable[Grammar] | None = None) -> None:
    """Make the tables that the wheel carries."""
    for grammar in own_grammars() if grammars is None else grammars:
        _write(_SHIPPED / f"{grammar.name}.json", build(grammar))


if __name__ == "__main__":
    ship()
