"""How long a megabyte of ZynML takes to parse: `python -m bench.parsing [--bytes 1000000] [--rounds 3] [--only WORD]`.

Two texts are made with a seed: programs like those of the gallery (comments, kernels, prose in strings) with their names changed, and dense
small functions without comments. The time is processor time of this process through `zynml.parse.parse_source`, with Python's collection of
garbage on, as a program that imports the package has it; the least of the rounds counts.

The first time is that of the scanner, the layout filter and the machine, whose actions make nothing; the second makes the tree."""

import argparse
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

from compiler.source import Source
from grammars.loader import load
from grammars.machine import Machine
from zynml.grammar import GRAMMAR
from zynml.parse import parse_source

ROOT = Path(__file__).parents[1]
SEED = 20_240_917
_TOP_LEVEL_NAME = re.compile(r"^(?:async )?(?:def|struct|enum|let|mut) (\w+)", re.MULTILINE)


def gallery_like(size: int, seed: int = SEED) -> str:
    """Programs of the gallery, shuffled, each with its own names, until there are `size` characters."""
    chance = random.Random(seed)
    programs = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "programs" / "zynml").glob("*.zynml"))]
    texts: list[str] = []
    length = 0
    while length < size:
        text = chance.choice(programs)
        for name in set(_TOP_LEVEL_NAME.findall(text)) - {"main"}:
            text = re.sub(rf"\b{name}\b", f"{name}_{len(texts)}", text)
        texts.append(text)
        length += len(text) + 1
    return "\n".join(texts)


def dense_functions(size: int, seed: int = SEED) -> str:
    """Small functions of arithmetic, loops, branches, lists and calls without a comment, until there are `size` characters."""
    chance = random.Random(seed)
    texts: list[str] = []
    length = 0
    while length < size:
        text = _function(chance, len(texts))
        texts.append(text)
        length += len(text) + 1
    return "\n".join(texts)


def _function(chance: random.Random, number: int) -> str:
    def value(depth: int = 0) -> str:
        if depth > 2 or chance.random() < 0.35:
            return chance.choice(("a", "b", "x", "xs[i]", "p.x", str(chance.randrange(100)), f"{chance.random():.2f}"))
        forms: list[Callable[[], str]] = [
            lambda: f"{value(depth + 1)} {chance.choice('+-*/%')} {value(depth + 1)}",
            lambda: f"({value(depth + 1)} {chance.choice('+-')} {value(depth + 1)})",
            lambda: f"f{chance.randrange(max(number, 1))}({value(depth + 1)}, {value(depth + 1)})",
            lambda: f"xs[{value(depth + 1)}]",
            lambda: f"max({value(depth + 1)}, {value(depth + 1)})",
        ]
        return chance.choice(forms)()

    lines = [f"def f{number}(a: int, b: int): int {{", f"    let x = {value()}", f"    mut y = {value()}"]
    for _ in range(chance.randrange(1, 4)):
        lines += chance.choice(
            (
                [f"    if a < {value()} {{ y += {value()} }} else {{ y -= {value()} }}"],
                ["    for i in 0..b {", f"        y = {value()}", "    }"],
                [f"    while y > {value()} {{ y = y - {value()} }}"],
                [f"    let xs = [{value()}, {value()}, {value()}]"],
                [f'    print(f"{{y}} and {{a}}", {value()})'],
            )
        )
    return "\n".join([*lines, "    y", "}"])


def _nothing(*values: object) -> None:
    """The action of every rule where no tree is made."""


def without_tree(text: str) -> None:
    """Parse a text and make no tree of it: what the scanner, the layout and the machine take alone. Raises AssertionError at a fault."""
    tables = load(GRAMMAR)
    actions = type("NoActions", (), {rule.action: _nothing for rule in tables.rules if rule.action})
    machine = Machine(tables, GRAMMAR.words, actions(), text, "program")
    machine.run()
    assert not machine.faults, machine.faults[:3]


def with_tree(text: str) -> None:
    parse_source(Source("text.zynml", text))


def least(work: Callable[[str], None], text: str, rounds: int) -> float:
    """Seconds of processor time, the least of some rounds."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        work(text)
        taken.append(time.process_time() - start)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="texts whose name has this word")
    options = parser.parse_args()
    with_tree("let x = 1\n")  # Loads the tables.
    print(f"{'text':18} {'bytes':>9}  {'parse':>7} {'and tree':>9}  seconds of processor time")
    for name, text in (("gallery-like", gallery_like(options.bytes)), ("dense functions", dense_functions(options.bytes))):
        if options.only in name:
            bare, whole = least(without_tree, text, options.rounds), least(with_tree, text, options.rounds)
            print(f"{name:18} {len(text.encode()):9,}  {bare:7.2f} {whole:9.2f}")


if __name__ == "__main__":
    main()
