"""Imports of files: chains, modules that import each other, and files that are no programs."""

from pathlib import Path

import pytest

import zynml
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from zyntax.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.zynml").write_text(text)


def refused(name: str) -> str:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(Path(f"{name}.zynml"))
    return str(caught.value)


ITSELF = """error[ZYN0211]: `loop.zynml` imports itself
 --> loop.zynml:2:1
  |
2 | import loop
  | ^^^^^^^^^^^
hint: leave the import out: a program knows its own names"""

CHAIN = """error[ZYN0211]: modules import each other: `shapes.zynml` -> `lines.zynml` -> `points.zynml` -> `shapes.zynml`
 --> points.zynml:1:1
  |
1 | from shapes import area
  | ^^^^^^^^^^^^^^^^^^^^^^^ `points.zynml` imports `shapes.zynml` here
 ::: shapes.zynml:1:1: `shapes.zynml` imports `lines.zynml` here
 ::: lines.zynml:2:1: `lines.zynml` imports `points.zynml` here
hint: move what both need into a module of its own"""


def test_a_program_that_imports_itself() -> None:
    write(loop="let x = 1\nimport loop\n")
    assert refused("loop") == ITSELF


def test_the_chain_of_modules_that_import_each_other_is_shown() -> None:
    write(shapes="import lines\ndef area(): int { 1 }\n", lines="let x = 1\nimport points\n", points="from shapes import area\n")
    assert refused("shapes") == CHAIN


def test_a_chain_that_the_program_stands_before() -> None:
    write(start="import shapes\n", shapes="import lines\ndef area(): int { 1 }\n", lines="let x = 1\nimport points\n", points="from shapes import area\n")
    assert refused("start") == CHAIN


def test_imports_inside_of_functions_count() -> None:
    write(loop="def f(): int {\nimport loop\n1 }\n")
    assert refused("loop") == ITSELF


@pytest.mark.parametrize("verb", ["check", "run"])
def test_the_command_says_the_same(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(loop="let x = 1\nimport loop\n")
    with pytest.raises(SystemExit) as left:
        main([verb, "loop.zynml"])
    assert left.value.code == 2
    assert capsys.readouterr().err.strip() == ITSELF


def test_modules_that_share_one_are_no_cycle() -> None:
    write(base="let n = 3\ndef f(): int { n }\n", left="from base import f\ndef l(): int { f() }\n", right="from base import f\ndef r(): int { f() }\n")
    write(top="from left import l\nfrom right import r\ndef both(): int { l() + r() }\n")
    assert zynml.compile(Path("top.zynml")).both() == 6


def test_a_long_chain_of_modules() -> None:
    write(m0="def f0(): int { 7 }\n")
    write(**{f"m{n}": f"from m{n - 1} import f{n - 1}\ndef f{n}(): int {{ f{n - 1}() }}\n" for n in range(1, 300)})
    assert zynml.compile(Path("m299.zynml")).f299() == 7


def test_a_folder_with_a_modules_name_is_none() -> None:
    Path("data").mkdir()
    Path("texts.zynml").mkdir()
    write(a="import data\n", b="import texts\n")
    for name, module in (("a", "data"), ("b", "texts")):
        assert refused(name).startswith(f"error[ZYN0202]: there is no module `{module}`\n")


def test_a_module_that_is_no_text() -> None:
    Path("bad.zynml").write_bytes(b"\xff\xfel")
    Path("binary.zynml").write_bytes(b"\0\1")
    write(a="import bad\n", b="import binary\n")
    assert refused("a") == "error[ZYN0108]: `bad.zynml` is not UTF-8: byte 0xff in line 1\n  --> bad.zynml\nhint: save it as UTF-8"
    assert refused("b") == "error[ZYN0108]: `binary.zynml` is a binary file, not a program\n  --> binary.zynml"


def test_errors_of_modules_are_found_by_a_check() -> None:
    write(a='import b\nlet x: int = "text"\n', b="let y: i32 = 2.5\n")
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(Path("a.zynml"))
    assert caught.value.codes == ("ZYN0203", "ZYN0207")


SHAPES = """let side = 4
var counter = 0
struct Point { x: f64, y: f64 }
enum Color { Red, Green, Rgb(int, int, int) }
impl Point {
    def norm(self): f64 { sqrt(self.x * self.x + self.y * self.y) }
    def at(x: f64): Point { Point { x: x, y: 0.0 } }
}
def area(n: int): int { _square(n) * side }
def _square(n: int): int { n * n }
def name_of(c: Color): String { match c { case Red { "red" } case Color::Green { "green" } case Rgb(r, g, b) { f"{r} {g} {b}" } } }
def bump(): int {
    counter = counter + 1
    counter
}
def scale(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 + side } }
"""


def shown(*command: str) -> None:
    with pytest.raises(SystemExit) as left:
        main([*command])
    assert left.value.code == 0


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    shown("run", f"{name}.zynml")
    return capsys.readouterr().out.splitlines()


def test_all_that_a_module_declares_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="""import shapes
let p = shapes.Point { x: 3.0, y: 4.0 }
println(p, p.norm())
println(shapes.area(3), shapes::area(2), shapes.side)
let c = shapes.Color.Red
println(c, shapes.name_of(c), shapes.name_of(shapes::Color::Rgb(1, 2, 3)))
match c {
    case shapes.Color.Red { println("is red") }
    case _ { println("another") }
}
println(shapes.bump(), shapes.bump(), shapes.counter)
def f(q: shapes.Point, l: list[shapes.Point], o: shapes.Point?): f64 { q.x + l[0].norm() + (0.0 if o == None else 1.0) }
println(f(shapes.Point::at(2.0), [p], Some(p)))
println(shapes.scale(tensor([1.0, 2.0])))
""")
    assert printed("top", capsys) == [
        "Point { x: 3.0, y: 4.0 } 5.0", "36 16 4", "Red red 1 2 3", "is red", "1 2 2", "8.0", "tensor([6.0, 8.0], shape=[2], dtype=f32)"
    ]  # fmt: skip


