"""Broken programs, by the thousand: `python -m tests.mutations 10000 [SEED] [--language NAME] [--run]` changes bytes and tokens of real
programs and checks each one in its language: ZynML, or another that is registered. Every outcome must be a tree or coded messages: no other
exception, no internal fault, nothing that takes over five seconds of the processor. With `--run`, a program that checks is also run, in a
process of its own with a few seconds and little memory: it must not crash either."""

import argparse
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import Factory, define, evolve

from compiler.codes import CODES
from compiler.diagnostics import Diagnostic, ZyntaxError, render
from compiler.driver import CompileOptions
from compiler.language import Language
from compiler.languages import language_named, languages
from compiler.source import Source, Sources
from compiler.syntax.read import read_source

ROOT = Path(__file__).parents[1]
FOLDERS = ("programs", "tests/language/programs", "tests/language/small", "tests/grammars/programs")
LIMIT_S = 5.0
WAIT_LIMIT_S = 120.0
"""Of the clock: only a program that waits for something reaches it before LIMIT_S."""
RUN_LIMIT_S = 3
RUN_LIMIT_BYTES = 4 << 30
LIMIT_BYTES = 12 << 30
_LISTS = (
    "def fn let mut if elif else while for in return break continue match case struct enum import from true false and or not",
    "var shared step as type compute yield render config param test out zeros tensor f32 i64 int String list custom fused",
    "( ) [ ] { } : ; , . .. ..= => -> + - * / % @ < > == != = += | |> & && ? ?? ! ^ ** # $ \\ ' \"",
    '"text" f"{x}" """ /* */ // 0 1 -1 9223372036854775807 1e400 0xff 5q 1_000 \n \t é 😀 \0 ((((((((',
    '@kernel(matmul) @kernel(custom) @kernel(reduce,max) @device("cuda") barrier() \n\t',
)
WORDS = [word for words in _LISTS for word in words.split(" ")] + ["\n    ", "\n        "]
OPERATORS = ["+", "-", "*", "/", "%", "<", ">", "==", "!=", "@", "&"]
NUMBERS = ["0", "1", "2", "3", "7", "1000000", "9223372036854775807", "9223372036854775808", "1.5", "1e308", "0.0f32", "3u8", "255i8"]
_TOKEN = re.compile(r"\w+|[^\S\n]+|\n|.", re.DOTALL)


