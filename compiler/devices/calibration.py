"""The pace of this machine's devices, measured once: small blocks run on each as a program's would, and what they took is kept in the
user's cache, until machine, driver or the measuring change."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from compiler.devices.costs import Rates
from compiler.devices.places import DevicePlace
from compiler.hir.affine import Affine
from compiler.hir.parse import parse_function
from compiler.launch.block import ComputeBlock
from compiler.launch.kernels import BuiltKernel, KernelOptions
from compiler.lowering.kernel import (
    LaunchPlan,
    LoweredKernel,
    ResultArgument,
    Signature,
    SizeArgument,
    TensorArgument,
    TensorInput,
)
from compiler.lowering.result_plan import ResultPlan
from compiler.passes.analysed import analysed
from compiler.source import NOWHERE
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata
from compiler.typed_ast.types import DType
from runtime.cache.unfinished import remove_abandoned, written
from runtime.device import CPU, Device
from runtime.records import as_plain
from runtime.tensor import Tensor

VERSION = 2
"""Of the measuring: another gives other figures."""

STREAMED = 1 << 21
"""Elements of what is copied and read from memory: 8 MiB, more than caches near a core hold."""

COMPUTED = 1 << 17
STEPS = 64
"""Elements, and steps of a product and a sum on each."""

REPEATS = 2
SHORT_REPEATS = 25
"""Of what takes microseconds: the interpreter and the caches need some ten runs to get quick, as programs' loops do."""

STREAM = """
func @stream(%x: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=A {
  for i in 0..N {
    %a = load %x[i] : f32
    %b = add %a, %a : f32
    store %out[i], %b
  }
}
"""

ARITHMETIC = f"""
func @arithmetic(%x: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=A {{
  for i in 0..N {{
    %a = load %x[i] : f32
    %r = for k in 0..{STEPS} carry(%s = %a) {{
      %p = mul %s, %a contract : f32
      %q = add %p, %a contract : f32
      yield %q
    }}
    store %out[i], %r
  }}
}}
"""

Clock = Callable[[], float]


def known_rates(device_place: DevicePlace, options: KernelOptions) -> Rates:
    """The pace of a place: as the user's cache has it, else measured, and kept there."""
    path, machine = _path(), identity(device_place.device, options.threads)
    by_machine = _read(path)
    rates = by_machine.get(machine)
    if rates is None:
        rates = by_machine[machine] = measure(device_place, options)
        _write(path, by_machine)
    return rates


def identity(device: Device, threads: int) -> str:
    """What the figures of a device hold for: the machine, and the threads of a CPU or the driver of a GPU."""
    from runtime.cpu import detect

    words = [f"measure {VERSION}", detect.host_cpu()]
    if device == CPU:
        words.append(f"{threads} threads")
    else:
        from runtime.cuda.gpu import gpu

        properties = gpu(device.ordinal).device.properties
        words += [properties.name, properties.architecture, "driver {}.{}".format(*properties.driver_version)]
    return ", ".join(words)


def measure(device_place: DevicePlace, options: KernelOptions, clock: Clock = perf_counter) -> Rates:
    """Runs the blocks. Two kernels are compiled for the place, which is most of the time it takes."""
    x = Tensor(np.ones(STREAMED, np.float32))
    stream, arithmetic = (device_place.block(_block(text, options)) for text in (STREAM, ARITHMETIC))
    copy_to = copy_from = float("inf")
    if device_place.device != CPU:
        device_place.bring(x)
        copy_to = 4 * STREAMED / _quickest(device_place, lambda: device_place.bring(x), clock)
        there = device_place.bring(x)
        copy_from = 4 * STREAMED / _quickest(device_place, lambda: there.remote.to_host() if there.remote is not None else None, clock)
    little = Tensor(np.ones(1, np.float32))
    copy = _quickest(device_place, lambda: device_place.bring(little), clock, SHORT_REPEATS)
    single, many, some = (device_place.bring(Tensor(np.ones(count, np.float32))) for count in (1, STREAMED, COMPUTED))
    call = _quickest(device_place, lambda: stream({"x": single}), clock, SHORT_REPEATS)
    streaming = _quickest(device_place, lambda: stream({"x": many}), clock) - call
    computing = _quickest(device_place, lambda: arithmetic({"x": some}), clock) - call
    least = 1e-9  # a clock that is too coarse must not make a device infinitely fast
    return Rates(
        call=max(call, least),
        copy=max(copy, least),
        copy_to=copy_to,
        copy_from=copy_from,
        memory=8 * STREAMED / max(streaming, least),
        arithmetic=2 * STEPS * COMPUTED / max(computing, least),
    )


def _quickest(device_place: DevicePlace, run: Callable[[], Any], clock: Clock, repeats: int = REPEATS) -> float:
    """Seconds of the quickest of some runs, after one that compiles and allocates."""
    best = float("inf")
    for number in range(repeats + 1):
        started = clock()
        value = run()
        device_place.wait()
        if number:
            best = min(best, clock() - started)
        del value
    return best


def _block(text: str, options: KernelOptions) -> ComputeBlock:
    """A nest with an input `x` and a result of its size as a block that is built already."""
    signature = Signature([TensorInput("x", DType.F32, (None,), captured=True, span=NOWHERE)])
    size = Affine.of("x.0")
    plan = LaunchPlan(
        arguments=(TensorArgument("x"), ResultArgument(0), SizeArgument(size)),
        results=(ResultPlan("out", DType.F32, (size,)),),
        work=((size,),),
    )
    lowered = LoweredKernel(parse_function(text), plan, None, KernelMetadata(), signature=signature)
    built = BuiltKernel(analysed(lowered), options)
    compute = nodes.Compute(span=NOWHERE, body=nodes.Block(span=NOWHERE, statements=()))
    return ComputeBlock(compute, {}, {}, options, lambda warning: None, built={signature: built})


# ---- the user's cache ------------------------------------------------------------------------------------------------


def _path() -> Path:
    import platformdirs

    return Path(os.environ.get("ZYNTAX_CACHE_DIR") or platformdirs.user_cache_dir("zyntax")) / "devices.json"


def _read(path: Path) -> dict[str, Rates]:
    """The figures by what they hold for; none where the file is absent or damaged."""
    try:
        data = json.loads(path.read_bytes())
        by_machine = {machine: Rates(**{name: float(value) for name, value in rates.items()}) for machine, rates in data.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}
    return {machine: rates for machine, rates in by_machine.items() if all(value > 0 for value in as_plain(rates).values())}


def _write(path: Path, by_machine: dict[str, Rates]) -> None:
    """Atomically; a folder that can't be written to only costs the next start its time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent, of=path.name)
        with written(path) as file:
            file.write(json.dumps({machine: as_plain(rates) for machine, rates in by_machine.items()}, indent=1).encode())
