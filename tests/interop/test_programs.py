"""Compiled programs as objects of Python: what they show, what they are called, how they are pickled."""

import inspect
import json
import multiprocessing
import pickle
import pydoc
import re

import numpy as np
import pytest

import zynml
from compiler.launch.cpu import CpuCall
from zynml import pickled

TEXT = """
param n: int in 1..9 = 3

// Scales `x`
//   by a number.
def scale(x: tensor[N], by: f32 = 2.0): tensor {
    compute(x, by) @device("cpu") { for i in 0..N: out[i] = x[i] * by }
}

/* <b>Bold</b> & "quoted". */
def paired(a: tensor[M, K], b: tensor[K, N], names = ["<i>"], careful: bool = true) { a @ b }

// Of nobody.

def count(): int { n }
def add(mut x: tensor[N], y: tensor[N]) { compute(mut x, y) { for i in 0..N: x[i] = x[i] + y[i] } }
"""


@pytest.fixture(scope="module")
def program():
    return zynml.compile(TEXT, n=5)


# ---- shown ----


def test_a_program_shows_its_functions_their_sizes_and_devices(program):
    assert repr(program) == (
        "ZynML program <program>\n"
        "  scale(x: tensor[N], by: f32 = 2.0): tensor  (sizes N, on cpu)\n"
        '  paired(a: tensor[M, K], b: tensor[K, N], names = ["<i>"], careful: bool = true)  (sizes M, K, N, on auto)\n'
        "  count(): int  (on auto)\n"
        "  add(mut x: tensor[N], y: tensor[N])  (sizes N, on auto)"
    )
    assert "(sizes N, on emulator)" in repr(zynml.compile(TEXT, device="emulator"))


def test_a_notebook_shows_it_as_a_table_whatever_its_text_says(program):
    shown = program._repr_html_()
    assert "&lt;b&gt;Bold&lt;/b&gt; &amp; &quot;quoted&quot;." in shown and "[&quot;&lt;i&gt;&quot;]" in shown
    assert set(re.findall(r"<(\w+)", shown)) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert shown.count("<tr>") == 5


def test_signatures_are_the_texts(program):
    assert str(inspect.signature(program.scale)) == "(x: tensor[N], by: f32 = 2.0) -> tensor"
    bound = inspect.signature(program.scale).bind(1, by=3)
    assert bound.arguments == {"x": 1, "by": 3}
    found = inspect.signature(program.paired)
    assert found.parameters["careful"].default is True and repr(found.parameters["names"].default) == '["<i>"]'
    assert str(inspect.signature(program.count)) == "() -> int"


def test_documentation_is_the_comment_above(program):
    assert program.scale.__doc__ == "Scales `x`\n  by a number."
    assert program.paired.__doc__ == '<b>Bold</b> & "quoted".'
    assert program.count.__doc__ == "Function `count` of a ZynML program."
    assert "scale(x: tensor[N], by: f32 = 2.0) -> tensor" in pydoc.plain(pydoc.render_doc(program.scale))


@pytest.mark.parametrize(
    ("above", "wanted"),
    [
        ("// One.\n// Two.\n", "One.\nTwo."),
        ("let x = 1  // not it\n", ""),
        ("/*\n * One.\n *\n * Two.\n */\n", "One.\n\nTwo."),
        ("// Of x.\nlet x = 1\n", ""),
        ("// One.\n@cache\n", "One."),
    ],
)
def test_comments_right_above_a_function_are_its_own(above, wanted):
    found = zynml.compile(f"{above}def f(): int {{ 1 }}\n").f.__doc__
    assert found == (wanted or "Function `f` of a ZynML program.")


def test_dir_has_all_functions_and_methods(program):
    assert {"scale", "paired", "count", "run", "emit", "functions", "warnings", "hir"} <= set(dir(program))
    assert "run" in dir(zynml.compile("def run(): int { 1 }"))


# ---- names ----