def test_names_out_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="""from shapes import Point, area, Color, name_of
println(Point { x: 3.0, y: 4.0 }.norm(), area(3), name_of(Red), name_of(Color::Green))
for c in [Red, Green, Rgb(1, 2, 3)]:
    println(match c { case Red { 1 } case Green { 2 } case Rgb(_, _, z) { z } })
let helper = 3
def _square(n: int): int { n + helper }
println(_square(1), area(1))
""")
    assert printed("top", capsys) == ["5.0 36 red green", "1", "2", "3", "4 4"]


def test_everything_out_of_a_module_stands_behind_what_the_program_declares(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="from shapes import *\nimport shapes as T\nlet side = 9\nprintln(T.area(2), area(2), side, T.side, Point::at(1.0), Green)\n")
    assert printed("top", capsys) == ["16 16 9 4 Point { x: 1.0, y: 0.0 } Green"]


def test_imports_and_variables_inside_of_functions(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="""from shapes import Point
def f(shapes: int): int {
    import shapes as S
    let area = 3
    S.area(shapes) + area
}
def g(): int {
    from shapes import area, side
    area(side)
}
struct P { p: Point, side: int }
def k(p: P, side: int = 3): int { p.side + side }
println(f(2), g(), k(P { p: Point::at(1.0), side: 2 }, side=5))
""")
    assert printed("top", capsys) == ["19 64 7"]


def test_modules_of_one_name_in_two_folders(capsys: pytest.CaptureFixture[str]) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        Path(folder).mkdir()
        Path(folder, "m.zynml").write_text(f"from n import two\nstruct S {{ v: int }}\ndef f(): S {{ S {{ v: {value} * two }} }}\n")
        Path(folder, "n.zynml").write_text(f"let two = {value + 1}\n")
    write(top="import a.m as x\nimport b.m as y\nlet s: x.S = x.f()\nlet t: y.S = y.f()\nprintln(s, t, s.v + t.v)\n")
    assert printed("top", capsys) == ["S { v: 2 } S { v: 6 } 8"]


def test_statements_of_a_module_run_once_where_it_is_imported_first(capsys: pytest.CaptureFixture[str]) -> None:
    write(base='println("base")\n', left='import base\nprintln("left")\n', right='import base\nprintln("right")\n')
    write(top='println("top")\nimport right\nprintln("between")\nimport left\ndef main() { println("main") }\n')
    assert printed("top", capsys) == ["top", "base", "right", "between", "left", "main"]


def test_functions_of_a_module_are_native_too(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="import shapes\ndef total(n: int): f64 {\n    var s = 0.0\n    for i in 0..n: s += shapes.Point::at(i as f64).norm()\n    s\n}\nprintln(total(4))\n")
    assert printed("top", capsys) == ["6.0"]
    shown("explain", "top.zynml")
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["total", "native"] for line in lines)
    assert any(line.startswith("shapes.Point::norm ") for line in lines)


