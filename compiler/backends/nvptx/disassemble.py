"""A cubin's machine code as text, by NVIDIA's nvdisasm: of a CUDA toolkit, or of the extra `sass`."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from compiler.backends.nvptx.assemble import Cubin
from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.extras import install

EXTRA = install("sass")
SECONDS = 60


def find_disassembler() -> str | None:
    """Where nvdisasm is: on the PATH, in an installed package, or in a CUDA toolkit that the environment names."""
    path = shutil.which("nvdisasm")
    if path is not None:
        return path
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    path = find_nvidia_binary_utility("nvdisasm")
    return str(path) if path is not None else None


def disassemble(cubin: Cubin) -> str:
    """The code of all kernels, with the lines of the source it comes from. 0501 where there is no nvdisasm."""
    tool = find_disassembler()
    if tool is None:
        message = "machine code is shown by NVIDIA's nvdisasm, which isn't installed"
        raise ZyntaxError(Diagnostic("0501", message, hint=f"{EXTRA}, or put a CUDA toolkit's `bin` on the PATH; PTX is shown without it"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin.bytes)
        command = [tool, "--print-code", "--print-line-info", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(tool, str(error)) from error
    if done.returncode:
        raise _failed(tool, (done.stderr or done.stdout).strip())
    return done.stdout


def _failed(tool: str, words: str) -> ZyntaxError:
    hint = f"an older one doesn't know every target: {EXTRA}"
    return ZyntaxError(Diagnostic("0501", f"`{tool}` doesn't take this cubin: {words}", hint=hint))
