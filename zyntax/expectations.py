"""What a program says about its own run, in comments at its head:

    // run: n = 4, device = cpu
    // prints: tensor([2.0, 4.0], shape=[2], dtype=f32)
    // prints matching: test accuracy: 0\\.9[6-9]\\d\\d
    // fails: ZYN0501

`prints` lines, in order, are the whole standard output; `prints matching` is a regular expression for one line; `prints ...`
stands for any lines. Without any of them only the exit counts."""

import re

from runtime.records import field, frozen


@frozen
class ExpectedLine:
    """One expected line: exact text, a pattern, or (both None) any number of lines."""

    text: str | None = None
    pattern: str | None = None

    def __str__(self) -> str:
        return self.text if self.text is not None else f"/{self.pattern}/" if self.pattern is not None else "..."


@frozen
class Expectations:
    settings: tuple[tuple[str, str], ...] = field(default=())
    device: str | None = None
    lines: tuple[ExpectedLine, ...] = ()
    fails: str | None = None


def expectations(text: str, comment: str = "//") -> Expectations:
    """The expectations at the head of a program's text, in comments that begin with this sign."""
    settings: list[tuple[str, str]] = []
    device, fails = None, None
    lines: list[ExpectedLine] = []
    for line in text.splitlines():
        if not line.startswith(comment):
            break
        word, colon, rest = line[len(comment) :].strip().partition(":")
        rest = rest.removeprefix(" ")
        if not colon and word.strip() == "prints ...":
            lines.append(ExpectedLine())
        if not colon:
            continue
        match word:
            case "run":
                for part in rest.split(","):
                    name, _, value = (side.strip() for side in part.partition("="))
                    if name == "device":
                        device = value
                    else:
                        settings.append((name, value))
            case "prints":
                lines.append(ExpectedLine(text=rest))
            case "prints matching":
                lines.append(ExpectedLine(pattern=rest))
            case "fails":
                fails = rest.strip()
            case _:
                pass
    return Expectations(tuple(settings), device, tuple(lines), fails)


def mismatch(expected: tuple[ExpectedLine, ...], output: str) -> str | None:
    """What differs, in words, or None when the output is as expected."""
    got = output.splitlines()
    position = 0
    anything = False
    for number, line in enumerate(expected):
        if line.text is None and line.pattern is None:
            anything = True
            continue
        while True:
            if position >= len(got):
                return f"line {number + 1} is missing: {line}"
            if _fits(line, got[position]):
                position += 1
                anything = False
                break
            if not anything:
                return f"line {position + 1} is `{got[position]}`, expected `{line}`"
            position += 1
    if position < len(got) and not anything:
        return f"line {position + 1} is not expected: `{got[position]}`"
    return None


def _fits(line: ExpectedLine, text: str) -> bool:
    return text == line.text if line.text is not None else re.fullmatch(line.pattern or "", text) is not None
