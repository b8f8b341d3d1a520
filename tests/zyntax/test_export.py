"""`zyntax export`: C programs compiled against the header call the functions, and see their results and errors."""

import shutil
import subprocess
from pathlib import Path

import pytest

import zynml
from tests.zyntax.conftest import Zyntax

COMPILER = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no gcc on PATH")

PROGRAM = """struct Point { x: f64, y: f32, ok: bool, n: i16 }
struct Line { start: Point, long: Point, weights: [i32; 3] }
struct Pair { first: Point, small: i8, second: Point }
fn add(a: i64, b: i8) -> i64 { a + (b as i64) }
fn divide(a: i64, b: i64) -> i64 { a / b }
fn little(a: i8, b: i8) -> i8 { a + b }
fn large(a: u64, b: u64) -> u64 { a + b }
fn half(a: f32) -> f32 { a / 2.0 }
fn both(a: bool, b: u8, c: u16, d: u32) -> bool { a && b == (255 as u8) && c == (65535 as u16) && d == (4294967295 as u32) }
fn total(a: [f64; 4]) -> f64 {
    var sum = 0.0
    for i in 0..4 { sum += a[i] }
    return sum
}
fn turned(a: [i32; 3]) -> [i32; 3] { [a[2], a[1], a[0]] }
fn at(a: [i32; 3], i: i64) -> i32 { a[i] }
fn corner(a: [[f64; 2]; 3]) -> f64 { a[2][1] }
fn moved(p: Point, d: f64) -> Point { Point { x: p.x + d, y: p.y, ok: !p.ok, n: p.n } }
fn paired(p: Point, small: i8) -> Pair { Pair { first: p, small: small, second: moved(p, 1.0) } }
fn second(p: Pair) -> f64 { p.second.x + (p.small as f64) }
fn weighed(l: Line) -> f64 { l.start.x + l.long.x + (l.weights[1] as f64) }
fn lined(p: Point) -> Line { Line { start: p, long: p, weights: [7, 8, 9] } }
fn whole(a: f64) -> i64 { a as i64 }
fn deep(n: i64) -> i64 { if n == 0 { 0 } else { 1 + deep(n + 1) } }
fn fibonacci(n: i64) -> i64 { if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) } }
"""
NAMES = [line.split("(")[0].removeprefix("fn ") for line in PROGRAM.splitlines() if line.startswith("fn ")]

MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "libprogram.h"

static int bad;
#define IS(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); bad = 1; } } while (0)

