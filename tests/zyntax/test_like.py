"""What `--like` shows is what such a call runs: the same bytes as the files that `zyntax run --emit-to` writes, and as the kernels that the
emulator interprets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.emulator import interpret as interpreter
from compiler.hir.parse import parse_module
from compiler.hir.text import print_function, print_module
from compiler.hir.verify import verify
from compiler.launch import emulator
from compiler.targets import cpu, nvidia
from compiler.targets.target import AFTER
from zyntax import compile_command
from zyntax.main import cli
from zyntax.report import guarded

PRODUCT = """def f(a: tensor[M, K, bf16], b: tensor[K, N, bf16]): tensor {
    compute(a, b) -> tensor[M, N, f32] { for i in 0..M { for j in 0..N {
        var s: f32 = 0.0
        for k in 0..K: s += a[i, k] * b[k, j]
        out[i, j] = s
    } } }
}
"""
SOFTMAX = """def f(x: tensor[M, N]): tensor {
    compute(x) -> tensor[M, N] { for i in 0..M {
        var m = -inf
        for j in 0..N: m = max(m, x[i, j])
        var s = 0.0
        for j in 0..N: s += exp(x[i, j] - m)
        for j in 0..N: out[i, j] = exp(x[i, j] - m) / s
    } }
}
"""
SCALED = """def f(x: tensor, by: f32, n: int) {
    compute(x, by, n) -> tensor[n] { for i in 0..n: out[i] = x[i] * by }
}
"""
CHAIN = """def f(x: tensor[N]): tensor {
    let total = compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] }
    let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
    compute(y, total) { for i in 0..N: out[i] = y[i] / total }
}
"""
SCAN = """def f(x: tensor[N]): tensor {
    compute(x) -> tensor[N] { var s = 0.0
        for i in 0..N:
            s += x[i]
            out[i] = s
    }
}
"""
APART = "def f(x: tensor[N]) {\n let a = compute(x) { for i in 0..N: out[i] = x[i] }\n let b = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\n (a, b) }\n"
TWO = "def g(x: tensor[N]) { compute(x) { for i in 0..N: out[i] = x[i] } }\ndef h(x: tensor[N], y: f32) { compute(x, y) { for i in 0..N: out[i] = x[i] + y } }\n"

CASES = {
    "product": (PRODUCT, "a=128x64 b=64x128", "f(Tensor::ones((128, 64)) as bf16, Tensor::ones((64, 128)) as bf16)"),
    "softmax": (SOFTMAX, "x=4x40:f32", "f(Tensor::ones((4, 40)))"),
    "scaled": (SCALED, "f(x=12:i32, by=2.5, n=7)", "f(arange(0, 12, dtype=i32), 2.5, 7)"),
    "chain": (CHAIN, "x=300", "f(Tensor::ones((300,)))"),
    "scan": (SCAN, "x=5000", "f(Tensor::ones((5000,)))"),
}
"""A program, a call as `--like` takes it, and the same call as a statement."""

TEXTS = ("hir", "schedule", "llvm", "ptx", "hir-after=lift", "hir-after=specialise", "hir-after=place")


@pytest.fixture(autouse=True)
def call_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--like` describes a call of the function, and the program's statement is that call: not a copy of its blocks with sizes of its own."""
    monkeypatch.setattr("compiler.backends.host.program.inlined", lambda program, checker: program)