UNKNOWN = """error[ZYN0202]: module `shapes` has no `nothing`
 --> top.zynml:2:1
  |
2 | from shapes import nothing
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^ not found
hint: it has `side`, `counter`, `Point`, `Color`, `area`, `name_of`, `bump`, `scale`

error[ZYN0202]: module `shapes` has no `aera`
 --> top.zynml:3:9
  |
3 | println(shapes.aera(2))
  |         ^^^^^^^^^^^ not found
hint: did you mean `area`?

error[ZYN0203]: `shapes` is a module, and no value
 --> top.zynml:4:9
  |
4 | let x = shapes
  |         ^^^^^^
hint: name what you use of it: `shapes.Color`

error[ZYN0202]: module `shapes` has no `Pint`
 --> top.zynml:5:8
  |
5 | let p: shapes.Pint = 3
  |        ^^^^^^^^^^^ not found
hint: did you mean `Point`?

error[ZYN0203]: the parameter `n` is `i64`, and this is `String`
 --> top.zynml:6:21
  |
6 | println(shapes.area("x"))
  |                     ^^^ this is String
 ::: shapes.zynml:9:10: parameter `n` of `area`

error[ZYN0201]: `Green` is not defined
 --> top.zynml:7:9
  |
7 | println(Green)
  |         ^^^^^ not found"""


def test_what_a_module_does_not_have() -> None:
    write(shapes=SHAPES)
    write(top='import shapes\nfrom shapes import nothing\nprintln(shapes.aera(2))\nlet x = shapes\nlet p: shapes.Pint = 3\nprintln(shapes.area("x"))\nprintln(Green)\n')
    assert refused("top") == UNKNOWN


PRIVATE = """warning[ZYN0622]: `_square` is private to module `shapes`
 --> top.zynml:2:9
  |
2 | println(shapes._square(3))
  |         ^^^^^^^^^^^^^^
hint: a name that begins with `_` may change with its module: use what the module offers"""


def test_private_names_of_another_module(capsys: pytest.CaptureFixture[str]) -> None:
    write(shapes=SHAPES)
    write(top="import shapes\nprintln(shapes._square(3))\n", named="from shapes import _square\nprintln(_square(3))\n", star="from shapes import *\nprintln(_square(3))\n")
    shown("run", "top.zynml")
    captured = capsys.readouterr()
    assert captured.out == "9\n"
    assert captured.err.strip() == PRIVATE
    assert [warning.full_code for warning in zynml.compile(Path("named.zynml")).warnings] == ["ZYN0622"]
    assert refused("star").startswith("error[ZYN0201]: `_square` is not defined\n")


NEAR = """error[ZYN0202]: there is no module `shaps`
 --> top.zynml:1:1
  |
1 | import shaps
  | ^^^^^^^^^^^^ not found
hint: did you mean `shapes`?"""


def test_the_nearest_module_is_named() -> None:
    write(shapes=SHAPES, top="import shaps\nprintln(shaps.area(2))\n")
    assert refused("top") == NEAR


def test_a_name_that_is_imported_and_declared() -> None:
    write(shapes=SHAPES, top="from shapes import area\ndef area(x: int): int { x }\n")
    assert refused("top") == (
        "error[ZYN0210]: `area` is defined twice\n --> top.zynml:2:5\n  |\n1 | from shapes import area\n"
        "  | ----------------------- imported here\n2 | def area(x: int): int { x }\n  |     ^^^^\nhint: rename one of them"
    )


def test_a_link_that_leads_out_of_the_programs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside.zynml").write_text("def f(): int { 1 }\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "top.zynml").write_text("import near\nprintln(near.f())\n")
    (inner / "near.zynml").symlink_to(tmp_path / "outside.zynml")
    monkeypatch.chdir(inner)
    assert refused("top") == (
        f"error[ZYN0202]: module `near` lies outside of the program's folder: `near.zynml` is a link to `{tmp_path / 'outside.zynml'}`\n"
        " --> top.zynml:1:1\n  |\n1 | import near\n  | ^^^^^^^^^^^\nhint: put the file itself beside the program"
    )
    (inner / "near.zynml").unlink()
    (inner / "near.zynml").write_text("def f(): int { 2 }\n")
    (inner / "linked.zynml").symlink_to(inner / "near.zynml")
    write(top="import linked\nimport near\nprintln(near.f() + linked.f())\n")
    zynml.compile(Path("top.zynml")).run()


