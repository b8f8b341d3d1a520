"""A compiled program as Python and its notebooks show it: signatures, documentation, a list of functions."""

import inspect
from ast import literal_eval
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any

from compiler.typed_ast.function_heads import FunctionHead

WORDS = {"true": True, "false": False}


class BareText(str):
    """What a program says, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature_of(head: FunctionHead) -> inspect.Signature:
    """The signature as `inspect` has it; types are the program's own."""
    parameters = [
        inspect.Parameter(
            f"{parameter.name}_" if iskeyword(parameter.name) else parameter.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if parameter.default is None else _value(parameter.default),
            annotation=BareText(parameter.type) if parameter.type else inspect.Parameter.empty,
        )
        for parameter in head.parameters
    ]
    result = BareText(head.result) if head.result else inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=result, __validate_parameters__=False)


def _value(text: str) -> Any:
    """A default as Python's value, where it is a plain one."""
    try:
        value = WORDS[text] if text in WORDS else literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return BareText(text)
    return value if isinstance(value, bool | int | float | str) else BareText(text)


def documentation(name: str, head: FunctionHead | None) -> str:
    """The comment above a function, or a sentence that stands for it."""
    return head.comment if head is not None and head.comment else f"Function `{name}` of a ZynML program."


Row = tuple[str, str, str, str]


def rows(names: Iterable[str], heads: Mapping[str, FunctionHead], device: str | None) -> list[Row]:
    """Of each function: its name and head, its sizes, where its blocks run, its comment. `device` is named for all of them."""
    table = []
    for name in names:
        head = heads.get(name, FunctionHead())
        where = device if device not in (None, "auto") else ", ".join(head.devices)
        table.append((f"{name}{head}", ", ".join(head.sizes), where or "auto", head.comment))
    return table


def as_text(title: str, rows_: Sequence[Row]) -> str:
    """A line for each function."""
    lines = [f"  {head}  ({f'sizes {sizes}, ' if sizes else ''}on {where})" for head, sizes, where, _ in rows_]
    return "\n".join([title, *lines])


def as_html(title: str, rows_: Sequence[Row]) -> str:
    """A table, whatever the program's text says."""
    from html import escape

    cells = "".join(
        f"<tr><td><code>{escape(head)}</code></td><td>{escape(sizes)}</td><td>{escape(where)}</td><td>{escape(comment)}</td></tr>"
        for head, sizes, where, comment in rows_
    )
    head = "<tr><th>function</th><th>sizes</th><th>device</th><th></th></tr>"
    return f"<div><p>{escape(title)}</p><table><thead>{head}</thead><tbody>{cells}</tbody></table></div>"
