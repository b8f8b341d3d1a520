"""What an author's grammar, actions and kernels become: programs that run, and messages that show the program's text and the author's line."""

from pathlib import Path

from tests.language_api.conftest import GRAMMAR, Calc

KERNELS = """
def twice(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = beside(x[i]) } }
def beside(v) { v + v }
def past(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i + 1] } }
def third(x: tensor[N]): tensor { x[2] }
"""
WITH_KERNELS = ', comment="#", kernels="kernels.zynml"'
KERNEL_ACTIONS = """
    def ones(self, count):
        return b.call("ones", b.number(count))

    def applied(self, what, value):
        return b.call(self.kernels[what], value)
"""
KERNEL_GRAMMAR = GRAMMAR.replace("| NAME -> name", '| NAME -> name\n     | "ones" NUMBER -> ones\n     | NAME "of" atom -> applied')


def with_kernels(calc: Calc, program: str, verb: str = "run", options: str = WITH_KERNELS) -> str:
    return calc(program, verb=verb, more=KERNEL_ACTIONS, options=options, grammar=KERNEL_GRAMMAR, files={"kernels.zynml": KERNELS})


def test_a_program_runs(calc: Calc) -> None:
    assert calc("put a = 1 + 2 # a comment\n\nshow a, (a + a) + 1.5\nput a = a + 1\nshow a") == "3 7.5\n4\n"


def test_names_of_programs_and_of_the_library_are_apart(calc: Calc) -> None:
    assert calc("put println = 4\nput pi = 1\nshow println, pi\nput sum = 2\nshow sum + println") == "4 1\n6\n"


def test_names_of_programs_hide_no_kernel(calc: Calc) -> None:
    assert with_kernels(calc, "put twice = ones 2\nput beside = twice of twice\nshow beside") == "tensor([2.0, 2.0], shape=[2], dtype=f32)\n"


def test_all_errors_of_a_file_are_found(calc: Calc) -> None:
    found = calc("put = 3\nshow 1 +\nshow 1 2\nput x 4\nshow ?\nshow (1\nshow x", verb="check")
    assert found == (
        "error[ZYN0101]: expected a name after `put`\n"
        " --> p.clc:1:5\n  |\n1 | put = 3\n  |     ^\n"
        "error[ZYN0101]: expected a name, a number or `(` after `+`\n"
        " --> p.clc:2:9\n  |\n2 | show 1 +\n  |         ^ the line ends here\n"
        "error[ZYN0101]: expected `+`, `,`, the end of the file or the end of the line after `1`\n"
        " --> p.clc:3:8\n  |\n3 | show 1 2\n  |        ^\n"
        "error[ZYN0101]: expected `=` after `x`\n"
        " --> p.clc:4:7\n  |\n4 | put x 4\n  |       ^\n"
        "error[ZYN0101]: `?` has no meaning here\n"
        " --> p.clc:5:6\n  |\n5 | show ?\n  |      ^\n"
        "error[ZYN0101]: expected `)` or `+` after `1`\n"
        " --> p.clc:6:8\n  |\n6 | show (1\n  |        ^ the line ends here\n"
    ).replace("\nerror", "\n\nerror")


def test_words_of_the_language_are_names_where_names_stand(calc: Calc) -> None:
    assert calc("put show = 2\nput put = show + 1\nshow put") == "3\n"


def test_errors_of_the_checker_stand_in_the_program(calc: Calc) -> None:
    assert calc("show a + 1\n", verb="check") == (
        "error[ZYN0201]: `a` is not defined\n --> p.clc:1:6\n  |\n1 | show a + 1\n  |      ^ not found\n"
    )


def test_a_slash_pair_is_no_suspect_comment(calc: Calc) -> None:
    assert calc("show 7 // 2\n", grammar=GRAMMAR.replace("#", "\\/\\/"), options="") == "7\n"


