"""`zyntax devices`: what programs can run on here, with properties and limits, and what they can't, with the reason."""

import json
from collections.abc import Iterator
from typing import Any

import click

from zyntax.gpu_here import require_gpu
from zyntax.options import error_format
from zyntax.report import reporter

Entry = dict[str, Any]
"""A device's `device`, `present`, `name` (or the `reason` why it isn't here), and its properties; memory in bytes, clocks in kHz."""


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="As JSON: a list of objects, memory in bytes, clocks in kHz.")
@click.option("--measure", is_flag=True, help="Measure the GPUs first, and keep the figures: kernels are chosen by them from then on.")
@error_format
def command(as_json: bool, measure: bool, error_format: str) -> None:
    """List the devices that programs can run on, with their limits, and those that they can't, with the reason."""
    if measure:
        reporter(error_format)
        _measure()
    entries = [_cpu(), _emulator(), *_gpus(), *_absent()]
    if as_json:
        print(json.dumps(entries, indent=2))
        return
    for entry in entries:
        print(f"{entry['device']}: {entry['name'] if entry['present'] else 'not here: ' + entry['reason']}")
        rows = list(_rows(entry))
        width = max((len(word) for word, _ in rows), default=0)
        for word, text in rows:
            print(f"  {word.ljust(width)}  {text}")


def _measure() -> None:
    """Each GPU."""
    require_gpu("`zyntax devices --measure` measures GPUs", "without `--measure` it lists what is here")
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.launch.cuda.rates import measured
    from runtime.cuda.driver import driver
    from runtime.cuda.errors import CudaError, CudaRefused
    from runtime.cuda.gpu import gpu

    for ordinal in range(driver().device_count):
        try:
            measured(gpu(ordinal))
        except (CudaError, CudaRefused) as error:
            raise ZyntaxError(Diagnostic("0805", f"cuda:{ordinal} failed: {error}")) from None
        except ValueError as error:
            raise ZyntaxError(Diagnostic("0805", f"cuda:{ordinal} gave a figure that can't be: {error}")) from None


def _cpu() -> Entry:
    from runtime.cpu import detect

    return {
        "device": "cpu",
        "present": True,
        "name": detect.host_cpu(),
        "cores": detect.cores(),
        "simd": detect.simd_name(),
        "vector_bits": detect.vector_bits(detect.host_features()),
        "caches": detect.caches(),
    }


def _emulator() -> Entry:
    return {"device": "emulator", "present": True, "name": "GPU code in an interpreter: slow, and checks every access"}


def _absent() -> Iterator[Entry]:
    from runtime.device import ABSENT

    for kind, reason in ABSENT.items():
        if kind != "cuda":
            yield {"device": kind, "present": False, "reason": reason}


def _gpus() -> Iterator[Entry]:
    """An entry for each GPU, or one that says why there is none."""
    from runtime.cuda.driver import driver, unavailable_reason

    reason = unavailable_reason()
    if reason is not None:
        yield {"device": "cuda", "present": False, "reason": reason}
        return
    for ordinal in range(driver().device_count):
        yield _gpu(ordinal)


def _gpu(ordinal: int) -> Entry:
    import attrs

    from compiler.backends.nvptx.target import ptx_of_driver, target_of_device
    from compiler.diagnostics import ZyntaxError
    from compiler.launch.cuda.rates import rates_of
    from compiler.machines.rates import H200
    from runtime.cuda.device import CudaDevice
    from runtime.cuda.driver import driver
    from runtime.cuda.errors import CudaError

    device = CudaDevice(driver(), ordinal)
    limits = device.properties
    entry: Entry = {"device": f"cuda:{ordinal}", "present": True, **attrs.asdict(limits), "architecture": limits.architecture}
    entry["ptx_version"] = ptx_of_driver(limits.driver_version)
    rates = rates_of(device)
    entry["rates"] = None if rates is H200 else attrs.asdict(rates)
    try:
        entry["target"] = target_of_device(limits.capability).machine.name
        entry["memory_free"] = device.memory()[0]
    except (ZyntaxError, CudaError) as error:
        words = error.diagnostics[0].message if isinstance(error, ZyntaxError) else str(error)
        return {**entry, "present": False, "reason": words}
    return entry


# ---- in words ----


def _rows(entry: Entry) -> Iterator[tuple[str, str]]:
    if entry["device"] == "cpu":
        yield "cores", str(entry["cores"])
        yield "SIMD", entry["simd"] + (f", {entry['vector_bits']} bits" if entry["vector_bits"] else "")
        if entry["caches"]:
            yield "caches", ", ".join(f"{name} {_bytes(size)}" for name, size in entry["caches"].items())
    elif entry["present"] and entry["device"].startswith("cuda"):
        yield "architecture", f"{entry['architecture']}; programs are compiled for {entry['target']}"
        yield "multiprocessors", f"{entry['multiprocessors']}, {entry['clock'] / 1e6:.2f} GHz"
        yield "memory", f"{_bytes(entry['memory'])}, {_bytes(entry['memory_free'])} free; L2 cache {_bytes(entry['l2_cache'])}"
        shared = f"{_bytes(entry['shared_per_block'])} of shared memory, {_bytes(entry['shared_per_block_opt_in'])} when asked for"
        yield "a block", f"{entry['max_threads_per_block']} threads, {entry['registers_per_block']} registers, {shared}"
        held = f"{entry['max_threads_per_multiprocessor']} threads, {entry['max_blocks_per_multiprocessor']} blocks"
        yield "a multiprocessor", f"{held}, {_bytes(entry['shared_per_multiprocessor'])} of shared memory"
        if rates := entry["rates"]:
            memory = f"memory {rates['memory']:.0f} GB/s, L2 cache {rates['second_cache']:.0f} bytes a cycle and multiprocessor"
            waits = f"a load {rates['latency']:.0f} cycles, a block {rates['block']:.0f}, a launch {rates['launch'] / 1000:.1f} us"
            yield "measured", f"{memory}; {waits}; {rates['clock']:.2f} GHz"
        yield "driver", f"CUDA {_version(entry['driver_version'])}, PTX {_version(entry['ptx_version'])}"


def _version(parts: tuple[int, int]) -> str:
    return f"{parts[0]}.{parts[1]}"


def _bytes(size: int) -> str:
    """In the largest unit that gives at least 1, with a digit behind the point where it isn't whole."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size // unit if size % unit == 0 else f'{size / unit:.1f}'} {name}"
    return f"{size} bytes"
