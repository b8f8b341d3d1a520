"""Which argument of a call goes to which parameter; the same for library functions and the program's own. Faults are ZYN0204."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.elsewhere import parameter_hint
from compiler.typed_ast.suggest import did_you_mean
from runtime.records import frozen

if TYPE_CHECKING:
    from compiler.typed_ast.nodes import Argument, Call


@frozen
class ArgumentSlot:
    """A parameter as calls see it."""

    name: str
    required: bool = True
    variadic: bool = False
    keyword_only: bool = False


@frozen
class Callee:
    """What a message says of the function that is called: its name, its signature, and where it is declared, if in the program."""

    name: str
    signature: Callable[[], str]
    declared: Span | None = None


def place(argument: "Argument") -> Span:
    return argument.value.span if argument.span == NOWHERE else argument.span


@frozen
class Misfit:
    """Why arguments don't fit a function: the one at `at` is "unknown", one too "many" or given "twice", or those of `names` are
    "missing"."""

    kind: str
    at: int = -1
    names: tuple[str, ...] = ()


def assigned(slots: Sequence[ArgumentSlot], given: Sequence[str | None]) -> dict[str, list[int]] | Misfit:
    """Which arguments go to which parameter: positions by parameter name (one each, or many for a variadic one), in the order in which they
    are given, or the one fault that stands first. `given`: the names of the arguments, None for a positional one."""
    positional = [s for s in slots if not s.keyword_only]
    names = {s.name: s for s in slots}
    found: dict[str, list[int]] = {}
    position = 0
    for at, name in enumerate(given):
        if name is not None:
            slot = names.get(name)
            if slot is None:
                return Misfit("unknown", at, (name,))
        elif position < len(positional):
            slot = positional[position]
            position += not slot.variadic
        else:
            return Misfit("many", at)
        if slot.name in found and not slot.variadic:
            return Misfit("twice", at, (slot.name,))
        found.setdefault(slot.name, []).append(at)
    missing = tuple(s.name for s in slots if s.required and not s.variadic and s.name not in found)
    return Misfit("missing", names=missing) if missing else found


def match_arguments(slots: Sequence[ArgumentSlot], call: "Call", callee: Callee) -> "dict[str, list[Argument]] | Diagnostic":
    """Arguments by parameter name (one each, or many for a variadic one), or the one fault that stands first."""
    arguments = call.arguments
    found = assigned(slots, [argument.name for argument in arguments])
    if not isinstance(found, Misfit):
        return {name: [arguments[at] for at in places] for name, places in found.items()}
    if found.kind == "missing":
        shown = [f"`{name}`" for name in found.names]
        words = shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
        plural = "argument" if len(shown) == 1 else "arguments"
        return _fault(f"`{callee.name}` lacks the {plural} {words}", call.span, callee, "", None)
    wrong = arguments[found.at]
    if found.kind == "unknown":
        names = [s.name for s in slots]
        hint = parameter_hint(callee.name, found.names[0], names) or did_you_mean(found.names[0], names)
        return _fault(f"`{callee.name}` has no parameter `{found.names[0]}`", place(wrong), callee, "", hint)
    if found.kind == "twice":
        [name] = found.names
        first = Label(place(_first(slots, arguments, name)), "first given here")
        fault = _fault(f"parameter `{name}` of `{callee.name}` is given twice", place(wrong), callee, "", None)
        return Diagnostic(fault.code, fault.message, fault.span, fault.label, (first, *fault.others), fault.notes)
    positional = [s for s in slots if not s.keyword_only]
    most = len(positional)
    given = sum(a.name is None for a in arguments)
    least = sum(s.required and not s.variadic for s in positional)
    wants = f"{most}" if least == most else f"at most {most}" if most else "no"
    plural = "argument" if most == 1 else "arguments"
    kind = "positional " if any(s.keyword_only for s in slots) else ""
    are = "is" if given == 1 else "are"
    message = f"`{callee.name}` takes {wants} {kind}{plural}, but {given} {are} given"
    return _fault(message, place(wrong), callee, "one too many", None)


def _first(slots: Sequence[ArgumentSlot], arguments: "Sequence[Argument]", name: str) -> "Argument":
    """The first argument for a parameter."""
    positional = [s.name for s in slots if not s.keyword_only]
    taken = [positional[at] if a.name is None and at < len(positional) else a.name for at, a in enumerate(arguments)]
    return arguments[taken.index(name)]


def _fault(message: str, span: Span, callee: Callee, label: str, hint: str | None) -> Diagnostic:
    if callee.declared is not None:
        return Diagnostic("0204", message, span, label, (Label(callee.declared, f"declared `{callee.signature()}`"),), hint=hint)
    return Diagnostic("0204", message, span, label, notes=(f"its signature is `{callee.signature()}`",), hint=hint)
