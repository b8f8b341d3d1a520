"""Targets that other packages bring: entry points of the group `zyntax.targets`, each named as its target. The object is a `Target`, or a
function without parameters that gives one."""

from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.targets.target import Target
from runtime.entry_points import TARGETS, entry_points


def installed_target(name: str) -> Target | None:
    """The target of that name; None where no package has one. Raises ZyntaxError for one that can't be used."""
    found = [entry for entry in entry_points(TARGETS) if entry.name == name]
    if not found:
        return None
    if len(found) > 1:
        first, second = found[0].distribution, found[1].distribution
        hint = f"`pip uninstall {second}`, or `pip uninstall {first}`"
        raise ZyntaxError(Diagnostic("0110", f"two packages have the target `{name}`: `{first}` and `{second}`", hint=hint))
    subject = f"`{found[0].value}` of the package `{found[0].distribution}`"
    hint = f"this is a fault of the package `{found[0].distribution}`, not of your program"
    try:
        made: Any = found[0].load()
        made = made if isinstance(made, Target) else made()
    except Exception as error:
        message = f"the target {subject} can't be loaded: {type(error).__name__}: {error}"
        raise ZyntaxError(Diagnostic("0110", message, hint=hint)) from error
    if not isinstance(made, Target) or made.name != name:
        what = f"a target of the name `{made.name}`" if isinstance(made, Target) else f"a `{type(made).__name__}`"
        raise ZyntaxError(Diagnostic("0110", f"{subject} is registered as the target `{name}`, and is {what}", hint=hint))
    return made