@pytest.fixture
def command(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> "Iterator[Command]":
    yield Command(tmp_path, capsysbinary)


class Command:
    def __init__(self, folder: Path, output: pytest.CaptureFixture[bytes]) -> None:
        self.folder, self.output = folder, output

    def __call__(self, text: str, verb: str, *options: str) -> bytes:
        """Standard output; of a failure standard error."""
        file = self.folder / "p.zynml"
        file.write_text(text)
        code = guarded(lambda: cli.main([verb, str(file), *options], standalone_mode=False))
        found = self.output.readouterr()
        return (found.out if code in (0, None) and not found.err else found.err).replace(f"{self.folder}/".encode(), b"")

    def files(self, stage: str) -> bytes:
        """What `--emit-to` wrote of this stage, of all kernels in their order."""
        ending = f".{stage.replace('=', '-')}"
        found = [path.read_bytes() for path in sorted((self.folder / "out").iterdir()) if path.name.endswith(ending)]
        return b"".join(found).replace(f"{self.folder}/".encode(), b"")


def flat(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100"])
@pytest.mark.parametrize("case", CASES)
def test_a_call_is_shown_as_it_runs_on_a_gpu(case: str, target: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    text, like, call = CASES[case]
    ran: list[str] = []
    original = interpreter.interpret

    def interpreted(function, *given, **named):  # type: ignore[no-untyped-def]
        ran.append(print_function(function))
        return original(function, *given, **named)

    monkeypatch.setattr(emulator, "interpret", interpreted)
    whole = f"{text}let y = {call}\n"
    assert command(whole, "run", "--device", f"emulator:{target}", "--emit-to", str(command.folder / "out")) == b""
    for stage in TEXTS:
        shown = command(whole, "compile", "--backend", "nvptx", "--target", target, "--emit", stage, "--like", like)
        assert shown == command.files(stage) and shown, stage
    placed = flat(command.files("hir-after=place").decode())
    assert ran and all(flat(function) in placed for function in ran)


@pytest.mark.parametrize("case", CASES)
def test_a_call_is_shown_as_it_runs_on_the_cpu(case: str, command: Command) -> None:
    text, like, call = CASES[case]
    whole = f"{text}let y = {call}\n"
    assert command(whole, "run", "--device", "cpu", "--emit-to", str(command.folder / "out")) == b""
    for stage in ("hir", "schedule", "llvm", "asm", "hir-after=lift", "hir-after=place"):
        shown = command(whole, "compile", "--emit", stage, "--like", like)
        assert shown == command.files(stage) and shown, stage


def test_the_files_are_listed(command: Command) -> None:
    command(f"{SCALED}let y = f(arange(0.0, 12.0), 2.5, 7)\nfor k in 0..3: f(arange(0.0, 12.0), 2.5, 9)\n", "run", "--device", "emulator:sm_80", "--emit-to", str(command.folder / "out"))
    index = (command.folder / "out" / "kernels.txt").read_text().splitlines()
    assert [line for line in index if not line.startswith("  without")] == [
        f"01-line2-sm_80: {command.folder}/p.zynml:2:5: @kernel of x=12:f32, by=2.5, n=7",
        f"02-line2-sm_80: {command.folder}/p.zynml:2:5: @kernel of x=12:f32, by=2.5, n=9",
    ]
    stages = {path.name.partition(".")[2] for path in (command.folder / "out").iterdir()} - {"txt", "cubin", "sass"}
    assert stages == {*nvidia.STAGES, *(f"hir-after-{name}" for name in nvidia.PASSES)} - {"cubin", "sass"}


def test_every_pass_of_every_target_is_shown(command: Command) -> None:
    for name in nvidia.PASSES:
        for like in ((), ("--like", "a=128x64,b=64x128")):
            text = command(PRODUCT, "compile", "--backend", "nvptx", "--target", "sm_90a", "--emit", f"{AFTER}{name}", *like).decode()
            module = parse_module(text)
            assert module.functions and print_module(module).strip() == text.strip()
            for function in module.functions.values():
                verify(function)
    assert cpu.PASSES[:-1] == nvidia.PASSES[: len(cpu.PASSES) - 1]
    place = command(PRODUCT, "compile", "--backend", "nvptx", "--target", "sm_80", "--emit", "hir-after=place")
    assert place == command(PRODUCT, "compile", "--backend", "nvptx", "--target", "sm_80", "--emit", "hir")


def test_alignments_and_sizes_decide_on_kernels(command: Command) -> None:
    def accesses(like: str) -> set[str]:
        ptx = command(TWO, "compile", "--backend", "nvptx", "--emit", "ptx", "--like", like).decode()
        return {word for word in ptx.split() if word.startswith(("ld.global", "st.global"))}

    wide, narrow, ragged = (accesses(f"g(x={like})") for like in ("4096", "4096@4", "4097"))
    assert all(".v4" in word for word in wide) and not any(".v4" in word for word in narrow)
    assert wide < ragged


def test_dtypes_that_only_the_call_knows(command: Command) -> None:
    assert b"%x: mem<(x_0)xf64, readonly>" in command(SCALED, "compile", "--emit", "hir", "--like", "x=4:f64 by=1 n=3")


def test_what_a_program_prints_is_not_shown(command: Command) -> None:
    shown = command(f'{TWO}println("no")\nlet z = g(arange(0.0, 4.0))\n', "compile", "--emit", "schedule", "--like", "g(x=4)")
    assert shown.startswith(b"p.zynml:1:23: @kernel of x=4:f32") and shown.count(b"@kernel") == 1


# ---- what can't be ----

FORM = "write `A=4096x4096:bf16` for a tensor, `A=4096:f32@4` for one that begins at a multiple of 4 bytes only, and `n=5` for a number"
TAKES = "`g` takes `x`; `h` takes `x` and `y`"


@pytest.mark.parametrize(
    ("text", "like", "code", "message", "hint"),
    [
        (TWO, "g(x=4", "0505", "`--like g(x=4` can't be read", FORM),
        (TWO, "x", "0505", "`--like x` can't be read", FORM),
        (TWO, "x=4x", "0505", "`--like x=4x` can't be read", FORM),
        (TWO, "x=", "0505", "`--like x=` can't be read", FORM),
        (TWO, "x=4:f32@", "0505", "`--like x=4:f32@` can't be read", FORM),
        (TWO, "x=4,x=5", "0505", "`--like` says twice what `x` is", "`x=4` and `x=5`"),
        (TWO, "q=4", "0505", "`--like q=4`: no function of the program takes a `q`", TAKES),
        (TWO, "g(y=4)", "0505", "`--like y=4`: `g` takes no `y`", "`g` takes `x`"),
        (TWO, "k(x=4)", "0505", "`--like k(...)`: the program has no function `k`", "it has `g` and `h`"),
        (TWO, "y=4", "0505", "`--like` doesn't say what `x` of `h` is", FORM),
        (TWO, "g(x=4x4)", "0505", "`--like x=4x4` has 2 axes, and `x` is tensor[N, f32]", FORM),
        (PRODUCT, "a=4 b=4x4", "0505", "`--like a=4` has 1 axis, and `a` is tensor[M, K, bf16]", FORM),
        (TWO, "g(x=4:f64)", "0505", "`--like x=4:f64`: `x` is tensor[N, f32], not of f64", "leave `:f64` out"),
        (TWO, "g(x=4:bf61)", "0505", "`--like x=4:bf61`: there is no dtype `bf61`", "did you mean `bf16`?"),
        (TWO, "g(x=2.5)", "0505", "`--like x=2.5`: `x` is tensor[N, f32], not a number", FORM),
        (TWO, "h(x=4, y=4:f32)", "0505", "`--like y=4:f32`: `y` is f32, not a tensor", "write a number: `y=5`"),
        (TWO, "g(x=4@2)", "0505", "`--like x=4@2`: a tensor of float32 can't begin at a multiple of 2 bytes only", "a power of two that is a multiple of the 4 bytes of an element; 16 is the usual one"),
        (TWO.replace("def h(x", "def h(z").replace("(x, y)", "(z, y)").replace("x[i] + y", "z[i] + y"), "x=4 z=4", "0505", "no function of the program takes `x` and `z` together", "one call is shown at a time"),
        (TWO.replace(", y: f32", ", y: f32 = 0.0"), "x=4", "0505", "`--like` may mean a call of `g` and `h`", "write the function, too: `--like 'g(...)'`"),
        (APART, "x=300 --emit cubin", "0505", "the call runs 2 modules, and `--emit cubin` writes one", "`zyntax run --emit-to FOLDER` writes a file for each"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be(text: str, like: str, code: str, message: str, hint: str, command: Command) -> None:
    like, _, stage = like.partition(" --emit ")
    found = command(text, "compile", "--backend", "nvptx", "--emit", stage or "schedule", "--like", like).decode()
    assert found == f"error[ZYN{code}]: {message}\nhint: {hint}\n"


def test_sizes_that_contradict_the_declared_ones(command: Command) -> None:
    found = command(PRODUCT, "compile", "--emit", "schedule", "--like", "a=4x5 b=4x5").decode()
    line = PRODUCT.splitlines()[0]
    assert found == (
        "error[ZYN0802]: size `K` is 5 by axis 1 of `a` and 4 by axis 0 of `b`\n --> p.zynml:1:7\n  |\n"
        f"1 | {line}\n  |       {'^' * 44}\n"
    )  # fmt: skip


def test_more_than_there_can_be(command: Command) -> None:
    found = command(TWO, "compile", "--emit", "schedule", "--like", "g(x=99999999999999999)").decode()
    assert found == "error[ZYN0804]: `--like x=99999999999999999`: 399,999,999,999,999,996 bytes are more than there can be\n"


def test_a_folder_that_cannot_be_written_to(command: Command) -> None:
    taken = command.folder / "taken"
    taken.write_text("")
    found = command(TWO, "run", "--emit-to", str(taken / "in")).decode()
    assert found == "error[ZYN0807]: `taken/in` can't be written to: not a directory\n"


def test_strategies_have_no_calls(command: Command) -> None:
    (command.folder / "s.qdsl").write_text("strategy S on BTC {\n}\n")
    code = guarded(lambda: cli.main(["compile", str(command.folder / "s.qdsl"), "--like", "x=4"], standalone_mode=False))
    found = command.output.readouterr().err.decode()
    message = "`--like` describes calls of functions with compute blocks"
    assert (code, found) == (2, f"error[ZYN0505]: {message}\nhint: a strategy's code is the same for all data\n")


def test_the_command_names_the_stages_of_each_target() -> None:
    """It lists them itself: `--help` doesn't wait for the compiler."""
    assert compile_command.GPU_STAGES == nvidia.STAGES
    assert {*compile_command.CPU_STAGES} == {*cpu.STAGES, *compile_command.WHOLE}
