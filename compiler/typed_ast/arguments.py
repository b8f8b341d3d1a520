"""Which argument of a call goes to which parameter; the same for library functions and the program's own. Faults are ZYN0204."""

from collections.abc import Callable, Sequence

from compiler.diagnostics import Diagnostic, Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.elsewhere import parameter_hint
from compiler.typed_ast.nodes import Argument, Call
from compiler.typed_ast.suggest import did_you_mean
from runtime.records import frozen


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


def place(argument: Argument) -> Span:
    return argument.value.span if argument.span == NOWHERE else argument.span


def match_arguments(slots: Sequence[ArgumentSlot], call: Call, callee: Callee) -> dict[str, list[Argument]] | Diagnostic:
    """Arguments by parameter name (one each, or many for a variadic one), or the one fault that stands first."""
    positional = [s for s in slots if not s.keyword_only]
    names = {s.name: s for s in slots}
    found: dict[str, list[Argument]] = {}
    position = 0
    for argument in call.arguments:
        if argument.name is not None:
            slot = names.get(argument.name)
            if slot is None:
                hint = parameter_hint(callee.name, argument.name, names) or did_you_mean(argument.name, names)
                return _fault(f"`{callee.name}` has no parameter `{argument.name}`", place(argument), callee, "", hint)
        elif position < len(positional):
            slot = positional[position]
            position += not slot.variadic
        else:
            most = len(positional)
            given = sum(a.name is None for a in call.arguments)
            least = sum(s.required and not s.variadic for s in positional)
            wants = f"{most}" if least == most else f"at most {most}" if most else "no"
            plural = "argument" if most == 1 else "arguments"
            kind = "positional " if any(s.keyword_only for s in slots) else ""
            are = "is" if given == 1 else "are"
            message = f"`{callee.name}` takes {wants} {kind}{plural}, but {given} {are} given"
            return _fault(message, place(argument), callee, "one too many", None)
        if slot.name in found and not slot.variadic:
            first = Label(place(found[slot.name][0]), "first given here")
            fault = _fault(f"parameter `{slot.name}` of `{callee.name}` is given twice", place(argument), callee, "", None)
            return Diagnostic(fault.code, fault.message, fault.span, fault.label, (first, *fault.others), fault.notes)
        found.setdefault(slot.name, []).append(argument)
    missing = [f"`{s.name}`" for s in slots if s.required and not s.variadic and s.name not in found]
    if missing:
        words = missing[0] if len(missing) == 1 else ", ".join(missing[:-1]) + " and " + missing[-1]
        plural = "argument" if len(missing) == 1 else "arguments"
        return _fault(f"`{callee.name}` lacks the {plural} {words}", call.span, callee, "", None)
    return found


def _fault(message: str, span: Span, callee: Callee, label: str, hint: str | None) -> Diagnostic:
    if callee.declared is not None:
        return Diagnostic("0204", message, span, label, (Label(callee.declared, f"declared `{callee.signature()}`"),), hint=hint)
    return Diagnostic("0204", message, span, label, notes=(f"its signature is `{callee.signature()}`",), hint=hint)
