"""The programs on QuantDSL's pages are correct, and what it calls refused is refused."""

import pytest

from tests.docs.examples import ROOT, Example, examples
from tests.errors.conftest import diagnose

PAGES = ("quantdsl", "critical_paths")
PROGRAMS = [example for page in PAGES for example in examples(ROOT / "docs" / f"{page}.md") if example.language == "quantdsl"]
MARKET = "currency C { scale 2 }\ninstrument A : C { tick 1 lot 1 }\ninstrument B : C { tick 1 lot 1 }\n"
REFUSED = {
    "several instruments": MARKET + "strategy S on A, B { }",
    "types inside strategies": MARKET + "strategy S on A { struct P { x: int } }",
    "modules": "use desk.limits",
    "functions without a name": "fn f() { let g = (x) => x }",
    "dicts": 'fn f() { let d = {"a": 1} }',
    "comprehensions": "fn f(r: ring<int, 3>) { let d = [x for x in r] }",
    "try": "fn f() { try { } catch _ { } }",
    "await": "fn f(x: int) { let y = await x }",
    "slices": "fn f(r: [int; 3]) { let d = r[0:1] }",
}


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda example: example.name)
def test_programs_are_correct(example: Example) -> None:
    assert diagnose(example.text, language="quantdsl") == ""


@pytest.mark.parametrize("feature", REFUSED)
def test_what_is_refused(feature: str) -> None:
    message = diagnose(REFUSED[feature] + "\n", language="quantdsl")
    assert message.startswith("error[ZYN0109]: ") and "hint: " in message and message.count("error[") == 1
