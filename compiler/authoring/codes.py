"""The codes of languages' own errors, explained in files beside them.

    [IMG0201]
    title = "unknown operation"
    text = "What it means, in a few sentences."
    wrong = "program with the error"
    right = "program without it"
"""

import re
import tomllib
from collections.abc import Mapping
from functools import cache

from compiler.codes.entry import Code, code
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.language import Language

FORM = re.compile(r"(?!ZYN)[A-Z]{2,8}[0-9]{4}")
_FIELDS = ("title", "text", "wrong", "right")


@cache
def codes_of(language: Language) -> Mapping[str, Code]:
    """By full code. Raises ZyntaxError for a file that can't be read."""
    if language.codes is None:
        return {}
    try:
        tables = tomllib.loads(language.codes.read_text(encoding="utf-8"))
        return {name: _entry(name, table, language) for name, table in tables.items()}
    except (OSError, ValueError) as error:
        message = f"the codes of `{language.title}` can't be read: {error}"
        raise ZyntaxError(Diagnostic("0110", message, notes=[f"their file is {language.codes}"])) from None


def _entry(name: str, table: object, language: Language) -> Code:
    if not FORM.fullmatch(name):
        raise ValueError(f"`{name}` is no code: it is letters of the language's own, then four digits")
    if not isinstance(table, dict) or not {"title", "text"} <= table.keys() or not all(isinstance(value, str) for value in table.values()):
        raise ValueError(f"`{name}` needs a `title` and a `text`")
    strange = sorted(table.keys() - set(_FIELDS))
    if strange:
        raise ValueError(f"`{name}` has `{strange[0]}`: it may have {', '.join(f'`{field}`' for field in _FIELDS)}")
    return code(name, table["title"], table["text"], table.get("wrong", ""), table.get("right", ""), language=language.name)


def code_named(name: str) -> Code | None:
    """What a language that is installed says of a code. Raises ZyntaxError for one that is in a file which can't be read."""
    from compiler.languages import languages

    return next((found[name] for language in languages() if (found := codes_of(language)).get(name) is not None), None)
