"""`zyntax compile --backend nvptx` and `cuda`: stages, targets, reports, options that don't go together, missing packages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.backends.nvptx.assemble import can_assemble
from compiler.backends.nvptx.disassemble import find_disassembler
from compiler.backends.nvptx.target import PTX_VERSIONS
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from compiler.targets.nvidia import PASSES
from runtime.cuda.driver import gpu_available
from tests.zyntax.conftest import ROOT, Zyntax

needs_assembler = pytest.mark.skipif(not can_assemble(), reason="the extra `compute` isn't installed")

TWO = """def norms(x: tensor[R, C]): tensor {
    compute(x) {
        for i in 0..R:
            var s = 0.0
            for j in 0..C:
                s += x[i, j] * x[i, j]
            out[i] = sqrt(s)
    }
}
let x = arange(0, 100)
let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }; let z = compute(x) { for i in 0..N: out[i] = x[i] - 1.0 }
let total = compute(x) -> tensor[1] @kernel(custom) @workgroup(64) @grid(2) {
    let i = global_idx().x
    if i < N: atomic_add(out[0], x[i])
}
println(total)
"""


@pytest.fixture(autouse=True)
def _two(folder: Path) -> None:
    (folder / "two.zynml").write_text(TWO.replace("; let z", "\nlet z"), encoding="utf-8")


def entries(ptx: str) -> list[str]:
    return re.findall(r"^\.visible \.entry (\w+)\(", ptx, re.MULTILINE)


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_120"])
def test_all_kernels_stand_in_one_module(zyntax: Zyntax, target: str) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--target", target, "--emit", "ptx")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(".version") == done.stdout.count(".target") == 1
    major, minor = PTX_VERSIONS[target][0]
    assert f".version {major}.{minor}\n.target {target}\n" in done.stdout
    names = entries(done.stdout)
    assert len(set(names)) == len(names) >= 4
    assert {re.sub(r"(_\d+)?$", "", name) for name in names} == {"norms_line2", "kernel_line11", "kernel_line12", "kernel_line13"}


def test_kernels_of_one_line_have_names_of_their_own(zyntax: Zyntax, folder: Path) -> None:
    line = "println((compute(x) { for i in 0..N: out[i] = x[i] }, compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }))"
    (folder / "one-line.zynml").write_text(f"let x = zeros(4)\n{line}\n", encoding="utf-8")
    done = zyntax("compile", "one-line.zynml", "--backend", "nvptx", "--emit", "ptx")
    second = line.rindex("compute") + 1
    assert {name.rsplit("_", 1)[0] for name in entries(done.stdout)} == {"kernel_line2", f"kernel_line2_column{second}"}


def test_a_block_above_leaves_the_names_below_as_they_are(zyntax: Zyntax, folder: Path) -> None:
    def names(text: str) -> list[str]:
        (folder / "p.zynml").write_text(text, encoding="utf-8")
        return entries(zyntax("compile", "p.zynml", "--backend", "nvptx", "--emit", "ptx").stdout)

    before = names("let x = zeros(4)\n\nlet z = compute(x) { for i in 0..N: out[i] = x[i] }\n")
    after = names("let x = zeros(4)\nlet y = compute(x) { for i in 0..N: out[i] = x[i] }\nlet z = compute(x) { for i in 0..N: out[i] = x[i] }\n")
    assert len(before) == 1 and set(before) < set(after)


def test_the_target_is_sm_90_when_none_is_named(zyntax: Zyntax) -> None:
    assert ".target sm_90\n" in zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "ptx").stdout


def test_hir_of_threads_parses_back(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx")
    assert (done.returncode, done.stderr) == (0, "")
    assert "form=C" in done.stdout and "form=A" not in done.stdout
    assert print_module(parse_module(done.stdout)) == done.stdout


def test_the_schedule_says_how_each_kernel_is_launched(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "schedule")
    assert (done.returncode, done.stderr) == (0, "")
    assert "two.zynml:2:5: @norms_line2\n" in done.stdout
    assert "two.zynml:13:13: @kernel_line13\n  as written: blocks of 64 threads, a grid of 2 x 1 x 1\n" in done.stdout
    assert len(re.findall(r"^  @\w+: .* iterations, .*, blocks of \d+.* threads?$", done.stdout, re.MULTILINE)) >= 1


@needs_assembler
def test_a_cubin_is_written_beside_the_program_with_a_report_on_request(zyntax: Zyntax, folder: Path) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "cubin", "--target", "sm_80", "--verbose")
    assert (done.returncode, done.stdout) == (0, "")
    assert (folder / "two.cubin").read_bytes().startswith(b"\x7fELF")
    target, head, *rows = done.stderr.splitlines()
    assert target == "sm_80"
    assert head.split() == ["kernel", "registers", "local", "spills", "shared", "threads", "blocks/SM", "warps/SM"]
    by_name = {row.split()[0]: row.split()[1:] for row in rows}
    assert len(by_name) == len(rows) >= 4
    registers, local, spills, shared, threads, blocks, warps = by_name["kernel_line13"]
    assert 0 < int(registers) <= 64
    assert (local, spills, shared, threads) == ("0", "0", "0", "64")
    assert warps == f"{2 * int(blocks)}/64"


@needs_assembler
def test_o_names_the_cubin(zyntax: Zyntax, folder: Path) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "cubin", "-o", "a.bin")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "a.bin").read_bytes().startswith(b"\x7fELF")
    assert not (folder / "two.cubin").exists()


@needs_assembler
def test_machine_code_is_text_or_one_clear_error(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "sass", "--target", "sm_90a")
    if find_disassembler() is None:
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error[ZYN0501]: machine code is shown by NVIDIA's nvdisasm, which isn't installed\n"
            "hint: pip install 'zyntax-lang[sass]', or put a CUDA toolkit's `bin` on the PATH; PTX is shown without it\n"
        )
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert ".text.kernel_line13:" in done.stdout and "EXIT" in done.stdout
    assert 'File "two.zynml", line 15' in done.stdout


def test_time_passes_counts_ptx(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--emit", "ptx", "--time-passes", "-o", "x.ptx")
    assert {"lower", "schedule", "ptx"} <= {line.split("%")[1].strip() for line in done.stderr.splitlines()}


def test_kernels_of_imported_files_are_there_once(zyntax: Zyntax, folder: Path) -> None:
    kernel = "    compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\n"
    (folder / "parts").mkdir()
    (folder / "steps.zynml").write_text(f"import parts.more\ndef norms(x: tensor[N]): tensor {{\n{kernel}}}\n", encoding="utf-8")
    (folder / "parts" / "more.zynml").write_text(f"def other(x: tensor[N]): tensor {{\n{kernel}}}\n", encoding="utf-8")
    (folder / "main.zynml").write_text(f"import steps\nfrom steps import norms\ndef own(x: tensor[N]): tensor {{\n{kernel}}}\n", encoding="utf-8")
    done = zyntax("compile", "main.zynml", "--backend", "nvptx", "--emit", "ptx")
    assert (done.returncode, done.stderr) == (0, "")
    assert [name.rsplit("_", 1)[0] for name in entries(done.stdout)] == ["more_other_line2", "steps_norms_line3", "own_line4"]
    assert re.search(r'\.file\s+\d+ "steps\.zynml"', done.stdout)
    shown = zyntax("compile", "main.zynml", "--emit", "schedule").stdout
    assert "main.zynml:4:5: @own_line4\n" in shown and "steps.zynml:3:5: @steps_norms_line3\n" in shown


def test_a_program_without_kernels_is_an_empty_module(zyntax: Zyntax) -> None:
    done = zyntax("compile", "hello.zynml", "--backend", "nvptx", "--emit", "ptx")
    assert (done.returncode, entries(done.stdout)) == (0, [])
    assert ".target sm_90\n" in done.stdout


CPU = "ast, typed-ast, hir, fusion, schedule, llvm, asm, obj, native-hir, native-llvm, native-asm, hir-after=PASS"
GPU = "hir, schedule, llvm, ptx, cubin, sass, hir-after=PASS"
SHOWN = GPU.removesuffix(", hir-after=PASS")


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ("--emit ptx", "`--backend llvm` makes no `ptx`", f"its stages are {CPU}; `--backend nvptx` makes `ptx`"),
        ("--emit magic", "`--backend llvm` makes no `magic`", f"its stages are {CPU}"),
        ("--backend nvptx --emit obj", "`--backend nvptx` makes no `obj`", f"its stages are {GPU}; `--backend llvm` makes `obj`"),
        ("--backend nvptx --emit hir-after=magic", "`--emit hir-after=magic`: there is no such pass", f"passes are {', '.join(PASSES)}"),
        ("--target aarch64 --emit typed-ast", "`typed-ast` is the same for all targets", "leave `--target` out"),
        ("--backend cuda --target sm_80", "`--target` goes with `--backend nvptx` and `--backend llvm`, not with `--backend cuda`", "it compiles for the GPU that is here"),
        ("--backend cuda -o x.ptx", "`-o` goes with `--emit`", f"stages are {SHOWN}"),
        ("--backend nvptx --emit fusion --like x=4", "`--like` describes a call, and `fusion` is of the whole program", f"it goes with {SHOWN}, asm, obj"),
        ("--backend cuda --like x=4", "`--like` goes with `--backend llvm` and `--backend nvptx`, not with `--backend cuda`", "`zyntax run --emit-to FOLDER` writes what a run on the GPU here launches"),
        ("--backend nvptx --emit ptx --verbose", "`--verbose` tells what assembled kernels take", "it goes with `--emit cubin` or `--emit sass`"),
    ],
)
def test_options_that_do_not_go_together(zyntax: Zyntax, options: str, message: str, hint: str) -> None:
    done = zyntax("compile", "two.zynml", *options.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error[ZYN0505]: {message}\nhint: {hint}\n"


def test_an_unknown_target_says_which_there_are(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "nvptx", "--target", "sm_70", "--emit", "ptx")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error[ZYN0501]: there is no GPU target `sm_70`\nhint: targets are {', '.join(PTX_VERSIONS)}\n"


def test_an_unknown_cpu_says_which_there_are(zyntax: Zyntax) -> None:
    done = zyntax("compile", "two.zynml", "--target", "sm_80", "--emit", "llvm")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error[ZYN0501]: there is no CPU target `sm_80`\nhint: targets are x86-64-v2, x86-64-v3, x86-64-v4, aarch64\n"


@pytest.mark.skipif(gpu_available(), reason="there is a GPU")
@pytest.mark.parametrize("emit", [(), ("--emit", "ptx")])
def test_without_a_gpu_cuda_says_why(zyntax: Zyntax, emit: tuple[str, ...]) -> None:
    done = zyntax("compile", "two.zynml", "--backend", "cuda", *emit)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error[ZYN0501]: `--backend cuda` compiles for the GPU that is here, and there is none: ")
    assert second == "hint: `--backend nvptx --target sm_90` compiles without one"


# ---- without the packages of the extra ----


def blocked(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command where nothing called `cuda` can be imported, and no toolkit is on the PATH."""
    script = f"import sys\nsys.modules['cuda'] = None\nfrom zyntax.main import main\nmain({list(arguments)!r})\n"
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/nowhere"}
    return subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("stage", ["hir", "ptx"])
