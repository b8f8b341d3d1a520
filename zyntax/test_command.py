"""`zyntax test`: programs that carry their expected output, and the `test` blocks inside programs."""

import contextlib
import io
from typing import Any

import click

from zyntax.options import compile_options, device, error_format, floats, level, products, render_folder, sanitize, strict, threads
from zyntax.progress import showing
from zyntax.report import reporter


@click.command("test")
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="PROGRAM|FOLDER...")
@device
@sanitize
@floats
@products
@threads
@render_folder
@level
@strict
@error_format
def command(paths: tuple[str, ...], error_format: str, **given: Any) -> int:
    """Run every PROGRAM, and all programs in every FOLDER, against the output that their first lines state; then their `test` blocks.

    \b
    // run: n = 4, device = cpu        values of `param`s, and the device
    // prints: 30                      a line of the output, in order
    // prints matching: loss 0\\.\\d+   the same, as a regular expression
    // prints ...                      any number of lines
    // fails: ZYN0501                  the program ends with this code

    Exits with 1 when one of them fails, or when there are none."""
    reporter_ = reporter(error_format)
    from zyntax.languages import programs_in

    passed = failed = 0
    with showing() as doing:
        for path in programs_in(paths):
            for name, fault in _outcomes(path, reporter_, {**given, "doing": lambda activity, path=path: doing(f"{path}: {activity}")}):
                if fault is None:
                    passed += 1
                    print(f"ok    {name}")
                else:
                    failed += 1
                    print(f"FAIL  {name}\n      " + fault.replace("\n", "\n      "))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def _outcomes(path: str, reporter_: Any, given: dict[str, Any]) -> "list[tuple[str, str | None]]":
    """Name and fault (None when all is well) of the program's run and of each of its tests."""
    from compiler.diagnostics import ZyntaxError, render
    from zyntax.expectations import expectations, mismatch
    from zyntax.languages import is_replayed, language_of, open_session, read

    def words(error: ZyntaxError) -> str:
        return "\n".join(render(d, reporter_.sources) for d in error.diagnostics)

    try:
        expected = expectations(read(path, reporter_).text, language_of(path).comment)
    except ZyntaxError as error:
        return [(path, words(error))]
    try:
        if is_replayed(path, reporter_):
            return _outcomes_of_blocks(path, reporter_, expected, given)
    except ZyntaxError as error:
        return [(path, None if expected.fails in [d.full_code for d in error.diagnostics] else words(error))]
    named = None if given.get("sanitize") else expected.device
    options = compile_options(**{**given, "device": given.get("device") or named, "settings": [f"{n}={v}" for n, v in expected.settings]})
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            session = open_session(path, options, reporter_)
            session.run()
    except ZyntaxError as error:
        codes = [d.full_code for d in error.diagnostics]
        if expected.fails in codes:
            return [(path, mismatch(expected.lines, output.getvalue()))]
        return [(path, words(error))]
    if expected.fails:
        return [(path, f"expected to fail with {expected.fails}, but ran to its end")]
    outcomes: list[tuple[str, str | None]] = [(path, mismatch(expected.lines, output.getvalue()) if expected.lines else None)]
    for name, test in session.host.tests.items():
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                test()
            outcomes.append((f"{path}: {name}", None))
        except ZyntaxError as error:
            outcomes.append((f"{path}: {name}", words(error)))
    return outcomes


def _outcomes_of_blocks(path: str, reporter_: Any, expected: Any, given: dict[str, Any]) -> "list[tuple[str, str | None]]":
    """Of a program that doesn't run by itself: that it is correct, and its tests. Raises ZyntaxError."""
    from compiler.diagnostics import render
    from compiler.syntax.read import read_source
    from zyntax.languages import language_of

    of_replays = language_of(path).of_replays
    assert of_replays is not None
    asked = {"parameters": dict(expected.settings), "level": given.get("level"), "strict": given.get("strict")}
    source = reporter_.sources.add(read_source(path))
    tests = of_replays().tested(source, asked, reporter_.sources, lambda warning: reporter_.show([warning]))
    whole = f"expected to fail with {expected.fails}, but it is correct" if expected.fails else None
    outcomes: list[tuple[str, str | None]] = [(path, whole)]
    for name, fault in tests:
        outcomes.append((f"{path}: {name}", render(fault, reporter_.sources) if fault is not None else None))
    return outcomes
