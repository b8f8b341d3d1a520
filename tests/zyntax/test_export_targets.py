"""Kernels and functions as objects for CPUs by their names. A program in C calls them on arrays from a file and writes what they give; the
code of AArch64 runs under qemu-user. Which instructions an object has its disassembly says."""

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zynml
from compiler.machines.cpu import CPUS
from runtime.cpu import detect, load

PROGRAM = """fn multiply(A: tensor[M, K, f32], B: tensor[K, N, f32]) -> tensor[M, N, f32] {
    return compute(A, B) {
        for i in 0..M, j in 0..N:
            var sum = 0.0
            for k in 0..K: sum += A[i, k] * B[k, j]
            out[i, j] = sum
    }
}
fn whole(A: tensor[M, K, i32], B: tensor[K, N, i32]) -> tensor[M, N, i32] {
    return compute(A, B) {
        for i in 0..M, j in 0..N:
            var sum = 0
            for k in 0..K: sum += A[i, k] * B[k, j]
            out[i, j] = sum
    }
}
fn softmax(x: tensor[M, N, f64]) -> tensor[M, N, f64] {
    return compute(x) {
        for i in 0..M:
            var top = x[i, 0]
            for j in 1..N: top = max(top, x[i, j])
            var sum = 0.0 as f64
            for j in 0..N: sum += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / sum
    }
}
fn total(x: tensor[N, f64]) -> f64 {
    return compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] }
}
fn best(x: tensor[M, N, f32]) {
    return compute(x) @kernel(reduce, argmax, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) }
}
fn running(x: tensor[N, i64]) -> tensor[N, i64] {
    return compute(x) {
        var sum = 0
        for i in 0..N:
            sum += x[i]
            out[i] = sum
    }
}
fn window(x: tensor[N, f32], s: f32) {
    return compute(x, s) { for i in 0..N - 2: out[i] = s * (x[i] + x[i + 1] + x[i + 2]) }
}
fn picked(x: tensor[N, f32], at: tensor[K, i32]) {
    return compute(x, at) -> (value: tensor[K, f32], above: tensor[K, bool]) {
        for k in 0..K:
            value[k] = x[at[k]]
            above[k] = x[at[k]] > 0.0
    }
}
fn counted(mut counts: tensor[B, i64], x: tensor[N, u8]) {
    compute(mut counts, x) { for i in 0..N: counts[x[i]] += 1 }
}
fn divide(a: i64, b: i64) -> i64 { a / b }
fn smallest(x: tensor[N, f64]) -> f64 {
    var least = x[0]
    for i in 1..N { if x[i] < least { least = x[i] } }
    return least
}
"""
NAMES = re.findall(r"^fn (\w+)", PROGRAM, re.MULTILINE)

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "code.h"

static FILE *in, *out;
static void *taken(int64_t count, int64_t width) {
    void *memory = malloc(count * width + 1);
    if (fread(memory, width, count, in) != (size_t)count) exit(9);
    return memory;
}
static void give(const void *memory, int64_t count, int64_t width) { fwrite(memory, width, count, out); }
#define CHECK(name, call) do { int code = call; if (code) { printf("%d %s\n", code, name##_error()); } } while (0)