def programs(language: Language) -> list[str]:
    """The texts that are broken: the programs of this tree and those of its error pages, of its docs and, of ZynML, of its error codes."""
    files = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in language.endings)
    texts = [file.read_text(encoding="utf-8") for file in dict.fromkeys(files)]
    block = re.compile(rf"^```{language.name}\b[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for page in sorted([*(ROOT / "tests" / "errors").glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        texts += block.findall(page.read_text(encoding="utf-8"))
    if language.name == "zynml":
        texts += [text for code in CODES.values() for text in (code.wrong, code.right) if text]
    return [text for text in texts if text.strip()]


def mutations(seed: int, texts: list[str]) -> Iterator[bytes]:
    """Broken programs without end; the same for the same seed and programs."""
    choose = random.Random(seed)
    while True:
        text, kind = choose.choice(texts), choose.random()
        if kind < 0.2:
            yield _in_bytes(choose, text)
        elif kind < 0.5:
            yield _in_tokens(choose, text, texts)
        else:
            yield _in_meaning(choose, text, texts)


def _in_bytes(choose: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(choose.choice((1, 1, 2, 5, 20))):
        if not data:
            break
        at = choose.randrange(len(data))
        match choose.randrange(5):
            case 0:
                data[at] = choose.randrange(256)
            case 1:
                data[at] = choose.randrange(32, 127)
            case 2:
                del data[at : at + choose.choice((1, 1, 4, 40))]
            case 3:
                data[at:at] = bytes(choose.randrange(32, 127) for _ in range(choose.choice((1, 3))))
            case _:
                data[at] ^= 1 << choose.randrange(8)
    return bytes(data)


def _in_tokens(choose: random.Random, text: str, texts: list[str]) -> bytes:
    tokens = _TOKEN.findall(text)
    for _ in range(choose.choice((1, 1, 2, 3, 8))):
        if not tokens:
            break
        at, other = choose.randrange(len(tokens)), choose.randrange(len(tokens))
        match choose.randrange(8):
            case 0:
                del tokens[at : at + choose.choice((1, 1, 2, 10))]
            case 1:
                tokens.insert(other, tokens[at])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = choose.choice(WORDS)
            case 4:
                tokens.insert(at, choose.choice(WORDS))
            case 5:
                low, high = sorted((at, other))
                tokens[high:high] = tokens[low : min(high, low + 30)]
            case 6:
                del tokens[at:]
            case _:
                piece = _TOKEN.findall(choose.choice(texts))
                start = choose.randrange(len(piece))
                tokens[at:at] = piece[start : start + choose.choice((1, 5, 30))]
    return "".join(tokens).encode()


def _in_meaning(choose: random.Random, text: str, texts: list[str]) -> bytes:
    """Names for names, numbers for numbers, operators for operators, lines moved: what mostly still parses."""
    tokens = _TOKEN.findall(text)
    others = _TOKEN.findall(choose.choice(texts))
    for _ in range(choose.choice((1, 1, 2, 3, 6))):
        at = choose.randrange(len(tokens))
        kind = _kind(tokens[at])
        same = [token for token in (tokens if choose.random() < 0.6 else others) if _kind(token) == kind]
        match kind:
            case "space":
                lines = "".join(tokens).split("\n")
                one, two = choose.randrange(len(lines)), choose.randrange(len(lines))
                match choose.randrange(3):
                    case 0:
                        lines.insert(one, lines[two])
                    case 1:
                        lines[one], lines[two] = lines[two], lines[one]
                    case _:
                        del lines[one]
                tokens = _TOKEN.findall("\n".join(lines)) or ["\n"]
            case "number":
                tokens[at] = choose.choice([*NUMBERS, *same])
            case "operator":
                tokens[at] = choose.choice(OPERATORS)
            case _ if same:
                tokens[at] = choose.choice(same)
    return "".join(tokens).encode()


def _kind(token: str) -> str:
    if token.isspace():
        return "space"
    if token.isdecimal():
        return "number"
    if token in "+-*/%<>":
        return "operator"
    return "name" if token.isidentifier() else token


class TooLongError(BaseException):
    """A program takes too much time. No handler of the compiler catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """Raises TooLongError inside, where it takes over LIMIT_S of the processor or waits."""

    def stop(signal_number: int, frame: object) -> None:
        raise TooLongError

    kinds = ((signal.SIGPROF, signal.ITIMER_PROF, LIMIT_S), (signal.SIGALRM, signal.ITIMER_REAL, WAIT_LIMIT_S))
    before = [signal.signal(kind, stop) for kind, _, _ in kinds]
    try:
        for _, timer, limit in kinds:
            signal.setitimer(timer, limit)
        yield
    finally:
        for _, timer, _ in kinds:
            signal.setitimer(timer, 0)
        for (kind, _, _), handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)


@define
class Tally:
    """What became of the programs of a language: codes and how often, faults of our own, the time of the slowest."""

    language: Language
    count: int = 0
    clean: int = 0
    codes: Counter[str] = Factory(Counter)
    faults: list[tuple[str, bytes]] = Factory(list)
    slowest: float = 0.0

    def add(self, program: bytes, folder: Path, run: bool = False) -> None:
        started = time.process_time()
        try:
            with limited():
                found = check(self.language, program, folder)
        except (Exception, TooLongError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((one for one in reversed(frames) if one.filename != __file__), frames[-1])
            what = f"over {LIMIT_S:g} s" if isinstance(error, TooLongError) else f"{type(error).__name__}: {error}"
            self.faults.append((f"{what} ({Path(place.filename).name}:{place.lineno})", program))
            found = []
        else:
            self.clean += not found
        self.slowest = max(self.slowest, time.process_time() - started)
        self.count += 1
        self.codes.update(found)
        if "0901" in found:
            self.faults.append(("an internal fault", program))
        elif run and not any(code < "06" or code > "07" for code in found):
            fault = run_apart(self.language, program, folder)
            if fault is not None:
                self.faults.append((fault, program))

    @property
    def summary(self) -> str:
        return (
            f"{self.count} programs in {self.language.title}: {self.clean} check without an error, {len(self.codes)} different codes, "
            f"{len(self.faults)} faults of our own, the slowest took {self.slowest:.2f} s"
        )


def check(language: Language, program: bytes, folder: Path) -> list[str]:
    """The codes that a program's file gives; every message is also rendered. What checks is compiled, but not run. Raises only when something is wrong with us."""
    path = folder / f"program{language.endings[0]}"
    sources = Sources()
    found: list[Diagnostic] = []
    try:
        source = _source(program, path)
        sources.add(source)
        language.check(source, CompileOptions(), sources, found.extend)
        if language.name == "zynml":
            session = language.open(source, CompileOptions(), sources, lambda warning: None)
            session.emit("hir")
            session.options = evolve(session.options, device="cpu")
            session.host  # noqa: B018  (generates the host code; nothing runs)
    except ZyntaxError as error:
        found += error.diagnostics
    for diagnostic in found:
        assert render(diagnostic, sources)
    return [diagnostic.code for diagnostic in found]


def _source(program: bytes, path: Path) -> Source:
    try:
        return Source(path.name, program.decode("utf-8"))
    except UnicodeDecodeError:
        path.write_bytes(program)
        return read_source(path)


def run_apart(language: Language, program: bytes, folder: Path) -> str | None:
    """What goes wrong with us when the program runs, in a child with a budget; None for any end that a program may have."""
    child = os.fork()
    if child == 0:
        signal.alarm(RUN_LIMIT_S)
        resource.setrlimit(resource.RLIMIT_AS, (RUN_LIMIT_BYTES, RUN_LIMIT_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        code = 0
        try:
            os.chdir(folder)
            options = CompileOptions(device="cpu", threads=2, render_folder=str(folder / "out"))
            sources = Sources()
            source = sources.add(_source(program, folder / f"program{language.endings[0]}"))
            language.open(source, options, sources, lambda warning: None).run()
        except ZyntaxError as error:
            code = 3 * any(diagnostic.code == "0901" for diagnostic in error.diagnostics)
        except BaseException:
            code = 4
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status)
        return None if ended == signal.SIGALRM else f"killed by {signal.Signals(ended).name} as it ran"
    return {3: "an internal fault as it ran", 4: "an exception as it ran"}.get(os.WEXITSTATUS(status))


def tally(language: Language, count: int, seed: int, run: bool = False) -> Tally:
    """The outcome of so many mutations."""
    made = Tally(language)
    with tempfile.TemporaryDirectory() as folder:
        for number, program in enumerate(mutations(seed, programs(language))):
            if number == count:
                return made
            before = len(made.faults)
            made.add(program, Path(folder), run)
            for what, text in made.faults[before:]:
                print(f"--- {number}: {what}\n{text.decode('utf-8', 'backslashreplace')}", flush=True)
    return made


def main() -> int:
    names = [language.name for language in languages()]
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Checks broken programs.")
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--language", choices=names, default="zynml")
    parser.add_argument("--run", action="store_true", help="also run what checks, in a process of its own")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    found = tally(language_named(given.language), given.count, given.seed, given.run)
    print(", ".join(f"{code} {times}" for code, times in sorted(found.codes.items())))
    print(found.summary)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
