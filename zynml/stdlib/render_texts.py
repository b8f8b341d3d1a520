"""Renderings that are text: tables as html, markdown as it is or as html, and the page that collects all renderings of a run."""

import base64
from html import escape
from pathlib import Path
from typing import Any

from compiler.typed_ast.library import LibraryFault
from runtime.tensor import Tensor
from runtime.values import ElementSet, RecordValue, StructValue, elements_of, is_array
from zynml.stdlib.dtypes import host_scalar, type_name
from zynml.stdlib.printing import element_text, to_text
from zynml.stdlib.shapes import shape_text

MAX_CELLS = 1_000_000

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff }
figure { margin: 2em 0 } figcaption { font-weight: 600; margin-bottom: .5em } img { max-width: 100%; image-rendering: pixelated }
table { border-collapse: collapse } th, td { padding: .25em .8em; border-bottom: 1px solid #ccc; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums } th { border-bottom: 2px solid #888 }
pre { background: #f4f4f4; padding: .8em; overflow: auto }"""


# ---- tables ----------------------------------------------------------------------------------------------------------


def rows_of(value: Any) -> tuple[list[str] | None, list[list[Any]]]:
    """The names of the columns, where there are any, and the rows: of a tensor of rank 1 or 2, of a list of structs, maps, tuples or lists,
    of a map of columns or of single values."""
    if isinstance(value, Tensor):
        array = value.contents
        if array.ndim not in (1, 2):
            raise LibraryFault("0301", f"a table has rank 1 or 2, and this is a tensor of shape {shape_text(array.shape)}")
        return None, [[host_scalar(cell) for cell in row] for row in (array[:, None] if array.ndim == 1 else array)]
    if isinstance(value, StructValue):
        return ["", ""], [[name, part] for name, part in zip(value.__record__.parts, value, strict=True)]
    if isinstance(value, dict) and not isinstance(value, ElementSet):
        if value and all(_is_listed(part) for part in value.values()):
            return [to_text(name) for name in value], _side_by_side([_list_of(part) for part in value.values()])
        return ["", ""], [[name, part] for name, part in value.items()]
    if not _is_listed(value):
        raise LibraryFault("0203", f"a table is made of lists, maps, structs and tensors, not {type_name(value)}")
    rows = _list_of(value)
    if rows and all(isinstance(row, StructValue) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row.__record__.parts))
        return names, [[getattr(row, name, "") for name in names] for row in rows]
    if rows and all(isinstance(row, dict) and not isinstance(row, ElementSet) for row in rows):
        keys = list(dict.fromkeys(key for row in rows for key in row))
        return [to_text(key) for key in keys], [[row.get(key, "") for key in keys] for row in rows]
    return None, [_list_of(row) if _is_listed(row) else [row] for row in rows]


def _is_listed(value: Any) -> bool:
    if isinstance(value, Tensor):
        return len(value.shape) == 1
    return (isinstance(value, list | tuple | range | ElementSet) and not isinstance(value, RecordValue)) or is_array(value)


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return [host_scalar(cell) for cell in value.contents]
    return elements_of(value) if is_array(value) else list(value)


def _side_by_side(columns: list[list[Any]]) -> list[list[Any]]:
    longest = max(map(len, columns))
    return [[column[place] if place < len(column) else "" for column in columns] for place in range(longest)]


def table_html(value: Any, given: dict[str, Any]) -> str:
    """The table as a fragment of html; `columns` and `rows` name what the value doesn't, `format` is a format spec of floats."""
    names, rows = rows_of(value)
    width = max(map(len, rows), default=0)
    if len(rows) * width > MAX_CELLS:
        raise LibraryFault("0807", f"a table of {len(rows)} x {width} cells is over the limit of {MAX_CELLS}")
    names = _given_names(given, "columns", width) or names
    sides = _given_names(given, "rows", len(rows))
    spec = given.get("format", "")
    if not isinstance(spec, str):
        raise LibraryFault("0203", f"`format` is a String, not {type_name(spec)}")
    lines = ["<table>"]
    if names is not None and any(names):
        corner = "<th></th>" if sides else ""
        lines.append(f"<thead><tr>{corner}{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr></thead>")
    lines.append("<tbody>")
    for number, row in enumerate(rows):
        side = f"<th>{escape(sides[number])}</th>" if sides else ""
        lines.append(f"<tr>{side}{''.join(_cell(cell, spec) for cell in row)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])


def _given_names(given: dict[str, Any], option: str, count: int) -> list[str] | None:
    if option not in given:
        return None
    names = given[option]
    if not isinstance(names, list | tuple | range) or len(names) != count:
        raise LibraryFault("0203", f"`{option}` is a list of {count} names")
    return [to_text(name) for name in names]


def _cell(cell: Any, spec: str) -> str:
    if isinstance(cell, bool | str):
        return f"<td>{escape(to_text(cell))}</td>"
    is_float = isinstance(cell, float) or (hasattr(cell, "dtype") and getattr(cell.dtype, "kind", "") in "fV")
    if is_float:
        try:
            text = format(float(cell), spec) if spec else element_text(cell)
        except ValueError:
            raise LibraryFault("0203", f"`{spec}` is no format of floats", "as in Python: `.2f`") from None
        return f'<td class="number">{escape(text)}</td>'
    number = isinstance(cell, int) or hasattr(cell, "dtype")
    kind = ' class="number"' if number and not isinstance(cell, Tensor) else ""
    return f"<td{kind}>{escape(to_text(cell))}</td>"


# ---- markdown --------------------------------------------------------------------------------------------------------


def markdown_html(text: str) -> str:
    """Markdown, with tables, as a fragment of html; html inside of it is shown, not obeyed."""
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text)).rstrip("\n")


# ---- pages -----------------------------------------------------------------------------------------------------------


def document(title: str, body: str) -> str:
    """The beginning of a page that needs no other file. A page of html has no required end, so that more may follow."""
    head = f'<meta charset="utf-8">\n<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>'
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n'


def page_of(title: str, form: str, inside: str) -> str:
    """A page with a single rendering."""
    return document(title or form, f"<body>\n{_figure(form, title, inside)}")


def _figure(form: str, title: str, inside: str) -> str:
    caption = f"<figcaption>{escape(title)}</figcaption>\n" if title else ""
    return f'<figure class="{form}">\n{caption}{inside}\n</figure>'


def fragment(content: bytes, kind: str) -> str:
    """A rendering inside of a page."""
    if kind in ("png", "svg"):
        name = "image/png" if kind == "png" else "image/svg+xml"
        return f'<img alt="" src="data:{name};base64,{base64.b64encode(content).decode()}">'
    return content.decode()


class RenderPage:
    """All renderings of a run in one file, each written as it comes, so that a program that stops leaves those before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun = False

    def add(self, form: str, title: str, inside: str) -> None:
        """Puts a rendering at the end."""
        text = _figure(form, title, inside) + "\n"
        if self.begun:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(text)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(document(self.path.stem, "<body>") + text, encoding="utf-8")
        self.begun = True