int main(int count, char **words) {
    if (count < 3) return 8;
    in = fopen(words[1], "rb"), out = fopen(words[2], "wb");
    int64_t *sizes = taken(5, 8);
    int64_t M = sizes[0], N = sizes[1], K = sizes[2], B = sizes[3], wrong = sizes[4], given;
    float *a = taken(M * K, 4), *b = taken(K * N, 4), *c = malloc(M * N * 4 + 1);
    CHECK(multiply, multiply(a, M, K, b, K, N, c, M, N));
    give(c, M * N, 4);
    int32_t *p = taken(M * K, 4), *q = taken(K * N, 4), *r = malloc(M * N * 4 + 1);
    CHECK(whole, whole(p, M, K, q, K, N, r, M, N));
    give(r, M * N, 4);
    double *x = taken(M * N, 8), *y = malloc(M * N * 8 + 1), sum, least;
    CHECK(softmax, softmax(x, M, N, y, M, N));
    give(y, M * N, 8);
    CHECK(total, total(x, M * N, &sum));
    give(&sum, 1, 8);
    CHECK(smallest, smallest(x, M * N, &least));
    give(&least, 1, 8);
    float *top = malloc(M * 4 + 1);
    int64_t *at = malloc(M * 8 + 1);
    CHECK(best, best(a, M, K, top, M, at, M));
    give(top, M, 4), give(at, M, 8);
    int64_t *n = taken(N, 8), *sums = malloc(N * 8 + 1);
    CHECK(running, running(n, N, sums, N));
    give(sums, N, 8);
    float *windows = malloc(M * K * 4);
    CHECK(window, window(a, M * K, 0.5f, windows, M * K - 2));
    give(windows, M * K - 2, 4);
    int32_t *index = taken(N, 4);
    bool *above = malloc(N + 1);
    CHECK(picked, picked(a, M * K, index, N, top = malloc(N * 4 + 1), N, above, N));
    give(top, N, 4), give(above, N, 1);
    uint8_t *bytes = taken(M * N, 1);
    int64_t *counts = taken(B, 8);
    CHECK(counted, counted(counts, B, bytes, M * N));
    give(counts, B, 8);
    if (wrong) {
        index[1] = (int32_t)(M * K);
        CHECK(picked, picked(a, M * K, index, N, top, N, above, N));
        CHECK(multiply, multiply(a, M, K, b, K + 1, N, c, M, N));
        CHECK(multiply, multiply(a, M, K, b, K, N, c, M, N + 1));
        CHECK(multiply, multiply(a, -1, K, b, K, N, c, -1, N));
        CHECK(multiply, multiply(a, M, (int64_t)1 << 60, b, (int64_t)1 << 60, N, c, M, N));
        CHECK(multiply, multiply(a, (int64_t)1 << 40, (int64_t)1 << 40, b, (int64_t)1 << 40, N, c, (int64_t)1 << 40, N));
        CHECK(window, window(a, 1, 0.5f, windows, 0));
        CHECK(best, best(a, M, 0, top, M, at, M));
        CHECK(divide, divide(1, 0, &given));
        bytes[0] = 255;
        CHECK(counted, counted(counts, B, bytes, M * N));
    }
    return fclose(out);
}
"""

TOLD = """801 ZYN0801: index 99 is out of range: axis 0 of `x` has 99 elements (<program>:47:26)
802 ZYN0802: size `K` is 33 by axis 1 of `A` and 34 by axis 0 of `B` (<program>:1:4)
802 ZYN0802: axis 1 of `result` has the extent 32, and that of the result is 31 (<program>:2:12)
802 ZYN0802: axis 0 of `A` has the extent -1 (<program>:1:4)
802 ZYN0802: axis 1 of `A` has the extent 1152921504606846976 (<program>:2:12)
804 ZYN0804: `A` has more elements than any memory can hold (<program>:2:12)
803 ZYN0803: `reduce(argmax)` of nothing: the loop over `j` runs 0 times (<program>:31:83)
806 ZYN0806: 1 / 0: division by zero (<program>:54:36)
801 ZYN0801: index 255 is out of range: axis 0 of `counts` has 7 elements (<program>:52:52)
"""
"""What goes wrong, in the order of the program in C. A window of nothing is nothing."""


def lacking(target: str) -> str | None:
    """Why code for the target can't be run here; None where it can."""
    if shutil.which("gcc") is None:
        return "no gcc on PATH"
    if target == "aarch64":
        absent = [name for name in ("aarch64-linux-gnu-gcc", "qemu-aarch64") if shutil.which(name) is None]
        return f"no {' and no '.join(absent)} on PATH" if absent else None
    absent = sorted({*str(CPUS[target].features).split(",")} - {*detect.host_features().split(",")})
    return f"the processor here lacks {', '.join(absent)}" if absent else None


