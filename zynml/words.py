"""Messages for who calls from Python: the command's flags as keywords of `compile`, and copies of arguments as Python makes them."""

import re
from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.records import evolve
from runtime.tensor import Tensor

FLAGS = (
    (re.compile(r"--set (?=\w)"), ""),
    (re.compile(r"`--device (\S+?)`"), r'`device="\1"`'),
    (re.compile(r"`--(sanitize|strict)`"), r"`\1=True`"),
    (re.compile(r"`--no-tune`"), "`tune=False`"),
    (re.compile(r"named by `--device`"), "named by `device=`"),
)


def in_pythons_words(diagnostic: Diagnostic) -> Diagnostic:
    """The message for who called from Python."""
    notes = tuple(map(_said, diagnostic.notes))
    return evolve(
        diagnostic, message=_said(diagnostic.message), notes=notes, hint=_said(diagnostic.hint) if diagnostic.hint is not None else None
    )


def _said(text: str) -> str:
    for flag, keyword in FLAGS:
        text = flag.sub(keyword, text)
    return text


def copied_in_python(error: ZyntaxError, given: Mapping[str, Any], passed: Mapping[str, Any]) -> ZyntaxError | None:
    """The error of a call two of whose arguments share memory, with a hint that copies one of them; None for any other. `passed` are
    Python's values, `given` the program's for them."""
    # whoever raised the error has loaded it; calls of kept programs never do
    from compiler.launch.updates import SharedMemory

    shared: BaseException | None = error
    while shared is not None and not isinstance(shared, SharedMemory):
        shared = shared.__cause__
    if shared is None:
        return None
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}

    def argument(tensor: Tensor, name: str, taken: str | None) -> str | None:
        """The argument whose memory it is: best the very tensor, then the one of that name."""
        sharing = [key for key, other in tensors.items() if key != taken and other.shares_memory(tensor)]
        return max(sharing, key=lambda key: (tensors[key] is tensor, key == name), default=None)

    (updated, other), (updated_name, other_name) = shared.tensors, shared.names
    first = argument(updated, updated_name, None)
    second = argument(other, other_name, first)
    if first is None or second is None:
        return None
    how = "copy" if hasattr(passed[second], "copy") else "clone"
    hint = f"the arguments `{first}` and `{second}` share memory: pass a copy, `{second}.{how}()`"
    return ZyntaxError(*(evolve(d, hint=hint) for d in error.diagnostics))