@pytest.mark.parametrize("name", ["run", "functions", "warnings", "_opened"])
def test_a_function_with_the_name_of_a_method_is_warned_of(name):
    program = zynml.compile(f"def {name}(): int {{ 7 }}")
    assert program.functions[name]() == 7
    [warning] = program.warnings
    assert (warning.full_code, warning.message) == (
        "ZYN0607",
        f"`{name}` is an attribute of every compiled program: as one, this function can't be called",
    )
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(f"def {name}(): int {{ 7 }}", strict=True)
    assert str(caught.value) == (
        f"error[ZYN0607]: `{name}` is an attribute of every compiled program: as one, this function can't be called\n"
        " --> <program>:1:5\n"
        "  |\n"
        f"1 | def {name}(): int {{ 7 }}\n"
        f"  |     {'^' * len(name)}\n"
        f'hint: from Python it is `program.functions["{name}"]`'
    )


# ---- arguments of compile ----


def test_levels_are_numbers_too():
    assert zynml.compile(TEXT, opt=1).count() == zynml.compile(TEXT, opt="s").count() == 3
    with pytest.raises(ValueError, match=r"^opt=7: levels are 0, 1, 2, 3, s, latency$"):
        zynml.compile(TEXT, opt=7)


def test_an_unknown_keyword_is_pythons_error():
    keywords = "opt, threads, device, strict, sanitize, tune, tier, floats, products"
    with pytest.raises(TypeError) as caught:
        zynml.compile(TEXT, optt=3)
    wanted = f"compile() has no keyword `optt` (did you mean `opt`?): it takes {keywords}, and this program has the `param`s n"
    assert str(caught.value) == wanted
    with pytest.raises(TypeError) as caught:
        zynml.compile("let x = 1\n", zzzzzz=3)
    assert str(caught.value) == f"compile() has no keyword `zzzzzz`: it takes {keywords}, and this program has no `param`"


def test_messages_name_keywords_and_not_flags():
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(TEXT, n="x").count()
    assert str(caught.value).startswith("error[ZYN0807]: n=x: `n` is an int (i64)\n")
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(TEXT, n=20).count()
    assert str(caught.value).endswith("\nhint: n=1")
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile('def f(x: tensor[N]) { compute(x) @device("cuda:9") { for i in 0..N: out[i] = x[i] } }')
    assert "--device" not in str(caught.value) and '`device="cpu"` runs the program on the CPU' in str(caught.value)


def test_an_unknown_stage_is_pythons_error(program):
    with pytest.raises(ValueError, match=r"^stage='nonsense': stages are ast, typed-ast, hir, hir-after=PASS, fusion, schedule, llvm"):
        program.emit("nonsense")
    assert program.emit("hir-after=cse")


# ---- pickles ----


def test_a_program_is_pickled_as_its_text_and_options(program):
    again = pickle.loads(pickle.dumps(zynml.compile(TEXT, n=5, opt=1, threads=1, device="emulator")))
    assert again.count() == 5
    assert repr(again) == repr(zynml.compile(TEXT, device="emulator"))
    np.testing.assert_array_equal(again.scale(np.arange(40, dtype=np.float32), 3.0), np.arange(40) * 3.0)


def test_a_program_of_a_file_is_pickled(tmp_path):
    file = tmp_path / "doubled.zynml"
    file.write_text("def doubled(x: int): int { x * 2 }\n", encoding="utf-8")
    dumped = pickle.dumps(zynml.compile(file))
    file.unlink()
    again = pickle.loads(dumped)
    assert again.doubled(4) == 8 and "doubled.zynml" in repr(again)


def test_a_program_of_another_version_is_refused(program, monkeypatch):
    monkeypatch.setattr(pickled, "version", lambda: "0.0.7")
    dumped = pickle.dumps(program)
    monkeypatch.setattr(pickled, "version", lambda: "0.0.8")
    with pytest.raises(pickle.UnpicklingError) as caught:
        pickle.loads(dumped)
    assert str(caught.value) == (
        "the program <program> was pickled by zyntax 0.0.7, and this is zyntax 0.0.8: compile it from its source here"
    )