def skip_lacking(target: str) -> None:
    reason = lacking(target)
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder with the object and the header for a target, made once."""
    program = zynml.compile(PROGRAM)
    made: dict[str, Path] = {}

    def folder_of(target: str) -> Path:
        if target not in made:
            made[target] = tmp_path_factory.mktemp(target)
            program.export(made[target] / "code.o", *NAMES, target=target)
        return made[target]

    return folder_of


def run(folder: Path, target: str, given: bytes) -> tuple[str, bytes]:
    """What the program in C prints and writes."""
    (folder / "main.c").write_text(MAIN)
    compiler, runner = ("aarch64-linux-gnu-gcc", ["qemu-aarch64"]) if target == "aarch64" else ("gcc", [])
    if not (folder / "main").exists():
        words = [compiler, "-O1", "-Wall", "-Werror", "-static", "main.c", "code.o", "-lgomp", "-pthread", "-lm", "-o", "main"]
        built = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
    (folder / "in").write_bytes(given)
    done = subprocess.run([*runner, "./main", "in", "out"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, (folder / "out").read_bytes()


SIZES = ((1, 1, 3, 1), (3, 31, 33, 7), (33, 440, 300, 7))
"""M, N, K, B: one iteration, ragged ends, and enough work for threads and for copies of panels."""


@pytest.mark.parametrize("target", CPUS)
def test_c_gets_numpys_results(exported: Callable[[str], Path], target: str) -> None:
    skip_lacking(target)
    for seed, (M, N, K, B) in enumerate(SIZES):
        rng = np.random.default_rng(seed)
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
        a[0, K // 2], wrong = (np.inf if seed == 2 else 1.0), int(seed == 1)
        p, q = (rng.integers(-1000, 1000, shape).astype(np.int32) for shape in ((M, K), (K, N)))
        x, n = rng.standard_normal((M, N)) * 10, rng.integers(-(1 << 40), 1 << 40, N)
        index, bytes_ = rng.integers(0, M * K, N).astype(np.int32), rng.integers(0, B, (M, N)).astype(np.uint8)
        counts = rng.integers(0, 9, B)
        given = b"".join(array.tobytes() for array in (np.array([M, N, K, B, wrong]), a, b, p, q, x, n, index, bytes_, counts))
        printed, data = run(exported(target), target, given)

        def taken(dtype: str, *shape: int, start: list[int] = [0], data: bytes = data) -> np.ndarray:  # noqa: B006 - where it is in this data
            count = int(np.prod(shape))
            array = np.frombuffer(data, dtype, count, start[0]).reshape(shape)
            start[0] += array.nbytes
            return array

        with np.errstate(invalid="ignore"):
            product = a.astype(np.float64) @ b.astype(np.float64)
            size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
            found = taken("f4", M, N)
            finite = np.isfinite(product)
            # each of K sums and products is rounded to 24 bits
            assert np.all(np.abs(found - product)[finite] <= (K + 1) * 2.0**-24 * size[finite])
            np.testing.assert_array_equal(found[~finite], product[~finite].astype(np.float32))
        np.testing.assert_array_equal(taken("i4", M, N), p @ q)
        powers = np.exp(x - x.max(1, keepdims=True))
        # exp, a sum of N and a quotient, each rounded to 53 bits; exp to two units
        np.testing.assert_allclose(taken("f8", M, N), powers / powers.sum(1, keepdims=True), rtol=(N + 8) * 2.0**-53)
        np.testing.assert_allclose(taken("f8", 1), [x.sum()], rtol=0, atol=M * N * 2.0**-53 * np.abs(x).sum())
        np.testing.assert_array_equal(taken("f8", 1), [x.min()])
        np.testing.assert_array_equal(taken("f4", M), a.max(1))
        np.testing.assert_array_equal(taken("i8", M), a.argmax(1))
        np.testing.assert_array_equal(taken("i8", N), n.cumsum())
        flat = a.ravel().astype(np.float64)
        np.testing.assert_allclose(
            taken("f4", M * K - 2),
            0.5 * (flat[:-2] + flat[1:-1] + flat[2:]),
            rtol=0,
            atol=4 * 2.0**-24 * np.abs(flat[np.isfinite(flat)]).max(),
        )
        np.testing.assert_array_equal(taken("f4", N), a.ravel()[index])
        np.testing.assert_array_equal(taken("?", N), a.ravel()[index] > 0)
        np.testing.assert_array_equal(taken("i8", B), counts + np.bincount(bytes_.ravel(), minlength=B))
        assert printed == (TOLD if wrong else "")


@pytest.mark.parametrize(("target", "lanes"), (("x86-64-v2", 4), ("x86-64-v3", 8), ("x86-64-v4", 16), ("aarch64", 4)))
def test_schedules_are_those_of_the_target(target: str, lanes: int) -> None:
    product = zynml.compile(PROGRAM[: PROGRAM.index("fn whole")])
    assert f"simd {lanes}\n" in str(product.emit("schedule", target))
    written = re.findall(r'"target-cpu"="([^"]*)" "target-features"="([^"]*)"', str(product.emit("llvm", target)))
    assert {*written} == {(CPUS[target].cpu, CPUS[target].features)}


BEYOND = {
    "x86-64-v2": r"%[yz]mm|\t(v\w|(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|movbe)\b)",
    "x86-64-v3": r"%zmm|%k\d|mm(1[6-9]|2\d|3\d)\b",
    "x86-64-v4": r"\tv(pdp|popcnt|pcompress[bw]|pexpand[bw]|gf2p8|aes|dpbf16|cvtne|p2inter|pmadd52|psh[lr]d|permb|perm[it]2b|pmulti)|\tv\w+[ps]h\t",
    "aarch64": r"\b[zp]\d+\.|\t(sdot|udot|bf(dot|cvt|ml|mm)|cas|swp|ld(add|clr|eor|set|smax|smin))|\tf\w+\tv\d+\.[48]h",
}
"""Instructions and registers that a processor of the level may lack."""
WIDEST = {"x86-64-v2": "%xmm", "x86-64-v3": "%ymm", "x86-64-v4": "%zmm", "aarch64": r"v\d+\.4s"}


@pytest.mark.parametrize("target", CPUS)
def test_an_object_has_instructions_of_its_level(exported: Callable[[str], Path], target: str) -> None:
    tool = shutil.which("aarch64-linux-gnu-objdump" if target == "aarch64" else "objdump")
    if tool is None:
        pytest.skip("no objdump for it on PATH")
    words = [tool, "-d", "--no-show-raw-insn", str(exported(target) / "code.o")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    instructions = [line.partition("\t")[1:] for line in done.stdout.splitlines() if "\t" in line]
    text = "\n".join("".join(instruction).replace("   ", "\t") for instruction in instructions)
    assert re.search(WIDEST[target], text)
    assert re.findall(rf"^.*(?:{BEYOND[target]}).*$", text, re.MULTILINE) == []


NEEDED = {"aligned_alloc", "fma", "free", "madvise", "malloc", "snprintf", "__tls_get_addr"}


@pytest.mark.parametrize("target", ("x86-64-v2", "aarch64"))
def test_static_objects_need_the_c_library_alone(tmp_path: Path, target: str) -> None:
    """Of v3 and v4, which have an instruction for `fma`, it is the same without that."""
    zynml.compile(PROGRAM).export(tmp_path / "code.o", "softmax", "window", "divide", target=target, static=True)
    assert load.needed((tmp_path / "code.o").read_bytes()) <= NEEDED


def test_objects_of_two_targets_are_kept_apart(tmp_path: Path) -> None:
    """In one process, one after the other and again."""
    program, made = zynml.compile(PROGRAM), []
    for number, target in enumerate(("x86-64-v2", "aarch64", "x86-64-v2", None, "aarch64")):
        program.export(tmp_path / f"{number}.o", "total", target=target)
        made.append((tmp_path / f"{number}.o").read_bytes())
    assert made[0] == made[2] != made[1] == made[4]
    assert np.array_equal(program.total(np.arange(5.0)), 10.0)


def test_a_library_for_another_architecture_is_linked_by_its_compiler(tmp_path: Path) -> None:
    skip_lacking("aarch64")
    zynml.compile("fn doubled(x: tensor[N, f64]) { return compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }").export(
        tmp_path / "libdoubled.so", "doubled", target="aarch64"
    )
    main = """#include <stdio.h>
