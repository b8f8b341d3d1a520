"""The library as a page and its table of names, made from its declarations: `python -m zynml.stdlib.reference docs/library.md` writes
both, tests check that they are up to date. How the operators and indices work is told in docs/zynml.md."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from compiler.typed_ast.library import REQUIRED, TARGET, LibraryParameter
from zynml.stdlib import FAMILIES, NAMES, family_named
from zynml.stdlib.family import FunctionEntry, FunctionFamily

TITLES = {
    "operators": "Operators by name",
    "casts": "Conversions",
    "indexing": "Indexing",
    "printing": "Printing",
    "creation": "Making tensors",
    "randoms": "Random numbers by counter",
    "structure": "Shapes",
    "joining": "Joining and splitting",
    "elements": "Elements and parts",
    "reductions": "Reductions",
    "elementwise": "Functions of each element",
    "linalg": "Products and layers",
    "windows": "Windows over images",
    "ordering": "Sorting and picking",
    "devices": "Devices",
    "collections": "Iterating",
    "lists": "Lists",
    "maps": "Maps and sets",
    "gathering": "Gathering and scattering",
    "einsum": "Sums of products by letters",
    "optionals": "Optionals and results",
    "strings": "Text",
    "files": "Files",
    "utf8": "Text as bytes",
    "render": "Pictures",
}

HEAD = """# The ZynML library

All that a program may use without declaring it. This page is made from the declarations by
`python -m zynml.stdlib.reference docs/library.md`.

`x.name(a)` is a method of `x`; one that is written `name(x, a)` as well can be called either way. Parameters with `?` or `=` may be
left out, `name...` takes any number of values, and what comes after it or after `*` has to be named. `int | list` is one int or a list of
ints: `zeros(2, 3)` is `zeros([2, 3])`. "Also `tensor_`" means that the name exists with this before it, "`_1d`" with this behind it.
"""


def markdown() -> str:
    """The whole page."""
    out = [HEAD]
    for name in FAMILIES:
        family = family_named(name)
        lines = list(_lines(family))
        if lines:
            out += [f"## {TITLES[name]}", "", *lines, ""]
    out += [
        "## Constants",
        "",
        "`inf`, `nan` and `pi` are weak floats. The names of element types (`f32`, `int`, ...) are values of `dtype=`.",
        "",
    ]
    return "\n".join(out)


def names() -> str:
    """The table of names, a line for every file."""
    lines = []
    for name in FAMILIES:
        declared: dict[str, list[str]] = {}
        for entry in family_named(name).entries:
            for receiver in entry.receivers or ("",):
                declared[receiver] = [*dict.fromkeys((*declared.get(receiver, ()), *entry.names))]
        lines.append(f"  {json.dumps(name)}: {json.dumps(declared)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def lines_of(name: str) -> list[str]:
    """The lines of the page about functions and methods of that name."""
    return [line for family in FAMILIES for line in _lines(family_named(family), name)]


def _lines(family: FunctionFamily, name: str | None = None) -> Iterator[str]:
    """A line for every implementation, its functions and methods together; of one name where it is given."""
    groups: dict[object, list[FunctionEntry]] = {}
    for entry in family.entries:
        if _names(entry):
            groups.setdefault((entry.implementation, entry.doc), []).append(entry)
    for entries in groups.values():
        if name is not None and not any(name in entry.names for entry in entries):
            continue
        methods = [entry for entry in entries if entry.receivers]
        functions = [entry for entry in entries if not entry.receivers]
        forms = list(dict.fromkeys([_method(entry) for entry in methods] + [_function(entry) for entry in functions]))
        receivers = sorted({receiver for entry in methods for receiver in entry.receivers})
        of = f" ({', '.join(receivers)})" if receivers and receivers != ["tensor"] else ""
        also = list(dict.fromkeys(_short(word, _names(entry)[0]) for entry in entries for word in _names(entry)[1:]))
        more = f" Also {', '.join(f'`{word}`' for word in also)}." if also else ""
        yield f"* {', '.join(f'`{form}`' for form in forms)}{of}: {' '.join(entries[0].doc.split())}{more}"


def _names(entry: FunctionEntry) -> list[str]:
    return [name for name in entry.names if " " not in name]


def _short(word: str, name: str) -> str:
    """A variant of the name by what is put before or behind it; both at once is left to the reader."""
    before, match, behind = word.partition(name)
    return (
        (before or behind) if match and all(part in ("", "Tensor::", "tensor_", "_1d", "_2d", "_3d") for part in (before, behind)) else word
    )


def _method(entry: FunctionEntry) -> str:
    return f"x.{_names(entry)[0]}({_parameters(entry.parameters[1:])})"


def _function(entry: FunctionEntry) -> str:
    return f"{_names(entry)[0]}({_parameters(entry.parameters)})"


def _parameters(parameters: tuple[LibraryParameter, ...]) -> str:
    shown = []
    for number, parameter in enumerate(parameters):
        if parameter.types == TARGET:
            continue
        if parameter.keyword_only and not any(p.keyword_only or p.variadic for p in parameters[:number]):
            shown.append("*")
        shown.append(_parameter(parameter))
    return ", ".join(shown)


def _parameter(parameter: LibraryParameter) -> str:
    kind = "" if parameter.types in ("any", "value", parameter.name) else f": {parameter.types.replace('int or list of int', 'int | list')}"
    if parameter.variadic:
        return f"{parameter.name}...{kind}"
    match parameter.default:
        case default if default is REQUIRED:
            return parameter.name + kind
        case bool(value):
            return f"{parameter.name}{kind} = {str(value).lower()}"
        case int() | float() as value:
            return f"{parameter.name}{kind} = {value}"
        case str(value):
            return f'{parameter.name}{kind} = "{value}"'
        case _:
            return f"{parameter.name}?{kind}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
    NAMES.write_text(names(), encoding="utf-8")