def test_an_actions_own_error_has_its_code(calc: Calc) -> None:
    more = """
    def name(self, token):
        return self.fault("CLC0301", f"`{token}` is too short", at=token, near=["abc", "x1"], label="this name")
"""
    found = calc("show a, ab1\nshow 1 +\n", verb="check", more=more)
    assert found == (
        "error[CLC0301]: `a` is too short\n --> p.clc:1:6\n  |\n1 | show a, ab1\n  |      ^ this name\n\n"
        "error[CLC0301]: `ab1` is too short\n --> p.clc:1:9\n  |\n1 | show a, ab1\n  |         ^^^ this name\nhint: did you mean `abc`?\n\n"
        "error[ZYN0101]: expected a name, a number or `(` after `+`\n --> p.clc:2:9\n  |\n2 | show 1 +\n  |         ^ the line ends here\n"
    )


def test_a_fault_in_an_action_shows_the_authors_line(calc: Calc, tmp_path: Path) -> None:
    more = "\n    def name(self, token):\n        return {}[str(token)]\n"
    found = calc("show 1\nshow abc\n", more=more)
    file = tmp_path / "site-calc" / "calc.py"
    line = next(number for number, text in enumerate(file.read_text().splitlines(), 1) if "{}[" in text)
    assert (found.code, str(found)) == (
        1,
        "error[ZYN0902]: a fault of the language `calc`: KeyError: 'abc'\n"
        " --> p.clc:2:6\n  |\n2 | show abc\n  |      ^^^ while `name` read this\n"
        f"note: raised at {file}:{line}, in `name`: return {{}}[str(token)]\n"
        "hint: this is a fault of the language `calc`, not of zyntax, and not of your program\n",
    )


def test_an_action_with_other_parameters_is_named(calc: Calc) -> None:
    found = calc("show abc\n", more="\n    def name(self):\n        return 1\n")
    assert "TypeError: Acts.name() takes 1 positional argument but 2 were given\n" in found
    assert "note: raised by the call of `Acts.name`, " in found and "calc.py:" in found


def test_an_action_that_gives_no_statement(calc: Calc) -> None:
    found = calc("show 1\n", more="\n    def show(self, value):\n        return 'text'\n")
    assert found.splitlines()[0] == "error[ZYN0902]: a fault of the language `calc`: a str stands where a statement is wanted: 'text'"


def test_an_alias_without_an_action(calc: Calc) -> None:
    assert calc("show 1\n", grammar=GRAMMAR.replace("-> sum", "-> total")) == (
        "error[ZYN0110]: the language `calc` has no action for `total`\nhint: each alias of its grammar is a method of `calc.Acts`\n"
    )


def test_an_ambiguous_grammar(calc: Calc) -> None:
    grammar = GRAMMAR.replace("| NAME -> name", "| NAME -> name\n     | NAME -> number")
    found = calc("show 1\n", grammar=grammar)
    assert found == (
        "error[ZYN0110]: the grammar of `calc` can't be used: Rules defined twice: "
        f"{found.partition('twice: ')[2].splitlines()[0]}\nnote: its file is {Path('site-calc/calc.lark').resolve()}\n"
    )
    found = calc("show 1\n", grammar=GRAMMAR.replace("| NAME -> name", "| word -> name\n     | other -> name") + "word: NAME\nother: NAME\n")
    assert found.splitlines()[:2] == [
        "error[ZYN0110]: the grammar of `calc` is ambiguous",
        "note: `other : NAME` and `word : NAME` can't be told apart before `COMMA`, `PLUS`, `RPAR`, `_NL`, the end of the file",
    ]


def test_a_grammar_that_is_not_there(calc: Calc) -> None:
    found = calc("show 1\n", options=', start="whole"')
    assert found.startswith("error[ZYN0110]: the grammar of `calc` can't be used: ")


def test_kernels_call_each_other(calc: Calc) -> None:
    assert with_kernels(calc, "show twice of (ones 3)\n") == "tensor([2.0, 2.0, 2.0], shape=[3], dtype=f32)\n"


def test_an_error_in_a_kernel_shows_both_places_the_call_first(calc: Calc) -> None:
    column = KERNELS.splitlines()[4].index("x[2]") + 1
    found = with_kernels(calc, "put a = ones 2\nput b = third of a\n")
    assert found == (
        "error[ZYN0801]: index 2 is out of range of axis 0: the axis has 2, indices go from 0 to 1\n"
        " --> p.clc:2:9\n  |\n2 | put b = third of a\n  |         ^^^^^^^^^^ called from here\n"
        f" ::: site-calc/kernels.zynml:5:{column}: in this kernel\n"
    )


