"""What annotations of host functions promise, proved over all that they call: `@no_allocation` (0711), `@no_syscalls` (0712),
`@critical_path` (both, and 0420, 0713, 0714), `@inline_always` (0713), `@unsafe_unchecked` (0717), `@gpu_compute` (0410, 0713). A language
says which function calls which, and what each does by itself. Each message shows the calls that lead to what breaks the promise."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast import nodes
from runtime.records import Factory, define, frozen

Key = tuple[str, str]
"""The strategy that a function or handler stands in ("" for none), and its name there."""


class ActKind(Enum):
    ALLOCATION = "allocation"
    SYSTEM = "system call"
    UNBOUNDED = "loop without a bound"
    INTERPRETED = "code that isn't native"
    ORDER = "order"
    STATE = "change of state"
    MARKET = "look at the market"


@frozen
class Act:
    """Something that a function does by itself, in words that follow its name (`makes a list`), and what to do instead."""

    kind: ActKind
    words: str
    span: Span
    hint: str


@frozen
class CallSite:
    callee: Key
    span: Span

    @property
    def name(self) -> str:
        """Of what is called, as the program writes it."""
        return self.callee[1].removeprefix("std.")


class Annotated(Protocol):
    """A declaration of code."""

    @property
    def annotations(self) -> Sequence[nodes.Annotation]: ...

    @property
    def span(self) -> Span: ...

    @property
    def body(self) -> nodes.Node | None: ...


@define(eq=False)
class CodeUnit:
    """A function, or what a language has besides. `title`: as messages call it, "`f`" or "`on trade`"; `name_span`: where it is named."""

    key: Key
    title: str
    declaration: Annotated
    name_span: Span
    calls: list[CallSite] = Factory(list)
    acts: list[Act] = Factory(list)

    def annotation(self, *names: str) -> nodes.Annotation | None:
        """The first of these annotations that it has."""
        return next((annotation for annotation in self.declaration.annotations if annotation.name in names), None)


RULES = (
    (ActKind.SYSTEM, "0712", ("no_syscalls", "critical_path")),
    (ActKind.ALLOCATION, "0711", ("no_allocation", "critical_path")),
    (ActKind.UNBOUNDED, "0714", ("critical_path",)),
    (ActKind.INTERPRETED, "0420", ("critical_path",)),
    (ActKind.ORDER, "0717", ("unsafe_unchecked",)),
    *((kind, "0410", ("gpu_compute",)) for kind in (ActKind.ORDER, ActKind.STATE, ActKind.MARKET, ActKind.SYSTEM)),
)
"""Kinds of acts, each with the code of what annotations rule it out."""

Way = tuple[tuple[CodeUnit, CallSite], ...]
"""Calls from one function on, each with who makes it."""


def prove(codes: Mapping[Key, CodeUnit]) -> list[Diagnostic]:
    """All promises that a program breaks, each place once."""
    diagnostics: list[Diagnostic] = []
    seen: set[tuple[str, Span]] = set()
    for code in codes.values():
        for diagnostic in _broken(codes, code):
            assert diagnostic.span is not None
            if (diagnostic.code, diagnostic.span) not in seen:
                seen.add((diagnostic.code, diagnostic.span))
                diagnostics.append(diagnostic)
    return diagnostics


def _broken(codes: Mapping[Key, CodeUnit], code: CodeUnit) -> Iterator[Diagnostic]:
    """The promises of one function that it breaks, by itself or by what it calls."""
    if not code.declaration.annotations:
        return
    for key, path in ways(codes, code.key).items():
        reported: set[Span] = set()
        for kind, number, annotations in RULES:
            promise = code.annotation(*annotations)
            if promise is None:
                continue
            for act in codes[key].acts:
                if act.kind is kind and act.span not in reported:
                    reported.add(act.span)  # a `print` both allocates and calls the system: once is enough
                    yield _forbidden(number, code, promise, path, codes[key], act)
    promise = code.annotation("critical_path", "gpu_compute")
    if promise is not None:
        yield from _circles(codes, code, promise)
    taken_in = code.annotation("inline_always")
    if taken_in is not None and (around := circle(codes, code.key)):
        hint = "a function that comes back to itself can't become part of its callers"
        yield Diagnostic("0713", f"{code.title} is `@inline_always` and calls itself", taken_in.span, others=_labels(around), hint=hint)


def _forbidden(number: str, root: CodeUnit, promise: nodes.Annotation, path: Way, code: CodeUnit, act: Act) -> Diagnostic:
    subject = code.title if not path else f"{root.title} reaches {code.title}, which"
    others = (Label(promise.span, f"promised of {root.title} here"), *_labels(path))
    return Diagnostic(
        number,
        f"{subject} {act.words}: `@{promise.name}` rules that out",
        act.span,
        others=others,
        hint=_COMPUTES if number == "0410" else act.hint,
    )


_COMPUTES = "give it what it needs as arguments, and act on its result"


def _labels(path: Way) -> tuple[Label, ...]:
    return tuple(Label(site.span, f"{caller.title} calls `{site.name}`") for caller, site in path)


def _circles(codes: Mapping[Key, CodeUnit], root: CodeUnit, promise: nodes.Annotation) -> Iterator[Diagnostic]:
    known: set[frozenset[Key]] = set()
    for key, path in ways(codes, root.key).items():
        around = circle(codes, key)
        members = frozenset(caller.key for caller, _ in around)
        if not around or members in known:
            continue
        known.add(members)
        *_, (_, last) = around
        others = (Label(promise.span, f"promised of {root.title} here"), *_labels((*path, *around[:-1])))
        message = f"{codes[key].title} comes back to itself: `@{promise.name}` rules that out"
        hint = "write a loop with a bound: how deep calls go isn't known before"
        yield Diagnostic("0713", message, last.span, others=others, hint=hint)


def ways(codes: Mapping[Key, CodeUnit], start: Key) -> dict[Key, Way]:
    """All that a function reaches, itself first, each with the calls of the shortest way there."""
    paths: dict[Key, Way] = {start: ()}
    waiting = [start]
    while waiting:
        current = waiting.pop(0)
        for site in codes[current].calls:
            if site.callee not in paths:
                paths[site.callee] = (*paths[current], (codes[current], site))
                waiting.append(site.callee)
    return paths


def circle(codes: Mapping[Key, CodeUnit], key: Key) -> Way:
    """The shortest circle of calls from a function to itself; empty where there is none."""
    for reached, path in ways(codes, key).items():
        for site in codes[reached].calls:
            if site.callee == key:
                return (*path, (codes[reached], site))
    return ()
