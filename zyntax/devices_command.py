"""`zyntax devices`."""

import click

HEAD = ("device", "what", "cores", "SIMD")


@click.command("devices")
def command() -> None:
    """List the devices that programs can run on, and those that they can't, with the reason."""
    from runtime.cpu import detect
    from runtime.device import ABSENT

    rows = [HEAD, ("cpu", detect.host_cpu(), str(detect.cores()), detect.simd_name())]
    rows += [(kind, f"not here: {reason}", "", "") for kind, reason in ABSENT.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
