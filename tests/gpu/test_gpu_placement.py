"""Where blocks run and tensors lie, on a real device."""

import contextlib
import io
import time

import numpy as np
import pytest

from compiler.devices.calibration import measure
from compiler.devices.places import CpuPlace, GpuPlace
from compiler.driver import CompileOptions, Session
from compiler.launch.kernels import KernelOptions
from compiler.source import Source, Sources
from runtime.cuda.gpu import Gpu
from zynml.api import open_source


def run(text: str, device: str | None = None) -> tuple[str, list[str], Session]:
    source, told = Source("program.zynml", text), []
    session = open_source(source, CompileOptions(device=device, explain=told.append), Sources(source), lambda warning: None)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        session.run()
    return output.getvalue(), told, session


def test_the_pace_of_devices_is_plausible(gpu: Gpu) -> None:
    """Not a figure to report: wide bounds that only a broken measurement misses."""
    rates = measure(GpuPlace(gpu, Sources()), KernelOptions())
    assert 1e-6 < rates.call < 1e-2 and 1e-6 < rates.copy < 1e-2 and 1e8 < rates.copy_to < 1e12 and 1e8 < rates.copy_from < 1e12
    assert rates.memory > 1e10 and rates.arithmetic > 1e10


def test_figures_are_kept(gpu: Gpu, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler.devices.calibration import known_rates

    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    place = GpuPlace(gpu, Sources())
    first = known_rates(place, KernelOptions())
    assert known_rates(place, KernelOptions()) == first and gpu.device.properties.name in (tmp_path / "devices.json").read_text()
    assert known_rates(CpuPlace(), KernelOptions()).copy_to == float("inf")


def test_much_work_goes_to_the_gpu_and_little_stays(gpu: Gpu, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    text = """
param n: int in 1..100_000 = 4
let a = ones(n, n)
let y = compute(a) {
    for i in 0..N, j in 0..N:
        var s = 0.0
        for k in 0..N:
            s += a[i, k] * a[k, j]
        out[i, j] = s
}
println(y[0, 0], y.device())
"""
    # `a` lies on the host: bringing it costs as much as the call
    output, told, _ = run(text)
    assert output == "4.0 cpu\n", told
    output, told, _ = run(text.replace("= 4", "= 2048"))
    assert output == "2048.0 cuda:0\n", told


def test_auto_gives_the_same_values_as_the_cpu(gpu: Gpu) -> None:
    text = """
let x = linspace(-3, 3, 100_003)
let y = compute(x) { for i in 0..N: out[i] = exp(x[i]) }
let z = compute(y) { for i in 0..N: out[i] = y[i] * 0.5 }
println(z.to_list())
"""
    outputs = [np.array(eval(run(text, device)[0])) for device in ("auto", "cpu", "cuda:0")]
    for found in outputs[1:]:
        np.testing.assert_allclose(found, outputs[0], rtol=1e-6)


def test_tensors_travel_and_stay(gpu: Gpu) -> None:
    output, told, _ = run(
        """
let x = arange(0, 1000).to_device("cuda:0")
mut y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
println(x.device(), y.device(), y[999], sum(y), y.device())
compute(mut y) @device("cuda:0") { for i in 0..N: y[i] = y[i] * 2.0 }
println(y[0], y[999], y.device(), y.to_device("cpu").device())
y[0] = 7.0
println(y.device(), y[0:2])
synchronize()
let p = allocate([3, 4], pinned=true)
println(p.shape(), p.device(), compute_devices()[0:2])
"""
    )
    assert output.splitlines()[:3] == [
        "cuda:0 cuda:0 1000.0 500500.0 cuda:0",
        "2.0 2000.0 cuda:0 cpu",
        "cpu tensor([7.0, 4.0], shape=[2], dtype=f32)",
    ]
    assert output.splitlines()[3].startswith('[3, 4] cpu ["cpu", "cuda:0"')
    assert told[0].startswith("program.zynml:3:9: compute of x [1000]: cuda:0, `x` was put there\n")


def test_calibration_is_short(gpu: Gpu) -> None:
    """Printed for the record (`-s`); no bound, since machines differ."""
    started = time.perf_counter()
    measure(GpuPlace(gpu, Sources()), KernelOptions())
    middle = time.perf_counter()
    measure(CpuPlace(), KernelOptions(threads=2))
    print(f"calibration: GPU {middle - started:.3f} s, CPU {time.perf_counter() - middle:.3f} s")
