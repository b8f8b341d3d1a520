"""What a real device refuses or breaks: coded, with its place, and a clean end of the process."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from runtime.cuda.driver import gpu_count
from runtime.cuda.gpu import Gpu
from zynml.api import open_source

ROOT = Path(__file__).parent.parent.parent


def fails(text: str, device: str | None = None) -> str:
    source = Source("program.zynml", text)
    with pytest.raises(ZyntaxError) as caught, contextlib.redirect_stdout(io.StringIO()):
        open_source(source, CompileOptions(device=device), Sources(source), lambda warning: None).run()
    return "\n\n".join(render(diagnostic, Sources(source)) for diagnostic in caught.value.diagnostics)


def test_a_device_beyond_the_last(gpu: Gpu) -> None:
    found = fails("let x = zeros(3)\nlet y = compute(x) @device(\"cuda:99\") { for i in 0..N: out[i] = x[i] }\n")
    assert found.startswith("error[ZYN0501]: there is no device `cuda:99` here\n --> program.zynml:2:20\n")
    assert f"this machine has {gpu_count()} CUDA device" in found
    assert fails("let x = zeros(3)", "cuda:99").startswith("error[ZYN0501]: there is no device `cuda:99` here\nhint: this machine has ")


def test_out_of_memory_shows_sizes_and_pool(gpu: Gpu) -> None:
    limit = gpu.pool.limit
    try:
        found = fails(
            'let p = memory_pool("cuda:0", limit=1000000)\nlet x = zeros(1000000)\n'
            'let y = compute(x) @device("cuda:0") { for i in 0..N: out[i] = x[i] }\n'
        )
    finally:
        gpu.pool.limit = limit
    assert found.startswith("error[ZYN0804]: out of memory on the device: ") and " --> program.zynml:3:9\n" in found
    assert "3.8 MiB asked for; the pool has " in found and "free of" in found


def test_out_of_memory_of_the_device_itself(gpu: Gpu) -> None:
    """More than any device has, asked of the pool: the program would not find the host's memory for it."""
    from compiler.codes.device_faults import described
    from runtime.cuda.errors import CudaOutOfMemory

    with pytest.raises(CudaOutOfMemory) as caught:
        gpu.allocate(1 << 45)
    code, message, _ = described(caught.value)
    assert code == "0804" and "32768 GiB asked for; the pool has " in message and "free of" in message
    assert gpu.allocate(1024) is not None


def test_more_threads_than_a_block_has(gpu: Gpu) -> None:
    found = fails("let y = compute() -> tensor[2048] @kernel(custom) @workgroup(2048) @device(\"cuda:0\") { out[thread_idx().x] = 1.0 }\n")
    assert found.startswith("error[ZYN0502]: a workgroup of 2048 threads is over the limit of 1024\n")


def test_more_shared_memory_than_a_block_has(gpu: Gpu) -> None:
    text = (
        'let y = compute() -> tensor[64] @kernel(custom) @workgroup(64) @grid(1) @device("cuda:0") {\n'
        "    shared var s[100000]\n    let t = thread_idx().x\n    s[t] = 1.0\n    barrier()\n    out[t] = s[63 - t]\n}\nprintln(y[0])\n"
    )
    assert fails(text).startswith("error[ZYN0503]: ")


FAULT = """
import sys
from pathlib import Path
from runtime.cuda import remote
from runtime.cuda.gpu import gpu

real = remote.sent

def stray(tensor, on, named=False, stream=None):
    made = real(tensor, on, named, stream)
    made.elements.pointer = 0x10
    return made

remote.sent = stray
from zyntax.main import main
main(["run", sys.argv[1]])
"""


def test_a_kernel_fault_names_kernel_and_line_and_the_process_ends_cleanly(gpu: Gpu, tmp_path: Path) -> None:
    """A tensor whose address is wrong: no program can write one, so its memory is tampered with, in a process of its own."""
    program = tmp_path / "stray.zynml"
    program.write_text(
        'let x = zeros(1000).to_device("cuda:0")\nlet y = compute(x) @name("copied") {\n    for i in 0..N: out[i] = x[i]\n}\nprintln(y)\n'
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", FAULT, str(program)], capture_output=True, text=True, timeout=90, env=environment, check=False)
    assert done.returncode == 1, done.stderr
    assert "error[ZYN0805]: a kernel failed on the device: " in done.stderr and "stray.zynml:2" in done.stderr
    assert "in the kernel `copied" in done.stderr and "the context is lost" in done.stderr and "Traceback" not in done.stderr
