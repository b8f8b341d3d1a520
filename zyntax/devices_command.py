"""`zyntax devices`."""

import click


@click.command("devices")
def command() -> None:
    """List the devices that programs can run on, and those that they can't, with the reason."""
    from runtime.cpu.detect import describe

    for line in describe():
        print(line)
    print("cuda    not available: this version compiles for CPUs")
