"""The command line: verbs, and the one place where an error becomes text and an exit code.

Exit codes: 0 fine; 1 the program failed while it ran (08xx, 09xx) or a test failed; 2 it doesn't compile, or wrong usage; 3 bad data;
4 `--enforce` isn't met; 130 interrupted."""

import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import click

from zyntax.garbage import collect_from_here
from zyntax.reader import ReaderGone

COMMANDS = {
    "run": "Run a program.",
    "check": "Report all errors of programs without running them.",
    "compile": "Compile, and show a stage: ast, typed-ast, hir, fusion, schedule, llvm, asm, obj; for GPUs ptx, cubin, sass.",
    "export": "Make a shared library with a C header of functions.",
    "test": "Run programs against the output that they state, and their `test` blocks.",
    "fmt": "Lay programs out: indentation, spaces, empty lines.",
    "new": "Begin a project: a program, a test and a page about them.",
    "repl": "Run what is typed in, input by input.",
    "explain": "Say what an error code means, with a wrong and a right program.",
    "language": "List the languages that are installed, begin one of your own, and test it.",
    "devices": "List the devices that programs can run on, with their limits.",
    "cache": "List the code that is kept between runs, remove it, or look whether it is whole.",
    "bench": "Measure what the runtime costs on this machine.",
}
"""Verbs and their one-line help. `zyntax/VERB.py` holds the command, imported only when it is called."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed, so that `--help` costs nothing."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name != "run":
            collect_from_here()
        module = importlib.import_module(f"zyntax.{_module_of(name)}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:
            # Click would end with 1 here.
            raise ReaderGone from None

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", context) from None


def _module_of(verb: str) -> str:
    """`compile` would hide the builtin inside its own package only in name; modules are called `VERB_command`."""
    return f"{verb}_command"


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="zyntax-lang", prog_name="zyntax")
def cli() -> None:
    """Textbook loop nests in, fast kernels out: runs and compiles ZynML programs (`.zynml`).

    `zyntax VERB --help` says more about a verb."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the script. Never lets a traceback out."""
    from zyntax.report import guarded

    code = guarded(lambda: cli.main(args=arguments, prog_name="zyntax", standalone_mode=False))
    _leave_work_behind(code)
    sys.exit(code)


def _leave_work_behind(code: int) -> None:
    """Ends the process at once where a program stopped while blocks were running beside it: nobody waits for them any more."""
    futures = sys.modules.get("runtime.futures")
    if futures is not None and futures.under_way():
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)
