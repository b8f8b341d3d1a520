"""PTX to a checked cubin through nvJitLink: works without a GPU and without a driver, but wants the extra `compute`."""

import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compiler.backends.nvptx.compile import PtxModule
from compiler.backends.nvptx.target import GpuTarget
from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.extras import install
from runtime.records import frozen

EXTRA = install("compute")


@frozen
class KernelUse:
    """What a kernel takes: registers a thread, bytes of a thread's local memory (`stack`) and how much of it registers are spilled to
    and from (`spills`), bytes of static shared memory a block."""

    registers: int
    spills: int
    shared: int
    stack: int = 0


@frozen
class Cubin:
    """Machine code for one architecture, and what its kernels take, by symbol. `registers`, `spills` and `shared` are the most of any."""

    bytes: bytes
    kernels: dict[str, KernelUse]
    log: str

    @property
    def registers(self) -> int:
        return max((use.registers for use in self.kernels.values()), default=0)

    @property
    def spills(self) -> int:
        return max((use.spills for use in self.kernels.values()), default=0)

    @property
    def shared(self) -> int:
        return max((use.shared for use in self.kernels.values()), default=0)


def can_assemble() -> bool:
    """Whether the extra is installed."""
    return bool(assembler_version())


@cache
def assembler_version() -> str:
    """Of the assembler that is installed; empty where there is none."""
    try:
        return ".".join(map(str, _linker().version()))
    except ZyntaxError:
        return ""


def _linker() -> Any:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception as error:  # absent, or its library can't be loaded: the binding raises many kinds
        message = "cubins are made by NVIDIA's nvJitLink, which isn't installed"
        raise ZyntaxError(Diagnostic("0501", message, hint=f"{EXTRA}; PTX is made without it")) from error
    return nvjitlink


def assemble(ptx: PtxModule | str, target: GpuTarget | None = None, line_info: bool = True) -> Cubin:
    """Assemble for the module's target, or for a given one. 0501 without the extra; an internal fault when PTX is refused."""
    text = ptx.text if isinstance(ptx, PtxModule) else ptx
    wanted = target or (ptx.target if isinstance(ptx, PtxModule) else None)
    assert wanted is not None, "a text alone doesn't say what it is for"
    if "setmaxnreg" in text and (whole := _by_toolkit(text, wanted, line_info)) is not None:
        return whole
    link = _linker()
    # What comes from the assembler's own cache comes without a word about each kernel.
    options = [f"-arch={wanted.machine.name}", "-verbose", "-O3", "-no-cache", *(["-lineinfo"] if line_info else [])]
    handle = link.create(len(options), options)
    try:
        data = text.encode()
        link.add_data(handle, link.InputType.PTX, data, len(data), "kernels.ptx")
        link.complete(handle)
        code = bytearray(link.get_linked_cubin_size(handle))
        link.get_linked_cubin(handle, code)
        log = _log(link, handle, "info")
    except link.nvJitLinkError as error:
        words = _log(link, handle, "error").strip() or str(error)
        message = f"internal fault in the NVPTX back end: the assembler refuses its PTX: {words}"
        raise ZyntaxError(Diagnostic("0901", message, hint="please report this with the program")) from error
    finally:
        link.destroy(handle)
    return Cubin(bytes(code), _uses(log), log)


@cache
def toolkit() -> str | None:
    """Where the toolkit's assembler is, on the path or in a package of NVIDIA's. It has the whole program, so roles of a kernel may hand
    registers to each other, which the assembler that links drops."""
    places = [folder for spec in [find_spec("nvidia")] if spec is not None for folder in spec.submodule_search_locations or ()]
    packaged = [str(Path(folder) / part / "bin" / "ptxas") for folder in places for part in ("cu13", "cuda_nvcc")]
    return next(filter(None, map(shutil.which, ["ptxas", *packaged])), None)


def _by_toolkit(text: str, target: GpuTarget, line_info: bool) -> Cubin | None:
    """None where there is no toolkit, or one that doesn't know such PTX."""
    program = toolkit()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_text(text)
        options = [f"-arch={target}", "-v", "-O3", *(["-lineinfo"] if line_info else []), "-o", str(cubin), str(source)]
        done = subprocess.run([program, *options], capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        return Cubin(cubin.read_bytes(), _uses(done.stderr), done.stderr)


def _log(link: Any, handle: Any, kind: str) -> str:
    size = getattr(link, f"get_{kind}_log_size")(handle)
    held = bytearray(size)
    if size:
        getattr(link, f"get_{kind}_log")(handle, held)
    return held.decode(errors="replace").rstrip("\0")


def _uses(log: str) -> dict[str, KernelUse]:
    """Read off the assembler's report and the linker's, which knows what the functions take that a kernel calls (and counts what the
    system has of shared memory)."""
    uses: dict[str, KernelUse] = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part.split("'", 1)[0]
        spills = [int(number) for number in re.findall(r"(\d+) bytes spill (?:stores|loads)", part)[:2]]
        _, _, linked = log.partition(f"Function properties for '{name}':")
        said = linked.partition("Function properties")[0] or part
        registers, stack = _number(said, r"(\d+) registers"), _number(said, r"(\d+)(?: bytes)? stack")
        uses[name] = KernelUse(registers, max(spills, default=0), _number(part, r"(\d+) bytes smem"), stack)
    return uses


def _number(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0
