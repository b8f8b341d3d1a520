"""`zyntax.ast`, `zyntax.diagnostics`, `zyntax.testing` and `zyntax.compile`: what tools and authors import."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import zyntax
from compiler.diagnostics import ZyntaxError
from tests.language_api.conftest import ACTIONS, GRAMMAR, Install
from zyntax import ast, diagnostics
from zyntax.language import Token, build
from zyntax.testing import check_language

# ---- zyntax.ast -----------------------------------------------------------------------------------------------------------


def test_every_node_and_type_has_its_name_there() -> None:
    from compiler.typed_ast import nodes, types

    for module in (nodes, types):
        names = [name for name, cls in vars(module).items() if isinstance(cls, type) and cls.__module__.startswith(module.__name__)]
        assert names and all(getattr(ast, name) is getattr(module, name) for name in names)


def test_a_tree_goes_through_json() -> None:
    tree = ast.parse("let x = 1 + 2\nprintln(x)\n")
    data = json.loads(ast.to_json(tree))
    assert (data["schema"], data["is"]) == (1, "Program")
    assert ast.from_json(ast.to_json(tree)) == tree
    del data["schema"]
    assert ast.from_json(json.dumps(data)) == tree, "what `zyntax compile --emit ast` writes"
    with pytest.raises(ValueError, match="a tree of schema 2, and this zyntax reads 1"):
        ast.from_json(json.dumps({"schema": 2, **data}))


def test_trees_of_quantdsl_go_through_json() -> None:
    tree = ast.parse("currency USD { scale 2 }\n", language="quantdsl")
    assert ast.from_json(ast.to_json(tree)) == tree


def test_walk_and_rebuild() -> None:
    tree = ast.parse("let x = 1 + 2\nlet y = f(3)\n")
    assert [node.value for node in ast.walk(tree) if isinstance(node, ast.IntLiteral)] == [1, 2, 3]

    def doubled(node: ast.Node) -> Any:
        return ast.IntLiteral(value=node.value * 2, span=node.span) if isinstance(node, ast.IntLiteral) and node.value < 3 else None

    changed = ast.rebuild(tree, doubled)
    assert [node.value for node in ast.walk(changed) if isinstance(node, ast.IntLiteral)] == [2, 4, 3]
    assert changed.statements[1] is tree.statements[1], "what has not changed is shared"
    assert ast.rebuild(tree, lambda node: None) is tree


# ---- zyntax.diagnostics -----------------------------------------------------------------------------------------------------


def test_sarif_has_places_codes_and_hints() -> None:
    found, sources = diagnostics.check("let value = 1\nprintln(valeu)\nfn f() { }\nfn f() { }\n")
    log = diagnostics.to_sarif(found, sources)
    run = log["runs"][0]
    assert (log["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "zyntax")
    unknown = next(result for result in run["results"] if result["ruleId"] == "ZYN0201")
    assert unknown["level"] == "error" and unknown["message"]["text"] == "`valeu` is not defined\nhint: did you mean `value`?"
    place = unknown["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "<program>"
    assert place["region"] == {"startLine": 2, "startColumn": 9, "endLine": 2, "endColumn": 14}
    titles = {rule["id"]: rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]}
    assert titles.keys() == {result["ruleId"] for result in run["results"]} and all(titles.values())
    again = next(result for result in run["results"] if "relatedLocations" in result)
    assert again["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 3
    json.dumps(log)


def test_a_program_without_faults_has_an_empty_log() -> None:
    found, sources = diagnostics.check("println(1)\n")
    assert found == () and diagnostics.to_sarif(found, sources)["runs"][0]["results"] == []


# ---- zyntax.language.build --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"), [('"a b"', "a b"), ("'it'", "it"), (r'"a\n\"b\u0041\x42"', 'a\n"bAB'), ("plain", "plain"), ('"', '"'), ('""', "")]
)
def test_texts(text: str, value: str) -> None:
    assert build.text(Token(text)).value == value  # type: ignore[attr-defined]


def test_a_string_of_pythons_is_the_text_itself() -> None:
    assert build.text('"a"').value == '"a"'  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("number", "dtype", "written"),
    [("12", None, "12"), ("1_000", "f32", "1000.0f32"), ("0x1F", "u8", "31u8"), ("-3", "i8", "-3i8"), ("-3", None, "-(3)"), ("-2.5", "f32", "-(2.5f32)"), (".5e1", None, "5.0"), (7, None, "7"), (-0.5, None, "-(0.5)"), ("+4", None, "4")],
)  # fmt: skip
def test_numbers(number: Any, dtype: str | None, written: str) -> None:
    def shown(node: Any) -> str:
        return f"-({shown(node.operand)})" if isinstance(node, ast.Unary) else f"{node.value}{node.suffix or ''}"

    assert shown(build.number(Token(number) if isinstance(number, str) else number, dtype)) == written


def test_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="'a1' is no number"):
        build.number(Token("a1"))


def test_a_call_stands_where_its_parts_stand() -> None:
    name, given = Token("f", "NAME", ast.Span("p", 4, 5)), Token("x", "NAME", ast.Span("p", 9, 10))
    assert build.call(name, given).span == ast.Span("p", 4, 10)
    assert build.call("f", given).span == ast.Span("p", 9, 10)


def test_tokens_survive_pickling() -> None:
    token = pickle.loads(pickle.dumps(Token("f", "NAME", ast.Span("p", 4, 5))))
    assert (token, token.kind, token.span) == ("f", "NAME", ast.Span("p", 4, 5))


# ---- zyntax.compile ---------------------------------------------------------------------------------------------------------


def test_a_text_is_zynml_unless_its_language_is_named(tmp_path: Path) -> None:
    assert zyntax.compile("def twice(x: int): int { x * 2 }\n").twice(4) == 8
    assert "strategy" in repr(zyntax.compile(STRATEGY, language="quantdsl"))
    path = tmp_path / "p.zynml"
    path.write_text("def one(): int { 1 }\n", encoding="utf-8")
    assert zyntax.compile(path).one() == zyntax.compile(str(path)).one() == 1
    with pytest.raises(ZyntaxError, match="there is no language `zynnml`"):
        zyntax.compile("1", language="zynnml")


STRATEGY = """currency USD { scale 2 }
instrument A : USD { tick 0.01  lot 1  fee maker 0bps taker 0bps }
risk R for A { max_position 10lots  price_collar 100bps of last  rate 5 per 1s  max_loss 50 USD -> kill }
strategy S on A {
  risk R
  on trade(t) { }
}
"""


# ---- zyntax.testing ---------------------------------------------------------------------------------------------------------


class Checked:
    """The problems of a language of sums with these files."""

    def __init__(self, install: Install, folder: Path) -> None:
        self.install, self.folder = install, folder / "programs"
        self.folder.mkdir()

    def __call__(self, programs: dict[str, str], *, more: str = "", options: str = "", grammar: str = GRAMMAR, **files: str) -> list[str]:
        folder = self.install("calc", "clc = calc:language", ACTIONS.format(more=more, options=options))
        for name, text in {"calc.lark": grammar, **{name.replace("_", "."): text for name, text in files.items()}}.items():
            (folder / name).write_text(text, encoding="utf-8")
        for name, text in programs.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        from compiler.languages import language_named

        return check_language(language_named("calc"), self.folder)  # type: ignore[arg-type]


@pytest.fixture
def checked(install: Install, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(cache))
    monkeypatch.chdir(tmp_path)
    return Checked(install, tmp_path)


HASH = ', comment="#"'


def test_a_language_without_faults(checked: Checked) -> None:
    programs = {"a.clc": "# prints: 3\nshow 1 + 2\n", "b.clc": "# fails: ZYN0201\nshow x\n", "c.clc": "# fails: ZYN0101\nshow\n"}
    assert checked(programs, options=HASH) == []


def test_programs_that_do_not_do_what_they_state(checked: Checked) -> None:
    programs = {"a.clc": "# prints: 4\nshow 1 + 2\n", "b.clc": "# fails: ZYN0201\nshow 1\n", "c.clc": "show x\n"}
    found = checked(programs, options=HASH)
    assert found[:2] == [
        f"{checked.folder / 'a.clc'}: line 1 is `3`, expected `4`",
        f"{checked.folder / 'b.clc'}: it should fail with ZYN0201, and ran to its end",
    ]
    assert found[2].startswith(f"{checked.folder / 'c.clc'}: error[ZYN0201]: `x` is not defined\n")


def test_a_folder_without_programs(checked: Checked) -> None:
    assert checked({}) == [f"{checked.folder} has no programs, whose names end in `.clc`"]


def test_conflicts_of_a_grammar(checked: Checked) -> None:
    grammar = GRAMMAR.replace("?value: atom | value", "?value: atom | value value -> sum | value")
    (first, *_) = checked({"a.clc": "show 1\n"}, grammar=grammar)
    assert first == "calc.lark: `value : value value` could end before `LPAR`, `NAME`, `NUMBER`, `PLUS`, and goes on"


def test_an_alias_without_an_action(checked: Checked) -> None:
    (found,) = checked({"a.clc": "show 1\n"}, grammar=GRAMMAR.replace("-> sum", "-> total"))
    assert found.splitlines()[0] == "error[ZYN0110]: the language `calc` has no action for `total`"


def test_faults_of_kernels(checked: Checked) -> None:
    (found,) = checked({"a.clc": "show 1\n"}, options=', kernels="kernels.zynml"', kernels_zynml="def f(x: int): int { y }\n")
    assert found.startswith("error[ZYN0201]: `y` is not defined\n --> site-calc/kernels.zynml:1:22")


def test_codes_that_cannot_be_read(checked: Checked) -> None:
    (found,) = checked({"a.clc": "show 1\n"}, options=', codes="codes.toml"', codes_toml='[CLC1]\ntitle = "a"\ntext = "b"\n')
    assert found.startswith("error[ZYN0110]: the codes of `calc` can't be read: `CLC1` is no code: it is letters of the language's own")


def test_a_node_that_stands_elsewhere(checked: Checked) -> None:
    more = """
    def name(self, token):
        from zyntax.ast import Name, Span
        return Name(name=str(token), span=Span("elsewhere", 5, 9))
"""
    found = checked({"a.clc": "put a = 1\nshow a\n"}, more=more)
    assert found[0] == f"{checked.folder / 'a.clc'}: `Argument` doesn't stand in the text: its place is elsewhere, characters 5 to 9"


def test_results_of_a_language_from_python(checked: Checked, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked({"a.clc": "show 1\n"}) == []
    program = zyntax.compile(checked.folder / "a.clc")
    program.run()
    pickle.loads(pickle.dumps(program)).run()
    assert capsys.readouterr().out == "1\n1\n"
