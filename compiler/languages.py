"""The languages that are installed: entry points of the group `zyntax.languages`, each named by an ending of the language's files without
its dot. One is imported when a file with its ending comes."""

import os
from functools import cache

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.language import Language, NewerApi
from runtime.entry_points import LANGUAGES, EntryPoint, entry_points


def endings() -> tuple[str, ...]:
    """The endings of all languages."""
    return tuple(dict.fromkeys(f".{entry.name}" for entry in entry_points(LANGUAGES)))


def language_of(path: str) -> Language:
    """The language of a file. Raises ZyntaxError."""
    ending = os.path.splitext(path)[1]  # noqa: PTH122 - every start waits for this file
    if ending not in endings():
        known = ", ".join(f"`{e}`" for e in endings())
        problem = f"no language has the ending `{ending}`" if ending else "the name of a program's file ends in its language"
        raise ZyntaxError(Diagnostic("0108", f"`{path}`: {problem}", hint=f"endings known: {known}"))
    return language_with(ending)


@cache
def language_with(ending: str) -> Language:
    """The language of an ending that is known. Raises ZyntaxError."""
    registered = [entry for entry in entry_points(LANGUAGES) if f".{entry.name}" == ending]
    if len(registered) > 1:
        first, second = registered[0].distribution, registered[1].distribution
        hint = f"`pip uninstall {second}`, or `pip uninstall {first}`"
        raise ZyntaxError(Diagnostic("0110", f"two packages have the ending `{ending}`: `{first}` and `{second}`", hint=hint))
    return _loaded(registered[0])


def language_named(name: str) -> Language:
    """The language of a name. Raises ZyntaxError."""
    # the most likely first: others aren't imported
    ordered = sorted(entry_points(LANGUAGES), key=lambda entry: name not in (entry.name, entry.value.partition(":")[0].partition(".")[0]))
    broken: list[ZyntaxError] = []
    for entry in ordered:
        try:
            language = language_with(f".{entry.name}")
        except ZyntaxError as error:
            broken.append(error)
            continue
        if language.name == name:
            return language
    from compiler.typed_ast.suggest import nearest

    names = [language.name for language in languages()]
    near = nearest(name, names)
    hint = f"did you mean `{near[0]}`?" if near else f"languages known: {', '.join(f'`{known}`' for known in names)}"
    others = [diagnostic for error in broken for diagnostic in error.diagnostics]
    raise ZyntaxError(Diagnostic("0108", f"there is no language `{name}`", hint=hint), *others)


def languages() -> tuple[Language, ...]:
    """All that can be used, each once."""
    found: list[Language] = []
    for ending in endings():
        try:
            language = language_with(ending)
        except ZyntaxError:
            continue
        if language not in found:
            found.append(language)
    return tuple(found)


def _loaded(entry: EntryPoint) -> Language:
    subject = f"`{entry.value}` of the package `{entry.distribution}`"
    hint = f"this is a fault of the package `{entry.distribution}`, not of your program"
    try:
        found = entry.load()
    except NewerApi as newer:
        raise ZyntaxError(Diagnostic("0110", str(newer), hint="pip install --upgrade zyntax-lang")) from None
    except Exception as error:
        where = _place_of(error)
        message = f"the language {subject} can't be loaded: {type(error).__name__}: {error}"
        raise ZyntaxError(Diagnostic("0110", message, notes=[where] if where else [], hint=hint)) from error
    if not isinstance(found, Language):
        message = f"{subject} is no language: it is a `{type(found).__name__}`, and not made by `zyntax.language.Language`"
        raise ZyntaxError(Diagnostic("0110", message, hint=hint))
    if f".{entry.name}" not in found.endings:
        has = ", ".join(f"`{ending}`" for ending in found.endings)
        raise ZyntaxError(Diagnostic("0110", f"{subject} is registered for `.{entry.name}`, and its language has {has}", hint=hint))
    return found


def _place_of(error: Exception) -> str:
    """The line that raised it."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return f"raised at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
