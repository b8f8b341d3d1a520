"""The heads of a program's functions, from its tree and its text."""

from collections.abc import Container, Sequence

from compiler.source import Source, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.function_heads import FunctionHead, ParameterHead
from compiler.typed_ast.walk import walk


def head_of(function: nodes.Function, source: Source, known: Container[str]) -> FunctionHead:
    """What is shown of a function of this file; `known`: names that are no sizes in its annotations."""

    def text(span: Span) -> str:
        return " ".join(source.text[span.start : span.end].split())

    parameters = [
        ParameterHead(
            one.name,
            text(one.annotation.span) if one.annotation is not None else "",
            text(one.default.span) if one.default is not None else None,
            one.mutable,
        )
        for one in function.parameters
    ]
    blocks = [node.kernel for node in walk(function) if isinstance(node, nodes.Compute) and node.kernel is not None]
    devices = [name for kernel in blocks for name in kernel.devices if name != "auto"]
    result = text(function.result.span) if function.result is not None else ""
    begins = min(function.span.start, *(one.span.start for one in function.annotations), function.name_span.start)
    comment = comment_above(source.text[:begins])
    return FunctionHead(parameters, result, comment, _sizes(function, known), tuple(dict.fromkeys(devices)), function.name_span)


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


def _sizes(function: nodes.Function, known: Container[str]) -> tuple[str, ...]:
    """The names that a function's parameters give to extents, in the order of the text."""
    annotated = [node for parameter in function.parameters if parameter.annotation is not None for node in walk(parameter.annotation)]
    own = {parameter.name for parameter in function.parameters}
    return tuple(dict.fromkeys(n.name for n in annotated if isinstance(n, nodes.Name) and n.name not in known and n.name not in own))