def test_ptx_needs_no_package_of_nvidias(folder: Path, zyntax: Zyntax, stage: str) -> None:
    arguments = ("compile", "two.zynml", "--backend", "nvptx", "--emit", stage)
    done = blocked(folder, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == zyntax(*arguments).stdout


@pytest.mark.parametrize("device", [(), ("--device", "emulator")])
def test_programs_run_without_them(folder: Path, device: tuple[str, ...]) -> None:
    done = blocked(folder, "run", "double.zynml", *device)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tensor([0.0, 2.0, 4.0, 6.0], shape=[4], dtype=f32)\n", "")


@pytest.mark.parametrize("stage", ["cubin", "sass"])
def test_what_needs_them_is_one_clear_error(folder: Path, stage: str) -> None:
    done = blocked(folder, "compile", "two.zynml", "--backend", "nvptx", "--emit", stage)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error[ZYN0501]: cubins are made by NVIDIA's nvJitLink, which isn't installed\n"
        "hint: pip install 'zyntax-lang[compute]'; PTX is made without it\n"
    )


@pytest.mark.parametrize("arguments", [("compile", "two.zynml", "--backend", "cuda"), ("bench", "launch")])
def test_what_needs_a_gpu_names_the_extra(folder: Path, arguments: tuple[str, ...]) -> None:
    done = blocked(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[ZYN0501]: ") and len(done.stderr.splitlines()) == 2
    assert "the package `cuda-bindings` can't be imported" in done.stderr and "pip install 'zyntax-lang[compute]'" in done.stderr


def test_running_on_a_gpu_without_them_is_one_clear_error(folder: Path) -> None:
    done = blocked(folder, "run", "double.zynml", "--device", "cuda:0")
    assert done.returncode == 2
    assert done.stderr.startswith("error[ZYN0501]: ")
    assert "Traceback" not in done.stderr


def test_devices_say_what_is_missing(folder: Path) -> None:
    done = blocked(folder, "devices")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cuda: not here: the package `cuda-bindings` can't be imported" in done.stdout