def _of_child(program):
    return program.count()


def test_a_program_goes_to_another_process(program):
    with multiprocessing.get_context("spawn").Pool(1) as processes:
        assert processes.apply(_of_child, (program,)) == 5


def test_errors_are_pickled(program):
    with pytest.raises(zynml.ZynMLError) as caught:
        program.scale(np.ones(3))
    caught.value.add_note("from a test")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is zynml.ZynMLError and str(again) == str(caught.value) and again.codes == ("ZYN0807",)
    assert again.diagnostics == caught.value.diagnostics and again.__notes__ == ["from a test"]


# ---- arguments that share memory ----


def test_arguments_that_share_memory_are_told_apart_by_a_copy(program):
    x = np.ones(50, np.float32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.add(x[1:], x[:-1])
    assert str(caught.value).splitlines()[-1] == "hint: the arguments `x` and `y` share memory: pass a copy, `y.copy()`"
    program.add(x[1:], x[:-1].copy())
    np.testing.assert_array_equal(x, [1.0] + [2.0] * 49)
    with pytest.raises(zynml.ZynMLError, match=re.escape("pass a copy, `y.copy()`")):
        program.add(y=x, x=x)
    tensor = zynml.Tensor(x)
    with pytest.raises(zynml.ZynMLError, match=re.escape("pass a copy, `y.clone()`")):
        program.add(tensor, tensor)


def test_what_a_program_makes_overlap_is_copied_there():
    program = zynml.compile("def f(mut x: tensor[N]) { mut y = x[1:]\n compute(mut y, z = x[:-1]) { for i in 0..M: y[i] = z[i] } }")
    with pytest.raises(zynml.ZynMLError, match=re.escape("hint: `.clone()` behind the value of `z` makes a copy")):
        program.f(np.ones(50, np.float32))


def test_heads_come_back_from_the_cache_as_they_were(program):
    from attrs import asdict, evolve

    from compiler.launch import kept_programs

    for head in program._opened.heads.values():
        plain = json.loads(json.dumps(asdict(evolve(head, span=None))))
        assert kept_programs._head(plain) == head


def history(error: BaseException) -> list[BaseException]:
    """An error with all that it came from, each once on a way: fails where one came from itself."""

    def before(current: BaseException | None, way: tuple[BaseException, ...]) -> list[BaseException]:
        assert not any(current is other for other in way), [*map(repr, way), repr(current)]
        return [] if current is None else [current, *before(current.__cause__, (*way, current)), *before(current.__context__, (*way, current))]

    return before(error, ())


def test_no_error_came_from_itself(monkeypatch):
    program = zynml.compile("""
def plus(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] + 1.0 } }
def added(mut x: tensor[N], y: tensor[N]) { compute(mut x, y) { for i in 1..N: x[i] = x[i] + y[i - 1] } }
def called(f) { f(1) }
""")
    x = np.ones(4, np.float32)
    with pytest.raises(zynml.ZynMLError, match="expected a tensor") as refused:
        program.plus(3)
    with pytest.raises(zynml.ZynMLError, match="expected a tensor") as within:
        program.called(lambda one: program.plus(one))
    with pytest.raises(zynml.ZynMLError, match="share memory") as shared:
        program.added(x, x)

    def broken(*arguments):
        raise RuntimeError("odd")

    monkeypatch.setattr(CpuCall, "__call__", broken)
    with pytest.raises(zynml.ZynMLError, match="a fault of the compiler itself: RuntimeError: odd") as internal:
        program.plus(x)
    assert all(len(history(found.value)) > 1 for found in (refused, within, shared, internal))
    assert any(isinstance(error, RuntimeError) for error in history(internal.value))
