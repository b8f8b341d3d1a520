"""What is shown of a program's functions: parameters and result as they are written, the comment above, sizes, and devices that its blocks
name. Plain data, which the cache keeps beside a program."""

from collections.abc import Sequence

from attrs import field, frozen

from compiler.source import Source, Span
from compiler.tuples import as_tuple
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk


@frozen
class ParameterHead:
    """A parameter as it is written; `default` None: it must be given."""

    name: str
    type: str = ""
    default: str | None = None

    def __str__(self) -> str:
        type = f": {self.type}" if self.type else ""
        return f"{self.name}{type}" + (f" = {self.default}" if self.default is not None else "")


@frozen
class FunctionHead:
    """A function without its body."""

    parameters: tuple[ParameterHead, ...] = field(default=(), converter=as_tuple)
    result: str = ""
    comment: str = ""
    sizes: tuple[str, ...] = field(default=(), converter=as_tuple)
    devices: tuple[str, ...] = field(default=(), converter=as_tuple)
    span: Span | None = field(default=None, eq=False)
    """Where its name stands; None of a function from the cache."""

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))})" + (f": {self.result}" if self.result else "")


def head_of(function: nodes.Function, source: Source, sizes: Sequence[str]) -> FunctionHead:
    """What is shown of a function of this file; `sizes`: the names that its annotations give to extents."""

    def text(span: Span) -> str:
        return " ".join(source.text[span.start : span.end].split())

    parameters = [
        ParameterHead(
            one.name,
            text(one.annotation.span) if one.annotation is not None else "",
            text(one.default.span) if one.default is not None else None,
        )
        for one in function.parameters
    ]
    blocks = [node.kernel for node in walk(function) if isinstance(node, nodes.Compute) and node.kernel is not None]
    devices = [name for kernel in blocks if (name := str(kernel.device)) != "auto"]
    result = text(function.result.span) if function.result is not None else ""
    begins = min(function.span.start, *(one.span.start for one in function.annotations), function.name_span.start)
    return FunctionHead(parameters, result, comment_above(source.text[:begins]), sizes, tuple(dict.fromkeys(devices)), function.name_span)


def comment_above(text: str) -> str:
    """The comment that the text ends with, on lines of its own right above what follows; without its marks."""
    lines = text.split("\n")[:-1]
    found: list[str] = []
    while lines and lines[-1].strip().startswith("//"):
        found.insert(0, lines.pop().strip().removeprefix("//"))
    if found:
        return _outdented(found)
    end = text[: len(text) - len(text.split("\n")[-1])].removesuffix("\n").rstrip(" \t")
    if not end.endswith("*/"):
        return ""
    begin = end.rfind("/*")
    if end[:begin].split("\n")[-1].strip():
        return ""
    return _outdented([line.strip().removeprefix("*") if number else line for number, line in enumerate(end[begin + 2 : -2].split("\n"))])


def _outdented(lines: Sequence[str]) -> str:
    """The lines without the space that all of them begin with, nor empty ones around."""
    shared = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[shared:].rstrip() if line[:shared].isspace() else line.strip() for line in lines).strip("\n")
