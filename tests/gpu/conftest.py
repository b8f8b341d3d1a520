"""Tests on a real GPU. Without one, all are skipped, with the driver's reason. Each file runs alone."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.cuda.driver import driver, unavailable_reason
from runtime.cuda.gpu import Gpu, open_gpu
from runtime.cuda.gpu import gpu as find_gpu
from runtime.cuda.module import CudaKernel

HERE = Path(__file__).parent
SECONDS_PER_TEST = 120


@pytest.fixture(scope="module", autouse=True)
def compiled_anew() -> Iterator[None]:
    """Kernels are compiled by the test that runs them, by estimates alone, unless the environment says otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {"ZYNTAX_CACHE", "ZYNTAX_TUNE"} - os.environ.keys():
            patch.setenv(name, "off")
        yield


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    reason = unavailable_reason() if ours else None
    for item in ours:
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {reason}"))
        if config.pluginmanager.hasplugin("timeout"):
            item.add_marker(pytest.mark.timeout(SECONDS_PER_TEST))


@pytest.fixture(scope="session")
def shared_gpu() -> Gpu:
    return find_gpu(0)


@pytest.fixture
def gpu(shared_gpu: Gpu) -> Iterator[Gpu]:
    """The GPU; what a test leaves in use fails it."""
    shared_gpu.trim()
    before = shared_gpu.pool.statistics().blocks_in_use
    yield shared_gpu
    gc.collect()
    shared_gpu.stream.synchronize(timeout=60)
    gc.collect()
    shared_gpu.trim()
    assert shared_gpu.pool.statistics().blocks_in_use <= before


@pytest.fixture
def own_gpu() -> Iterator[Gpu]:
    """A GPU with pools of its own, for counting."""
    made = open_gpu(driver())
    yield made
    made.trim()


@pytest.fixture
def kernel(gpu: Gpu) -> Callable[[str, str], CudaKernel]:
    """A kernel of `ptx_kernels`, by the name of its text and its own."""
    from ptx_kernels import ALL

    return lambda text, name: gpu.modules.load(ALL[text], text).kernel(name)


@pytest.fixture
def in_a_process() -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run one part of `faults.py` in a process of its own, since a fault ends all use of the GPU there."""

    def run(part: str) -> subprocess.CompletedProcess[str]:
        root = str(HERE.parent.parent)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, str(HERE), os.environ.get("PYTHONPATH", "")])}
        command = [sys.executable, str(HERE / "faults.py"), part]
        return subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment, check=False)

    return run
