"""Tuning runs on a GPU: what they find is right, told, kept and found again; and when there is none."""

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.devices.tuning import tuner
from compiler.devices.tuning.contest import Verdict
from runtime.cuda.gpu import Gpu

RANDOM = np.random.default_rng(31)
BF16 = np.dtype(ml_dtypes.bfloat16)

PRODUCT = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16]) {
    compute(A, B) @kernel(matmul) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
}"""

SIZES = (256, 1024, 2048)
"""Rows, columns and terms that may be cut in several ways of about the same time."""


def matrices(m: int, n: int, k: int) -> tuple[Any, Any]:
    return tuple(RANDOM.standard_normal(shape, np.float32).astype(BF16) for shape in ((m, k), (k, n)))


def error(found: Any, a: Any, b: Any) -> float:
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(np.asarray(found).astype(np.float64) - wanted) / np.linalg.norm(wanted))


@pytest.fixture
def told(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Tuning is on, with a cache of its own and nothing known; gives what runs came to since it was asked last."""
    if gpu.device.properties.capability != (9, 0):
        pytest.skip("only products of warpgroups leave a choice")
    for name, value in {"ZYNTAX_TUNE": "on", "ZYNTAX_CACHE": "on", "ZYNTAX_CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ZYNTAX_TUNE_BUDGET", raising=False)
    caplog.set_level(logging.INFO, "zyntax.tuning")
    tuner.forget()

    def lines() -> list[str]:
        messages = [record.message for record in caplog.records if record.name == "zyntax.tuning"]
        caplog.clear()
        return messages

    yield lines
    tuner.forget()


def test_a_run_is_right_and_told_and_found_again(told: Callable[[], list[str]]) -> None:
    a, b = matrices(*SIZES)
    f = zynml.compile(PRODUCT, device="cuda:0").f
    assert error(f(a, b), a, b) < 4e-3
    (line,) = told()
    assert "(A 256x2048, B 2048x1024)" in line and " candidates in " in line
    assert error(f(a, b), a, b) < 4e-3 and told() == []
    if "the model's choice stands" not in line:  # on a busy device nothing is kept
        tuner.forget()
        other = zynml.compile(PRODUCT, device="cuda:0").f
        assert error(other(a, b), a, b) < 4e-3 and told() == []


def test_other_sizes_are_another_run(told: Callable[[], list[str]]) -> None:
    f = zynml.compile(PRODUCT, device="cuda:0").f
    for k in (2048, 4096):
        a, b = matrices(*SIZES[:2], k)
        assert error(f(a, b), a, b) < 4e-3
        assert len(told()) == 1


def test_a_damaged_entry_is_as_none(told: Callable[[], list[str]], tmp_path: Path) -> None:
    a, b = matrices(*SIZES)
    zynml.compile(PRODUCT, device="cuda:0").f(a, b)
    told()
    for path in (tmp_path / "code").iterdir():
        path.write_bytes(path.read_bytes()[:-7] + b"damaged")
    tuner.forget()
    assert error(zynml.compile(PRODUCT, device="cuda:0").f(a, b), a, b) < 4e-3
    assert len(told()) == 1


@pytest.mark.parametrize("how", ["keyword", "environment"])
def test_none_where_nobody_wants_one(told: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "environment":
        monkeypatch.setenv("ZYNTAX_TUNE", "off")
    a, b = matrices(*SIZES)
    assert error(zynml.compile(PRODUCT, device="cuda:0", tune=how != "keyword").f(a, b), a, b) < 4e-3
    assert told() == []


def test_what_is_multiplied_stays_as_it_is(told: Callable[[], list[str]]) -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.from_numpy(each.astype(np.float32)).to("cuda", torch.bfloat16) for each in matrices(*SIZES))
    before = a.clone(), b.clone()
    found = torch.from_dlpack(zynml.compile(PRODUCT, device="cuda:0").f(a, b))
    assert len(told()) == 1
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])
    wanted = a.double() @ b.double()
    assert float((found.double() - wanted).norm() / wanted.norm()) < 4e-3


def test_on_a_busy_device_answers_are_right(told: Callable[[], list[str]]) -> None:
    """Somebody else's products take the device now and then: whatever is found, it is told, and the product is right."""
    torch = pytest.importorskip("torch")
    stop, side = threading.Event(), torch.cuda.Stream()

    def disturb() -> None:
        other = torch.randn(2048, 2048, device="cuda")
        while not stop.is_set():
            with torch.cuda.stream(side):
                other @ other
            side.synchronize()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        a, b = matrices(*SIZES)
        f = zynml.compile(PRODUCT, device="cuda:0").f
        assert error(f(a, b), a, b) < 4e-3
        (line,) = told()
        assert any(verdict.value in line for verdict in Verdict if verdict is not Verdict.FASTER) or "times as fast" in line
    finally:
        stop.set()
        thread.join()