def test_modules_that_are_too_large_or_nested_too_deep() -> None:
    write(large="// " + "x" * (4 << 20) + "\n", deep="let x = " + "(" * 201 + "1" + ")" * 201 + "\n")
    write(a="import large\n", b="import deep\n")
    assert refused("a") == (
        "error[ZYN0108]: `large.zynml` is too large: a program has at most 4 MiB\n  --> large.zynml\nhint: move its data to a file that it loads"
    )
    assert refused("b").startswith("error[ZYN0108]: nested too deep: more than 200 brackets and blocks are open\n --> deep.zynml:1:209\n")


def test_what_a_module_imports_of_the_library_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    write(near="from zynml.vector import cosine, normalize\ndef alike(a: tensor, b: tensor): tensor { cosine(a, b) }\n")
    write(top="import near\ndef cosine(x: int): int { x }\nlet a = tensor([[1.0, 0.0]])\nprintln(near.alike(a, a), cosine(3))\n")
    assert printed("top", capsys) == ["tensor([[1.0]], shape=[1, 1], dtype=f32) 3"]


def test_faults_of_a_run_stand_in_the_modules_text(capsys: pytest.CaptureFixture[str]) -> None:
    write(m="let one = 1\ndef pick(a: list[int], i: int): int { a[i] }\n", top="import m\nprintln(m.pick([1, 2], 5))\n")
    with pytest.raises(SystemExit) as left:
        main(["run", "top.zynml"])
    assert left.value.code == 1
    message = capsys.readouterr().err
    assert " --> m.zynml:2:39\n" in message
    assert "top.zynml:2:9: called from here" in message


def test_functions_that_python_calls_are_the_programs_own() -> None:
    write(shapes=SHAPES)
    write(top="from shapes import Point\nimport shapes\ndef far(p: Point): f64 { p.norm() }\ndef made(): Point { shapes.Point::at(2.0) }\n")
    program = zynml.compile(Path("top.zynml"))
    assert [*program.functions] == ["far", "made"]
    assert program.far({"x": 3.0, "y": 4.0}) == 5.0
    assert program.far(program.made()) == 2.0
    assert str(program.made()) == "Point { x: 2.0, y: 0.0 }"


def test_kernels_of_modules_have_their_name_before_them() -> None:
    write(shapes=SHAPES, top="import shapes\ndef twice(x: tensor[N]): tensor { shapes.scale(x) }\n")
    text = zynml.compile(Path("top.zynml")).hir
    assert "func @shapes_scale_line16(" in text
    assert print_module(parse_module(text)) == text


def test_generic_functions_and_traits_of_modules(capsys: pytest.CaptureFixture[str]) -> None:
    write(areas="""trait Shape {
    def area(self): f64
    def twice(self): f64 { 2.0 * self.area() }
}
struct Square { s: f64 }
struct Box<T> { v: T }
impl Shape for Square { def area(self): f64 { self.s * self.s } }
def largest<T: Ordered>(a: T, b: T): T { a if a > b else b }
def total<S: Shape>(a: S, b: S): f64 { a.area() + b.twice() }
def boxed<T>(v: T): Box<T> { Box { v: v } }
""")
    write(top="""import areas
from areas import Shape
struct Circle { r: f64 }
impl Shape for Circle { def area(self): f64 { self.r } }
impl areas.Shape for int { def area(self): f64 { self as f64 } }
println(areas.largest(2, 3), areas.total(areas.Square { s: 2.0 }, areas.Square { s: 1.0 }), areas.total(Circle { r: 1.0 }, Circle { r: 2.0 }))
let b: areas.Box<int> = areas.boxed(3)
println(b, 3.twice())
""")
    assert printed("top", capsys) == ["3 6.0 5.0", "Box { v: 3 } 6.0"]


def test_suffixes_and_errors_of_modules(capsys: pytest.CaptureFixture[str]) -> None:
    write(money='''module money
abstract Money(i64) with Suffixes("usd")
struct Broke { why: String }
def pay(m: Money): Money {
    if m > 100usd { throw Broke { why: "too much" } }
    m - 1usd
}
''')
    write(top="import money\nprintln(money.pay(7usd))\ntry { money.pay(200usd) } catch money.Broke as e { println(e.why) }\n")
    assert printed("top", capsys) == ["6usd", "too much"]
