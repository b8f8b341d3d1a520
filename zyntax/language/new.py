"""The package that `zyntax language new` writes: the one in the folder `template`, with the language's own names in it."""

import keyword
import re
from pathlib import Path

from compiler.diagnostics import Diagnostic, ZyntaxError

TEMPLATE = Path(__file__).with_name("template")
_NAME, _ENDING, _CODES = "tinypipe", "tip", "TIP"
_PIXELS = [[[10, 20, 30], [40, 50, 60]]]


def ending_of(name: str, ending: str | None) -> str:
    """What is asked for; else that of the template, for the template's own name, and the first three letters of any other."""
    usual = "tip" if name == "tinypipe" else name[:3]
    return (usual if ending is None else ending).removeprefix(".")


def write_package(name: str, ending: str | None, folder: Path) -> Path:
    """Writes it into a folder that isn't there yet, and gives that. Raises ZyntaxError."""
    chosen = ending_of(name, ending)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise _refused(f"`{name}` can't be a language's name", "it is the name of a Python package, too: a word in small letters")
    if not re.fullmatch(r"[A-Za-z0-9_]+", chosen):
        raise _refused(f"`{ending}` can't be an ending", "it is letters and digits, as in `--ending .tip`")
    _require_free(name, chosen)
    if folder.exists():
        raise _refused(f"`{folder}` is there already", "name another folder with `--folder`")
    try:
        for file in sorted(TEMPLATE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                target = folder / _named(str(file.relative_to(TEMPLATE)), name, chosen)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(_named(file.read_text(encoding="utf-8"), name, chosen), encoding="utf-8")
        _write_image(folder / "programs" / "in.npy")
    except OSError as error:
        raise ZyntaxError(Diagnostic("0505", f"`{folder}` can't be written: {(error.strerror or str(error)).lower()}")) from None
    return folder


def _refused(message: str, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0505", message, hint=hint))


def _require_free(name: str, ending: str) -> None:
    """Refuses names that are taken. Raises ZyntaxError."""
    import importlib.util

    from runtime.entry_points import LANGUAGES, entry_points

    taken = [entry for entry in entry_points(LANGUAGES) if entry.name == ending]
    if taken:
        message = f"the package `{taken[0].distribution}` has the ending `.{ending}` already"
        raise _refused(message, "name another with `--ending`")
    if importlib.util.find_spec(name) is not None:
        raise _refused(f"Python has a package `{name}` already", "a language's package has the language's name: choose another")


def _named(text: str, name: str, ending: str) -> str:
    letters = re.sub(r"[^A-Z]", "", name.upper())[:3]
    letters = letters if len(letters) > 1 and letters != "ZYN" else f"{letters}X"
    text = re.sub(rf"\b{_CODES}(?=\d{{4}})", letters, text)
    text = re.sub(rf"\.{_ENDING}\b", f".{ending}", text)
    text = re.sub(rf"^{_ENDING} = ", f"{ending} = ", text, flags=re.MULTILINE)
    return text.replace(_NAME.capitalize(), name.capitalize()).replace(_NAME, name)


def _write_image(path: Path) -> None:
    """The picture that the first program loads: a row of two pixels."""
    import numpy

    numpy.save(path, numpy.array(_PIXELS, numpy.uint8))