def test_an_error_in_a_block_of_a_kernel_shows_both_places(calc: Calc) -> None:
    found = with_kernels(calc, "put a = ones 2\nshow past of a\n").splitlines()
    assert found[1:6] == [" --> p.clc:2:6", "  |", "2 | show past of a", "  |      ^^^^^^^^^ called from here", found[5]]
    assert found[5].startswith(" ::: site-calc/kernels.zynml:4:")
    assert with_kernels(calc, "put a = ones 2\nshow past of a\n", verb="run --sanitize").splitlines()[1:5] == found[1:5]


def test_a_wrong_argument_of_a_kernel_names_it_as_its_file_does(calc: Calc) -> None:
    found = with_kernels(calc, "show twice of 3\n", verb="check")
    assert "`twice`" in found and "calc.twice" not in found and " --> p.clc:1:" in found


def test_a_file_of_kernels_only_declares(calc: Calc) -> None:
    found = calc("show 1\n", options=WITH_KERNELS, files={"kernels.zynml": "println(1)\n"})
    assert found.splitlines()[0] == "error[ZYN0110]: the kernels of `calc` have a statement: a file of kernels only declares"


def test_chains_of_kernels_become_one(calc: Calc) -> None:
    found = with_kernels(calc, "show twice of (twice of (ones 3))\n", verb="compile --emit fusion", options=WITH_KERNELS + ", inline=True")
    assert "one kernel" in found


LIBRARY = """
    def name(self, token):
        return b.call("tripled", b.text(token))


library = Library()


@library.function("tripled")
def tripled(text):
    if text == "zero":
        raise LibraryFault("CLC0801", "nothing to triple", "take another")
    return text * 3
"""


def test_functions_of_the_authors_own_library(calc: Calc) -> None:
    options = ', comment="#", library=("zynml", library)'
    assert calc("show ab\n", more=LIBRARY, options=options) == "ababab\n"
    found = calc("show ab\nshow zero\n", more=LIBRARY, options=options)
    assert (found.code, str(found)) == (
        1,
        "ababab\nerror[CLC0801]: nothing to triple\n --> p.clc:2:6\n  |\n2 | show zero\n  |      ^^^^\nhint: take another\n",
    )


BLOCKS = """
%declare STAGE SHOUT OVER
?special_statement: STAGE NAME block      -> stage
     | SHOUT expr                         -> shout
     | SHOUT expr OVER expr               -> shout_over
"""
STAGES = """
    def stage(self, name, body):
        return [b.do(b.call("println", b.text(f"-- {name}"))), body]

    def shout(self, value):
        return b.do(b.call("println", value, b.text("!")))

    def shout_over(self, value, other):
        return b.do(b.call("println", value, b.text("over"), other))
"""


def test_a_language_that_adds_to_the_blocks_of_zynml(calc: Calc) -> None:
    program = (
        "def square(x: int): int { x * x }\nlet over = 3\nstage first {\n    shout square(over)\n    shout 1 over 2\n}\n"
        'stage second:\n    let stage = f"{over + 1}"\n    shout stage\nif true: shout over over over\n'
    )
    found = calc(program, more=STAGES, options=', layout="blocks"', grammar=BLOCKS)
    assert found == "-- first\n9 !\n1 over 2\n-- second\n4 !\n3 over 3\n"


def test_errors_in_blocks_are_those_of_the_house(calc: Calc) -> None:
    found = calc("stage {\n}\nlet y = 1 1\nshout x\n", verb="check", more=STAGES, options=', layout="blocks"', grammar=BLOCKS)
    assert found.splitlines()[0] == "error[ZYN0101]: expected a name after `stage`"
    assert found.count("error[") == 2
    assert calc("shout x\n", verb="check", more=STAGES, options=', layout="blocks"', grammar=BLOCKS) == (
        "error[ZYN0201]: `x` is not defined\n --> p.clc:1:7\n  |\n1 | shout x\n  |       ^ not found\n"
    )