int main(void) {
    int64_t whole_ = 5;
    IS(add(40, -2, &whole_) == 0 && whole_ == 38);
    IS(add(INT64_MAX, 1, &whole_) == 806 && whole_ == 38);
    IS(divide(-7, 2, &whole_) == 0 && whole_ == -7 / 2);
    IS(divide(7, 0, &whole_) == 806);
    IS(strcmp(divide_error(), "ZYN0806: 7 / 0: division by zero (program.zynml:5:36)") == 0);
    int8_t small;
    IS(little(100, 27, &small) == 0 && small == 127);
    IS(little(-100, -100, &small) == 806);
    IS(strcmp(little_error(), "ZYN0806: -100 + -100 does not fit in i8 (program.zynml:6:33)") == 0);
    uint64_t large_;
    IS(large(UINT64_MAX - 1, 1, &large_) == 0 && large_ == UINT64_MAX);
    IS(large(UINT64_MAX, 1, &large_) == 806);
    IS(strcmp(large_error(), "ZYN0806: 18446744073709551615 + 1 does not fit in u64 (program.zynml:7:35)") == 0);
    float real;
    IS(half(3.0f, &real) == 0 && real == 1.5f);
    bool flag;
    IS(both(true, 255, 65535, 4294967295u, &flag) == 0 && flag);
    IS(both(false, 255, 65535, 4294967295u, &flag) == 0 && !flag);
    double sum;
    IS(total((double[4]){1.0, 2.0, 4.0, 0.5}, &sum) == 0 && sum == 7.5);
    int32_t three[3] = {1, 2, 3}, back[3], one;
    IS(turned(three, back) == 0 && back[0] == 3 && back[1] == 2 && back[2] == 1 && three[0] == 1);
    IS(at(three, 2, &one) == 0 && one == 3);
    IS(at(three, 3, &one) == 801);
    IS(strcmp(at_error(), "ZYN0801: index 3 is out of range: the array has 3, indices go from 0 to 2 (program.zynml:16:37)") == 0);
    double corners[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    IS(corner(corners, &sum) == 0 && sum == 6.0);
    Point point = {1.5, 2.5f, true, -300}, there;
    IS(moved(&point, 2.0, &there) == 0 && there.x == 3.5 && there.y == 2.5f && !there.ok && there.n == -300);
    IS(moved(&point, 2.0, &point) == 0 && point.x == 3.5 && !point.ok);
    Pair pair;
    IS(paired(&point, -4, &pair) == 0 && pair.first.x == 3.5 && pair.small == -4 && pair.second.x == 4.5 && pair.second.n == -300);
    IS(second(&pair, &sum) == 0 && sum == 0.5);
    Line line;
    IS(lined(&point, &line) == 0 && line.start.n == -300 && line.long_.x == 3.5 && line.weights[0] == 7 && line.weights[2] == 9);
    IS(weighed(&line, &sum) == 0 && sum == 15.0);
    IS(whole(-3.75, &whole_) == 0 && whole_ == -3);
    IS(whole(1e300, &whole_) == 806);
    IS(strcmp(whole_error(), "ZYN0806: 1.0000000000000001e+300 as i64 does not fit in i64 (program.zynml:23:27)") == 0);
    IS(deep(1, &whole_) == 808);
    IS(strcmp(deep_error(), "ZYN0808: functions call each other too deep (program.zynml:24:53)") == 0);
    IS(fibonacci(20, &whole_) == 0 && whole_ == 6765);
    return bad;
}
"""


def exported(zyntax: Zyntax, folder: Path, text: str, *options: str) -> None:
    (folder / "program.zynml").write_text(text)
    done = zyntax("export", "program.zynml", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def ran(folder: Path, text: str, *objects: str) -> tuple[int, str]:
    """The exit code and the output of a program in C."""
    assert COMPILER is not None
    (folder / "main.c").write_text(text)
    words = [COMPILER, "-Wall", "-Wextra", "-Werror", "main.c", *objects, "-pthread", "-lm", "-o", "main"]
    built = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([folder / "main"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@needs_compiler
def test_a_c_program_calls_functions_and_sees_their_errors(zyntax: Zyntax, tmp_path: Path) -> None:
    exported(zyntax, tmp_path, PROGRAM, *(word for name in NAMES for word in ("-f", name)))
    assert ran(tmp_path, MAIN, str(tmp_path / "libprogram.so")) == (0, "")


@needs_compiler
def test_each_thread_has_messages_of_its_own(zyntax: Zyntax, tmp_path: Path) -> None:
    exported(zyntax, tmp_path, PROGRAM, "-f", "divide", "-o", "code.o")
    main = r"""
#include <pthread.h>
#include <string.h>
#include "code.h"
static void *other(void *unused) {
    int64_t given;
    return divide(2, 0, &given) == 806 && strncmp(divide_error(), "ZYN0806: 2 / 0", 14) == 0 ? unused : NULL;
}
int main(void) {
    int64_t given;
    if (divide(1, 0, &given) != 806) return 1;
    pthread_t thread;
    void *well;
    if (pthread_create(&thread, NULL, other, &given) || pthread_join(thread, &well) || well == NULL) return 2;
    return strncmp(divide_error(), "ZYN0806: 1 / 0", 14) != 0;
}
"""
    assert ran(tmp_path, main, "code.o") == (0, "")


@needs_compiler
def test_a_function_that_makes_tensors_frees_them(zyntax: Zyntax, tmp_path: Path) -> None:
    """64 MB in each of 1000 calls, of which every other one stops."""
    text = """fn crossed(n: int, by: int) -> int {
    mut seen = zeros(n, dtype=i64)
    var k = 0
    for i in by..100 step by {
        seen[i] = i
        k += 1
    }
    assert(k < 20, "many")
    k
}
"""
    exported(zyntax, tmp_path, text, "-f", "crossed", "-o", "code.o")
    main = r"""
#include <stdio.h>
#include <string.h>
#include "code.h"
int main(void) {
    int64_t found;
    for (int turn = 0; turn < 500; turn++) {
        if (crossed(8 << 20, 10, &found) || found != 9) return 1;
        if (crossed(8 << 20, 3, &found) != 808 || strncmp(crossed_error(), "ZYN0808: assertion failed: many", 31)) return 2;
    }
    long pages = 0;
    FILE *own = fopen("/proc/self/statm", "r");
    if (!own || fscanf(own, "%ld", &pages) != 1) return 3;
    return pages > 100000 ? 4 : 0;
}
"""
    assert ran(tmp_path, main, str(tmp_path / "code.o")) == (0, "")


TENSORS = """def inner(x: tensor[N, f64], y: tensor[N, f64]): f64 {
    mut sum = 0.0
    for i in 0..N { sum += x[i] * y[i] }
    sum
}
def trace(m: tensor[2, 2, f32]): f32 { m[0, 0] + m[1, 1] }
def scale(mut m: tensor[R, C, i32], by: i32) {
    for i in 0..R, j in 0..C { m[i, j] *= by }
}
def at(m: tensor[R, C, f64], i: int, j: int): f64 { m[i, j] }
def some(flags: tensor[?, bool]): bool {
    mut found = false
    for flag in flags { found = found or flag }
    found
}
def made(n: int): tensor { zeros(n) }
def clash(x: tensor[N], x_extent0: int): int { x_extent0 }
"""


@needs_compiler
def test_tensors_are_addresses_and_extents(zyntax: Zyntax, tmp_path: Path) -> None:
    exported(zyntax, tmp_path, TENSORS, *(word for name in ("inner", "trace", "scale", "at", "some") for word in ("-f", name)))
    main = r"""
#include <stdio.h>
#include <string.h>
#include "libprogram.h"
int main(void) {
    const double x[] = {1.0, 2.0, 3.0}, m[] = {0.0, 1.0, 2.0, 10.0, 11.0, 12.0};
    double d = -1.0;
    if (inner(x, 3, x, 3, &d) || d != 14.0) return 1;
    if (inner(x, 3, x, 2, &d) != 802 || d != 14.0) return 2;
    if (strcmp(inner_error(), "ZYN0802: size `N` is 3 by axis 0 of `x` and 2 by axis 0 of `y` (program.zynml:1:5)")) return 3;
    if (inner(x, -1, x, -1, &d) != 802 || strncmp(inner_error(), "ZYN0802: axis 0 of `x` has the extent -1", 40)) return 4;
    if (inner(x, 0, x, 0, &d) || d != 0.0) return 5;
    const float f[] = {1.0f, 2.0f, 3.0f, 4.0f};
    float t;
    if (trace(f, 2, 2, &t) || t != 5.0f) return 6;
    if (trace(f, 2, 3, &t) != 802 || strncmp(trace_error(), "ZYN0802: `2` is 2, but axis 1 of `m` has the extent 3", 53)) return 7;
    int32_t n[] = {1, 2, 3, 4, 5, 6};
    if (scale(n, 3, 2, -2) || n[0] != -2 || n[5] != -12) return 8;
    if (scale(n, 3, 2, INT32_MAX) != 806) return 9;
    if (at(m, 2, 3, 1, 0, &d) || d != 10.0) return 10;
    if (at(m, 2, 3, -1, -1, &d) || d != 12.0) return 11;
    if (at(m, 2, 3, 2, 0, &d) != 801) return 12;
    bool yes;
    const bool flags[] = {false, true};
    if (some(flags, 2, &yes) || !yes) return 13;
    return some(flags, 1, &yes) || yes ? 14 : 0;
}
"""
    assert ran(tmp_path, main, str(tmp_path / "libprogram.so")) == (0, "")
    text = (tmp_path / "libprogram.h").read_text()
    assert "int32_t inner(const double *x, int64_t x_extent0, const double *y, int64_t y_extent0, double *result);\n" in text
    assert "int32_t scale(int32_t *m, int64_t m_extent0, int64_t m_extent1, int32_t by);\n" in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made", "error[ZYN0109]: `made` can't be exported: C has no form for `tensor[?, f32]`\n  --> program.zynml:16:1\n"),
        ("clash", "error[ZYN0109]: `clash` can't be exported: `x_extent0` is the name of an extent of `x` in C\n  --> program.zynml:17:11\n"),
    ],
)
def test_tensors_that_c_cannot_have(zyntax: Zyntax, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "program.zynml").write_text(TENSORS)
    done = zyntax("export", "program.zynml", "-f", name)
    assert done.returncode == 2 and done.stderr.startswith(message)


def test_without_a_c_compiler_the_object_is_written_alone(zyntax: Zyntax, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    exported(zyntax, tmp_path, PROGRAM, "-f", "add", "-o", "add.o", "--header", "sum.h")
    assert (tmp_path / "add.o").read_bytes()[:4] == b"\x7fELF"
    assert "int32_t add(int64_t a, int8_t b, int64_t *result);\nconst char *add_error(void);\n" in (tmp_path / "sum.h").read_text()
    done = zyntax("export", "program.zynml", "-f", "add")
    assert (done.returncode, done.stderr) == (
        2,
        "error[ZYN0505]: no C compiler is here to link a library: none of cc, gcc, clang is on PATH\n"
        "hint: install one, or write the object alone: `-o NAME.o`\n",
    )
    assert not (tmp_path / "libprogram.so").exists()


REFUSED = """fn shown(a: i64) { println(a) }
fn pair(a: i64) -> (i64, f64) { (a, 2.0) }
fn double(a: f64) -> f64 { a }
fn open<T>(a: T) -> T { a }
struct Counter { n: i64 }
impl Counter {
    fn up(mut self) { self.n += 1 }
    fn next(self) -> i64 { self.n + 1 }
}
fn fine(result: i64, long: i64, long_: i64) -> i64 { result - long + long_ }
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shown", "error[ZYN0109]: `shown` can't be exported: it calls `println`, which has no native code\n --> program.zynml:1:20\n"),
        ("pair", "error[ZYN0109]: `pair` can't be exported: C has no form for `(i64, f64)`\n --> program.zynml:2:1\n"),
        ("double", "error[ZYN0109]: `double` can't be exported: C can't have a function of that name\n --> program.zynml:3:1\n"),
        ("open", "error[ZYN0201]: the program has no function `open` that could be exported\n"),
        ("fin", "error[ZYN0201]: the program has no function `fin` that could be exported\nhint: did you mean `fine`?\n"),
        ("Counter::up", "error[ZYN0109]: `Counter::up` can't be exported: it changes what it is called on\n --> program.zynml:7:5\n"),
    ],
)
def test_what_cannot_be_exported_says_why(zyntax: Zyntax, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "program.zynml").write_text(REFUSED)
    done = zyntax("export", "program.zynml", "-f", name)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert [file for file in tmp_path.iterdir() if file.suffix != ".zynml"] == []


def test_python_exports_too(tmp_path: Path) -> None:
    program = zynml.compile(REFUSED)
    assert program.export(tmp_path / "both.o", "Counter::next", "fine") == tmp_path / "both.h"
    text = (tmp_path / "both.h").read_text()
    assert "int32_t Counter_next(const struct Counter *self, int64_t *result);\n" in text
    assert "int32_t fine(int64_t result_, int64_t long__, int64_t long_, int64_t *result);\n" in text
    with pytest.raises(zynml.ZynMLError, match="`shown` can't be exported: it calls `println`"):
        program.export(tmp_path / "shown.o", "shown")


def test_strategies_are_not_exported(zyntax: Zyntax, tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "programs/quantdsl/ema_cross.qdsl"
    done = zyntax("export", str(path), "-f", "on.trade")
    assert (done.returncode, done.stderr) == (
        2,
        f"error[ZYN0109]: `{path}` can't be exported: a strategy runs in a replay\n"
        f"hint: `zyntax compile {path} --emit obj` makes its object\n",
    )