#include "libdoubled.h"
int main(void) {
    double x[3] = {1, -2, 0.5}, y[3];
    printf("%d", doubled(x, 3, y, 3));
    printf(" %g %g %g\\n", y[0], y[1], y[2]);
    printf("%d %s\\n", doubled(x, 3, y, 4), doubled_error());
}
"""
    (tmp_path / "main.c").write_text(main)
    words = ["aarch64-linux-gnu-gcc", "main.c", "./libdoubled.so", "-o", "main", "-Wl,-rpath,."]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "./main"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    wrong = "axis 0 of `result` has the extent 4, and that of the result is 3 (<program>:1:40)"
    assert (done.stdout, done.stderr) == (f"0 2 -4 1\n802 ZYN0802: {wrong}\n", "")


BLOCK = "a function with compute blocks can be exported where its body is one block, of its parameters"
NUMBERS = "kernels take and give numbers of up to 64 bits, bool, and tensors of these whose types say how many axes they have"


TYPED = "parameters whose types are declared, and sizes that stand alone as factors, leave nothing to a call"
COPY = "{ for i in 0..N: out[i] = x[i] }"


@pytest.mark.parametrize(
    ("text", "marked", "message", "hint"),
    (
        (
            "fn f(x: tensor[N, f32], s: i64) { return compute(x, s) { for i in 0..N: out[i * s] = x[i] } }",
            "compute(x, s) { for i in 0..N: out[i * s] = x[i] }",
            "what its block is depends on values of a call",
            TYPED,
        ),
        (
            "fn f(x: tensor[4, i32]) { return compute(x) -> tensor[4, i32] @kernel(custom) { out[global_idx().x] = x[global_idx().x] } }",
            "compute(x) -> tensor[4, i32] @kernel(custom) { out[global_idx().x] = x[global_idx().x] }",
            "its block is written for threads",
            TYPED,
        ),
        (f"fn f(x: tensor[N, f16]) {{ return compute(x) {COPY} }}", "x: tensor[N, f16]", "C has no form for `tensor[N, f16]`", NUMBERS),
        (
            f"fn f(x: tensor[N, f32]) {{ return compute(x) -> tensor[N, bf16] {COPY} }}",
            f"compute(x) -> tensor[N, bf16] {COPY}",
            "C has no form for `bf16`",
            NUMBERS,
        ),
        (
            "let k = 3.0; fn f(x: tensor[N, f32]) { return compute(x) { for i in 0..N: out[i] = x[i] * k } }",
            "compute(x) { for i in 0..N: out[i] = x[i] * k }",
            "`k` isn't one of its parameters",
            BLOCK,
        ),
        (f"fn f(y: tensor[N, f32]) {{ return compute(x = y + 1.0) {COPY} }}", "x = y + 1.0", "`x` isn't one of its parameters", BLOCK),
        (f"fn f(x: tensor[N, f32]) {{ return 2.0 * compute(x) {COPY} }}", f"compute(x) {COPY}", "its body isn't one compute block", BLOCK),
        (
            "fn f(x: tensor[N, f32]) -> f64 { return compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] } }",
            "compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] }",
            "its block gives f32, and its result is f64",
            BLOCK,
        ),
        (
            f"fn f(x: tensor[N, i32], result_extent0: i64) {{ return compute(x) {COPY} }}",
            f"fn f(x: tensor[N, i32], result_extent0: i64) {{ return compute(x) {COPY} }}",
            "`result_extent0` is the name of a result in C",
            "rename the parameter",
        ),
    ),
)
def test_blocks_that_c_cannot_call_are_refused(tmp_path: Path, text: str, marked: str, message: str, hint: str) -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text).export(tmp_path / "f.o", "f")
    start = text.index(marked)
    assert str(caught.value).strip() == (
        f"error[ZYN0109]: `f` can't be exported: {message}\n --> <program>:1:{start + 1}\n  |\n1 | {text}\n"
        f"  | {' ' * start}{'^' * len(marked)}\nhint: {hint}"
    )


def test_unknown_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(PROGRAM).export(tmp_path / "f.o", "divide", target="x86-64")
    assert str(caught.value).strip() == (
        "error[ZYN0501]: there is no CPU target `x86-64`\nhint: targets are x86-64-v2, x86-64-v3, x86-64-v4, aarch64"
    )


def test_targets_that_llvm_lacks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "has_code", lambda triple: triple.startswith("x86_64"))
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(PROGRAM).export(tmp_path / "f.o", "divide", target="aarch64")
    assert str(caught.value).strip() == (
        "error[ZYN0501]: LLVM as it is installed here makes no code for `aarch64`\nhint: it makes code for x86-64-v2, x86-64-v3, x86-64-v4"
    )


def test_without_a_linker_for_the_target_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    target = "aarch64" if platform.machine() != "aarch64" else "x86-64-v3"
    architecture = "aarch64" if target == "aarch64" else "x86_64"
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(PROGRAM).export(tmp_path / "libf.so", "divide", target=target)
    names = f"{architecture}-linux-gnu-gcc, {architecture}-linux-gnu-cc"
    assert str(caught.value).strip() == (
        f"error[ZYN0505]: no C compiler is here to link a library: none of {names} is on PATH\n"
        "hint: install one, or write the object alone: `-o NAME.o`"
    )
