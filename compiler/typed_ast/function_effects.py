"""Effects of a program's functions: what each does that decides whether it is compiled natively.

A function `fails` where it may stop, `allocates` where it makes what lives on a heap, asks the `system`, reads a `global` whose value isn't
known when it is compiled, and is `dynamic` where a type isn't known or has no native form. What its callees do it does. A function with
none of these but `fails` is static."""

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import Factory, define, frozen

FAILS, ALLOCATES, SYSTEM, GLOBAL, DYNAMIC = "fails", "allocates", "system", "global", "dynamic"

@frozen
class Reason:
    """Why a function isn't compiled natively: what it does, in words that follow "because", and where. `effect` is one of the above."""

    effect: str
    words: str
    span: Span


@define(eq=False)
class FunctionEffects:
    """`name`: that by which it is called, as `Point::norm`; `reasons`: what it does itself that keeps it from being static, and then each
    callee that does; `calls`: the program's functions that it calls, each with its first place; `loops`: it has a loop, or calls
    itself, by however many steps, or calls one that does; `writes`: it assigns elements of a tensor that it is given;
    `makes`: where it makes tensors, or calls what does."""

    name: str
    function: nodes.Function
    result: Type = UNKNOWN
    parameters: tuple[Type, ...] = ()
    fails: bool = False
    loops: bool = False
    writes: bool = False
    makes: Span | None = None
    reasons: list[Reason] = Factory(list)
    calls: dict[str, Span] = Factory(dict)

    @property
    def is_static(self) -> bool:
        return not self.reasons


@define(eq=False)
class ProgramEffects:
    """`functions` of a program by name; `constants`: its top-level variables whose values are known when it is compiled."""

    functions: dict[str, FunctionEffects] = Factory(dict)
    constants: dict[str, nodes.Let] = Factory(dict)

    @property
    def static(self) -> list[FunctionEffects]:
        return [found for found in self.functions.values() if found.is_static]

    def spread(self) -> None:
        """What callees do their callers do."""
        changed = True
        while changed:
            changed = False
            for found in self.functions.values():
                for name, span in found.calls.items():
                    callee = self.functions[name]
                    if not callee.is_static and found.is_static:
                        found.reasons.append(Reason(callee.reasons[0].effect, f"it calls `{name}`, which isn't native", span))
                        changed = True
                    before = found.fails, found.loops, found.writes, found.makes
                    found.fails |= callee.fails
                    found.loops |= callee.loops
                    found.writes |= callee.writes
                    found.makes = found.makes or (callee.makes and span)
                    changed |= before != (found.fails, found.loops, found.writes, found.makes)
