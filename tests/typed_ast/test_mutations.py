"""The checker on broken programs: whatever parses is checked without an exception, and what comes out can be shown and saved."""

import random
import re
from pathlib import Path

from compiler.diagnostics import ZyntaxError, render
from compiler.source import Source, Sources
from compiler.typed_ast.check import check
from compiler.typed_ast.json import from_json, to_json
from tests.typed_ast.checking import PATH, zynml_library
from zynml.parse import parse_source

_CASE = re.compile(r"^```zynml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
PAGES = [*Path(__file__).parent.glob("*.md"), *(Path(__file__).parents[1] / "errors").glob("*.md")]


def test_no_mutation_of_a_program_breaks_the_checker() -> None:
    texts = [text for page in sorted(PAGES) for text in _CASE.findall(page.read_text(encoding="utf-8")) if len(text) < 1000]
    tokens = [token for text in texts for token in _TOKEN.findall(text)]
    choose = random.Random(7)
    parsed = 0
    for _ in range(800):
        text = _mutated(choose, choose.choice(texts), tokens)
        source = Source(PATH, text)
        try:
            program = parse_source(source)
        except ZyntaxError:
            continue
        parsed += 1
        found = check(program, zynml_library())
        for diagnostic in found.diagnostics.sorted:
            assert render(diagnostic, Sources(source))
        assert from_json(to_json(found.program)) == found.program, text
    assert parsed > 50


def _mutated(choose: random.Random, text: str, tokens: list[str]) -> str:
    own = _TOKEN.findall(text)
    for _ in range(choose.randint(1, 3)):
        place = choose.randrange(len(own))
        match choose.randrange(3):
            case 0:
                own[place] = choose.choice(tokens)
            case 1:
                own.insert(place, choose.choice(tokens))
            case _:
                own[place] = ""
    return "".join(own)
