"""The code of a program's native functions: made once for a text and a machine, and kept."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.backends.native import kept
from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import Linked, link_modules
from compiler.lowering.native.host_functions import NativeProgram, native_program
from compiler.passes.prove_checks import prove_checks
from compiler.source import Source, Span
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.function_effects import DYNAMIC, ProgramEffects, Reason
from runtime.cache.store import store


def compiled(
    checker: Checker, found: ProgramEffects, wanted: Sequence[str], source: Source | None, stack: int
) -> tuple[Linked, Mapping[str, str]]:
    """The functions in this process, and their names there by their own. Those that have no native form after all are left out, and
    `found` says why."""
    cache = store() if source is not None else None
    key = kept.key("functions", source.path, source.text, str(stack), *wanted) if source is not None else ""
    stored = kept.found(cache, key)
    if stored is None:
        made = lowered(checker, found, wanted)
        module = compile_module(made.module, tells_callers=True, stack=stack)
        refused = {name: _as_json(own.reasons) for name, own in found.functions.items() if name in wanted and not own.is_static}
        stored = kept.keep(cache, key, module, {"symbols": dict(made.symbols), "refused": refused})
    else:
        for name, reasons in stored.more["refused"].items():
            found.functions[name].reasons += [Reason(DYNAMIC, words, Span(*span)) for words, span in reasons]
        found.spread()
    return link_modules([stored]), stored.more["symbols"]


def lowered(checker: Checker, found: ProgramEffects, wanted: Sequence[str]) -> NativeProgram:
    """The functions in HIR, without the checks that can't fail."""
    made = native_program(checker, found, wanted)
    for function in made.module.functions.values():
        if not function.is_elsewhere:
            prove_checks(function)
    return made


def _as_json(reasons: Sequence[Reason]) -> Any:
    return [[found.words, [found.span.path, found.span.start, found.span.end]] for found in reasons]
