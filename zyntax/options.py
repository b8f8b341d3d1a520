"""Options that several commands share, declared once."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from compiler.options import CompileOptions

LEVELS = ["0", "1", "2", "3", "s", "latency"]
FLOATS = ["contract", "strict"]
PRODUCTS = ["f32", "tf32"]
TIERS = ["auto", "0", "1"]

error_format = click.option(
    "--error-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Messages as text, or as JSON, one object a line.",
)
strict = click.option("--strict", is_flag=True, help="Make warnings errors.")
level = click.option(
    "-O",
    "level",
    type=click.Choice(LEVELS),
    help="How much to optimise: s is for size, latency for single calls.  [default: 3; strategies: latency]",
)
device = click.option(
    "--device",
    metavar="DEVICE",
    help="Run every compute block there (`cpu`, `cuda:0`, `auto`, `emulator`; `emulator:sm_80`: as that GPU would), whatever the "
    "program says.",
)
explain_placement = click.option(
    "--explain-placement",
    is_flag=True,
    help="Say on standard error for each compute block and size where it runs, what that costs, and why.",
)
sanitize = click.option(
    "--sanitize",
    is_flag=True,
    help="Run compute blocks on the emulator (as sm_90 would, unless `--device emulator:TARGET` names another) and report all races, "
    "places outside, reads of what nobody wrote, and barriers or warp operations that some threads miss.",
)


def _without_cache(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        os.environ["ZYNTAX_CACHE"] = "off"


no_cache = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=_without_cache,
    help="Compile strategies anew, and keep nothing in the user's cache.",
)
no_tune = click.option(
    "--no-tune",
    is_flag=True,
    help="Try no schedules out on a GPU, and use none that an earlier run found: estimates alone decide.",
)
tier = click.option(
    "--tier",
    type=click.Choice(TIERS),
    default=TIERS[0],
    show_default=True,
    help="Code that compute blocks begin with on the CPU: 0, made in LLVM's shortest way; 1, with all passes; auto: 0 where there is "
    "little to do, and 1 from when it is made. All have the same bits.",
)
explain_tiers = click.option(
    "--explain-tiers",
    is_flag=True,
    help="Say on standard error for each kernel on the CPU in which tier it begins, and when it has code of the next.",
)
floats = click.option(
    "--floats",
    type=click.Choice(FLOATS),
    help="What may be done with floats in blocks that don't say it: round a product and its sum once and sum in any order, or nothing.  "
    "[default: what `config` says, else contract]",
)
products = click.option(
    "--products",
    type=click.Choice(PRODUCTS),
    help="How factors of f32 are multiplied on GPUs in blocks that don't say it: each product by one FMA, or rounded to tf32.  "
    "[default: what `config` says, else no less exactly than by FMAs]",
)
threads = click.option("--threads", type=click.IntRange(1, 1024), help="Threads of compute blocks. Default: one a core.")
render_folder = click.option(
    "--render-dir", default="out", show_default=True, metavar="FOLDER", type=click.Path(file_okay=False), help="Where pictures are written."
)
render_page = click.option(
    "--render",
    "render_page",
    metavar="PAGE",
    type=click.Path(dir_okay=False),
    help="Collect all that the program renders in this html file, which needs no other file.",
)
emit_to = click.option(
    "--emit-to",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="Write every stage of the kernels that the run launches into this folder, as `zyntax compile --emit` shows them.",
)
settings = click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Value of a `param`; may be given often.")

OF_PROGRAMS = (
    device, explain_placement, sanitize, no_tune, tier, explain_tiers, floats, products, threads, render_folder, render_page, emit_to
)  # fmt: skip
"""Options that say where and how compute blocks run, and where pictures go."""


def execution(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that run programs."""
    for option in reversed(
        (
            device,
            explain_placement,
            sanitize,
            no_tune,
            tier,
            explain_tiers,
            floats,
            products,
            settings,
            threads,
            render_folder,
            render_page,
            strict,
            level,
            no_cache,
            error_format,
        )
    ):
        command = option(command)
    return command


def compile_options(**given: Any) -> "CompileOptions":
    """How a program is compiled, from the options of a command. Raises UsageError for a malformed `--set`."""
    from compiler.options import CompileOptions
    from compiler.typed_ast.levels import OptimizationLevel

    return CompileOptions(
        device=given.get("device"),
        sanitize=bool(given.get("sanitize")),
        strict=bool(given.get("strict")),
        threads=given.get("threads") or 0,
        level=OptimizationLevel(given.get("level") or "3"),
        parameters=settings_of(given),
        render_folder=given.get("render_dir") or "out",
        render_page=page_of(given.get("render_page")),
        floats=given.get("floats"),
        products=given.get("products"),
        tune=not given.get("no_tune"),
        tuned=_tell,
        tier=given.get("tier") or TIERS[0],
        explain_tiers=_tell if given.get("explain_tiers") else None,
        explain=_tell if given.get("explain_placement") else None,
        **{name: given[name] for name in ("doing", "launched") if name in given},
    )


def settings_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The texts of `--set`, by name. Raises UsageError for a malformed one."""
    settings = {}
    for text in given.get("settings") or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {text}: write NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _tell(text: str) -> None:
    click.echo(text, err=True)


def page_of(page: str | None) -> str | None:
    """The file of `--render`. Raises UsageError for one of another kind."""
    if page is not None and not page.lower().endswith((".html", ".htm")):
        raise click.BadParameter(f"`{page}` is no html file: its name ends in .html", param_hint="--render")
    return page
