"""The emulator as one of the targets: `emulator:sm_90a` has that machine's instructions and limits, wherever a device is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.launch import emulator
from compiler.machines.nvidia import MACHINES
from runtime.device import Device, parse_device
from runtime.tensor import numpy_dtype
from tests.sanitize.plants import PLANTS
from zyntax.main import cli
from zyntax.report import guarded

PRODUCT = """def f(a: tensor[M, K, bf16], b: tensor[K, N, bf16]): tensor {
    compute(a, b) -> tensor[M, N, f32] DEVICE { for i in 0..M { for j in 0..N {
        var s: f32 = 0.0
        for k in 0..K: s += a[i, k] * b[k, j]
        out[i, j] = s
    } } }
}"""
PRODUCTS = ("WarpgroupMma", "WarpMma", "Mma")
TARGETS = ", ".join(MACHINES)
DEVICES = "devices here: cpu"
SHARED = 'let y = compute() -> tensor[1] @kernel(custom) @workgroup(1) @grid(1) { shared var t[20000]\n t[0] = 1.0\n out[0] = t[0] }\nprintln(y)\n'


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.device._gpus", lambda: 0)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the instructions of the kernels that are made."""
    found: list[str] = []
    made = emulator.thread_kernel

    def recorded(*given: Any) -> emulator.ThreadKernel:
        kernel = made(*given)
        found.extend(type(op).__name__ for function in kernel.functions for top in function.body.body for op in top.walk())
        return kernel

    monkeypatch.setattr(emulator, "thread_kernel", recorded)
    return found


def operands() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(1)
    return tuple(chance.integers(-3, 4, shape).astype(numpy_dtype("bf16")) for shape in ((128, 64), (64, 128)))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("device", "wanted"), [("emulator:sm_90a", "WarpgroupMma"), ("emulator:sm_90", "WarpMma"), ("emulator", "WarpMma"), ("emulator:sm_75", "Fma")]
)
def test_a_product_is_what_the_target_multiplies_with(device: str, wanted: str, launched: list[str]) -> None:
    a, b = operands()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(zynml.compile(PRODUCT.replace("DEVICE", ""), device=device).f(a, b), exact)
    kinds = {name for name in launched if name in PRODUCTS}
    assert kinds == ({wanted} - {"Fma"})
    launched.clear()
    np.testing.assert_array_equal(zynml.compile(PRODUCT.replace("DEVICE", f'@device("{device}")')).f(a, b), exact)
    assert kinds == {name for name in launched if name in PRODUCTS}


def test_what_lies_on_an_emulator_is_computed_there(launched: list[str]) -> None:
    text = 'def g(x: tensor[N]): tensor { let y = x.to_device("emulator:sm_80")\n compute(y) { for i in 0..N: out[i] = y[i] + 1.0 } }'
    np.testing.assert_array_equal(zynml.compile(text).g(np.zeros(3, np.float32)), np.ones(3))
    assert launched


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str) -> str:
    file = tmp_path / "p.zynml"
    file.write_text(text)
    guarded(lambda: cli.main(["run", str(file), *options], standalone_mode=False))
    return capsys.readouterr().err.replace(f"{tmp_path}/", "")


def test_each_target_has_its_own_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, SHARED, "--device", "emulator:sm_80") == ""
    assert "a block needs 80000 bytes of shared memory; `sm_75` has 65536" in run(tmp_path, capsys, SHARED, "--device", "emulator:sm_75")


def test_an_unknown_target_by_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, capsys, "let y = compute() -> tensor[1] { out[0] = 1.0 }\n", "--device", "emulator:sm_99")
    assert found == f"error[ZYN0501]: there is no target `sm_99` to emulate\nhint: targets are {TARGETS}; {DEVICES}\n"


def test_an_unknown_target_by_the_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, capsys, 'let y = compute() -> tensor[1] @device("emulator:gfx942") { out[0] = 1.0 }\n')
    assert found == (
        "error[ZYN0501]: there is no target `gfx942` to emulate\n"
        " --> p.zynml:1:32\n"
        "  |\n"
        '1 | let y = compute() -> tensor[1] @device("emulator:gfx942") { out[0] = 1.0 }\n'
        "  |                                ^^^^^^^^^^^^^^^^^^^^^^^^^^ this block is to run there\n"
        f"note: targets are {TARGETS}; {DEVICES}\n"
        'hint: `--device cpu` runs the program on the CPU, as does `@device("auto")` here; `@device("emulator:gfx942", fallback="cpu")` falls back\n'
    )


@pytest.mark.parametrize("text", ['let y = zeros(3).to_device("emulator:sm_1")', 'config { device: "emulator:sm_1" }', 'let y = zeros(3, device="emulator:sm_1")'])
def test_an_unknown_target_in_the_library(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, capsys, f"{text}\n")
    assert found.startswith("error[ZYN0501]: there is no target `sm_1` to emulate\n --> p.zynml:1:")
    assert found.endswith(f"hint: targets are {TARGETS}; {DEVICES}\n")


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_the_sanitizer_watches_the_target(target: str) -> None:
    plant = next(plant for plant in PLANTS if plant.code == "0412")
    with pytest.raises(zynml.ZynMLError) as plain:
        zynml.compile(plant.text, sanitize=True).run()
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(plant.text, sanitize=True, device=f"emulator:{target}").run()
    assert caught.value.codes == plain.value.codes and plant.code in "".join(caught.value.codes)


def test_the_sanitizer_finds_nothing_in_a_product_of_warpgroups(launched: list[str]) -> None:
    a, b = operands()
    program = zynml.compile(PRODUCT.replace("DEVICE", ""), sanitize=True, device="emulator:sm_90a")
    np.testing.assert_array_equal(program.f(a, b), a.astype(np.float64) @ b.astype(np.float64))
    assert "WarpgroupMma" in launched


def test_names_of_devices() -> None:
    assert parse_device("emulator:sm_90a") == Device("emulator:sm_90a") and parse_device("emulator:0") == Device("emulator")
    assert (parse_device("emulator:toy").kind, parse_device("emulator:toy").target) == ("emulator", "toy")
    for name in ("emulator:", "emulator:1", "emulator:sm 9", "cpu:sm_90"):
        with pytest.raises(ValueError, match="names no device"):
            parse_device(name)
