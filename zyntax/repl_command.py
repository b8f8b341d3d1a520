"""`zyntax repl`: what is typed in runs at once."""

import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zyntax.inputs import language_option
from zyntax.interrupts import noticed
from zyntax.options import compile_options, device, error_format, floats, level, products, threads
from zyntax.report import reporter

if TYPE_CHECKING:
    from zyntax.interactive import Interpreter
    from zyntax.report import Reporter

_HELP = """:type EXPRESSION    its type, without running it
:emit STAGE [TEXT]  all that was typed in, and TEXT, at a stage: typed-ast, hir, schedule, llvm, asm
:time TEXT          runs it, and says how long that took
:help               this page
:quit               ends, as the end of the input does"""
_PROMPT, _MORE = "> ", ". "
_HISTORY_LINES = 10_000


@click.command("repl")
@language_option
@device
@floats
@products
@threads
@level
@error_format
def command(language: str | None, error_format: str, **given: Any) -> int:
    """Run what is typed in, input by input, and print the value of each. Names live on; what is declared again replaces what was.

    An input with an open bracket goes on in the next line, and so does a block behind a colon, until an empty line. `:help` lists what
    else can be typed; Ctrl-C leaves a line, or stops what runs. Without a terminal the inputs come from standard input."""
    reporter_ = reporter(error_format)
    from compiler.diagnostics import Diagnostic, ZyntaxError
    from compiler.languages import endings, language_named, language_with
    from zyntax.interactive import Interpreter

    chosen = language_named(language) if language is not None else language_with(endings()[0])
    if chosen.replays:
        message = f"a program in {chosen.title} begins at its `main`: it has no statements that could be typed in"
        raise ZyntaxError(Diagnostic("0505", message, hint=f"zyntax run - --language {chosen.name} reads a whole program"))
    interpreter = Interpreter(chosen, compile_options(**given), reporter_)
    with_terminal = sys.stdin.isatty()
    if with_terminal:
        _prepare_lines(interpreter)
        print(f"{chosen.title}; `:help` lists what can be typed besides programs")
    with noticed():
        while True:
            try:
                text = _read(with_terminal)
                if text is None or text.strip() in (":quit", ":q"):
                    return 0
                _answer(interpreter, text, reporter_)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
            sys.stdout.flush()


def _read(with_terminal: bool) -> str | None:
    """The next input; None at the end."""
    from zyntax.interactive import goes_on

    text = ""
    while True:
        try:
            line = input((_MORE if text else _PROMPT) if with_terminal else "")
        except EOFError:
            return text or None
        text += line + "\n"
        if line.lstrip().startswith(":") and text.count("\n") == 1:
            return text
        if not goes_on(text):
            return text


def _answer(interpreter: "Interpreter", text: str, reporter_: "Reporter") -> None:
    from compiler.diagnostics import ZyntaxError
    from runtime.extras import PackageMissing

    try:
        word = re.match(r"\s*:(\w*)[ \t]*(.*)", text, re.DOTALL)
        if word is not None:
            _command(interpreter, word[1], word[2].strip())
        elif text.strip():
            _show(interpreter.run(text))
    except ZyntaxError as error:
        sys.stdout.flush()
        reporter_.show(error.diagnostics)
    except PackageMissing as missing:
        from compiler.codes.packages import package_missing

        reporter_.show([package_missing(missing)])


def _command(interpreter: "Interpreter", word: str, rest: str) -> None:
    match word:
        case "help":
            print(_HELP)
        case "type" if rest:
            print(interpreter.type_of(rest))
        case "emit" if rest:
            stage, _, text = rest.partition(" ")
            print(interpreter.emit(stage, text).rstrip("\n"))
        case "time" if rest:
            began = time.perf_counter()
            value = interpreter.run(rest)
            took = time.perf_counter() - began
            _show(value)
            print(f"{took * 1e3:.2f} ms, with compiling")
        case _:
            print(f"`:{word}` isn't known, or lacks what it is about\n{_HELP}", file=sys.stderr)


def _show(value: str | None) -> None:
    if value is not None:
        print(value)


def _prepare_lines(interpreter: "Interpreter") -> None:
    """Editing, history and completion, where Python has `readline`."""
    try:
        import atexit
        import readline
    except ImportError:
        return
    import platformdirs

    history = Path(platformdirs.user_state_dir("zyntax")) / "history"
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        if history.exists():
            readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)

    def keep() -> None:
        with suppress(OSError):
            readline.write_history_file(history)

    def complete(begun: str, number: int) -> str | None:
        line = readline.get_line_buffer()[: readline.get_endidx()]
        names = [name for name in completions(interpreter, begun, line) if name.startswith(begun)]
        return names[number] if number < len(names) else None

    atexit.register(keep)
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")


def completions(interpreter: "Interpreter", begun: str, line: str) -> list[str]:
    """What a word that has begun may become, at the end of a line: behind a point a field or a method of what stands before it."""
    before, point, _ = begun.rpartition(".")
    if point:
        ended = line[: len(line) - len(begun)]
        return [f"{before}.{name}" for name in interpreter.members(_ends_with(ended + before))]
    from grammars.words import HARD

    return sorted({*interpreter.names, *HARD, *interpreter.language.grammar.words.soft})


def _ends_with(line: str) -> str:
    """The names, calls and indices at the end of a line, which belong together: `f(x)[1].y` of `let z = f(x)[1].y`."""
    depth, start = 0, len(line)
    while start > 0:
        sign = line[start - 1]
        if sign in ")]":
            depth += 1
        elif sign in "([":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and not (sign.isalnum() or sign in "_."):
            break
        start -= 1
    return line[start:]
