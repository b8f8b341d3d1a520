"""`zyntax devices`."""

from collections.abc import Iterator

import click

HEAD = ("device", "what", "cores", "SIMD")

Row = tuple[str, str, str, str]


@click.command("devices")
def command() -> None:
    """List the devices that programs can run on, and those that they can't, with the reason."""
    rows = [HEAD, *_rows()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rows() -> Iterator[Row]:
    from runtime.cpu import detect
    from runtime.device import ABSENT

    yield "cpu", detect.host_cpu(), str(detect.cores()), detect.simd_name()
    yield "emulator", "GPU code in an interpreter: slow, and checks every access", "", ""
    yield from _gpus()
    for kind, reason in ABSENT.items():
        if kind != "cuda":
            yield kind, f"not here: {reason}", "", ""


def _gpus() -> Iterator[Row]:
    """A row for each GPU, or one that says why there is none."""
    from runtime.cuda.driver import driver, unavailable_reason
    from runtime.cuda.gpu import gpu_count, open_gpu

    reason = unavailable_reason()
    if reason is not None:
        yield "cuda", f"not here: {reason.partition(' (')[0]}", "", ""
        return
    for ordinal in range(gpu_count()):
        found = open_gpu(driver(), ordinal).device.properties
        memory = f"{found.memory / 2**30:.0f} GiB"
        yield f"cuda:{ordinal}", f"{found.name}, {found.architecture}, {memory}", str(found.multiprocessors), f"{found.warp_size} lanes"
