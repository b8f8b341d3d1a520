"""What is known about one error code, for those who meet it. The messages themselves are made where the fault is found."""

from runtime.records import frozen


@frozen
class Code:
    """One code: four digits, a title, what it means in a few sentences, a program that has the fault, and one that hasn't.

    `absent` says why this version never raises the code; such a code has no wrong program. `runs`: the fault shows only when the
    program runs; `sanitize`: only when it runs with `--sanitize`. `language` is that of the two programs."""

    number: str
    title: str
    explanation: str
    wrong: str = ""
    right: str = ""
    runs: bool = False
    absent: str = ""
    sanitize: bool = False
    language: str = "zynml"

    @property
    def full(self) -> str:
        return f"ZYN{self.number}" if self.number.isdigit() else self.number


def code(
    number: str,
    title: str,
    explanation: str,
    wrong: str = "",
    right: str = "",
    *,
    runs: bool = False,
    absent: str = "",
    sanitize: bool = False,
    language: str = "zynml",
) -> Code:
    """A code written with triple quotes: the explanation becomes one paragraph, programs lose their outer line ends."""
    return Code(number, title, " ".join(explanation.split()), _program(wrong), _program(right), runs, absent, sanitize, language)


def _program(text: str) -> str:
    text = text.strip("\n").rstrip()
    return text + "\n" if text else ""
