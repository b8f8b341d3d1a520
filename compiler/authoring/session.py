"""A program in an author's language while it is checked and runs: what goes wrong in a kernel is shown at the call in the program first."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.driver import Session
from compiler.source import Source, Span
from compiler.typed_ast import nodes
from runtime.records import evolve

if TYPE_CHECKING:
    from compiler.backends.host.loaded import HostProgram


class AuthoredSession(Session):
    """Its kernels' names are shown as their file has them."""

    shown_names: Mapping[str, str] = {}
    """Of the kernels, by those in the tree."""

    def _comment_warnings(self, source: Source) -> tuple[Diagnostic, ...]:
        """None: what begins a comment is the author's business."""
        return ()

    def check(self) -> nodes.Program:
        with self.seen_from_the_program():
            return super().check()

    @cached_property
    def host(self) -> "HostProgram":
        with self.seen_from_the_program():
            program: HostProgram = Session.host.func(self)  # type: ignore[attr-defined]
            return program

    def run(self) -> None:
        with self.seen_from_the_program():
            super().run()

    def _report(self, findings: tuple[Diagnostic, ...]) -> None:
        """While the program still stands where it called."""
        super()._report(tuple(map(self.shown, findings)))

    @contextmanager
    def seen_from_the_program(self) -> Iterator[None]:
        """Errors of kernels inside are shown at the calls that led there."""
        try:
            yield
        except ZyntaxError as error:
            shown = [self.shown(diagnostic, error) for diagnostic in error.diagnostics]
            if all(new is old for new, old in zip(shown, error.diagnostics, strict=True)):
                raise
            raise ZyntaxError(*shown) from error

    def shown(self, diagnostic: Diagnostic, error: BaseException | None = None) -> Diagnostic:
        """The diagnostic as the program's writer is to see it."""
        diagnostic = self._with_written_names(diagnostic)
        span = diagnostic.span
        if span is None or all(span.path != other.path for other in self.others):
            return diagnostic
        calls = [label for label in diagnostic.others if label.span.path == self.source.path]
        rest = [label for label in diagnostic.others if label not in calls]
        call = calls[-1].span if calls else self._call_of(error)
        if call is None:
            return diagnostic
        inside = Label(span, diagnostic.label or "in this kernel")
        return evolve(diagnostic, span=call, label="called from here", others=[inside, *rest])

    def _call_of(self, error: BaseException | None) -> Span | None:
        """The place in the program from which what raised the error was called."""
        from compiler.backends.host.faults import spans_of, spans_of_stack

        spans = [] if error is not None else spans_of_stack(sys._getframe())
        while error is not None:
            spans += spans_of(error.__traceback__)
            error = error.__cause__ or error.__context__
        return next((span for span in spans if span.path == self.source.path), None)

    def _with_written_names(self, diagnostic: Diagnostic) -> Diagnostic:
        if not self.shown_names:
            return diagnostic
        pattern = re.compile("|".join(rf"(?<![\w.]){re.escape(name)}(?!\w)" for name in self.shown_names))

        def written(text: str) -> str:
            return pattern.sub(lambda match: self.shown_names[match[0]], text)

        labels = tuple(Label(label.span, written(label.text)) for label in diagnostic.others)
        changed: dict[str, Any] = {"message": written(diagnostic.message), "label": written(diagnostic.label), "others": labels}
        changed["notes"] = tuple(map(written, diagnostic.notes))
        changed["hint"] = written(diagnostic.hint) if diagnostic.hint is not None else None
        return evolve(diagnostic, **changed) if any(getattr(diagnostic, key) != new for key, new in changed.items()) else diagnostic


def with_calls(warn: Callable[[Diagnostic], None], session: AuthoredSession) -> Callable[[Diagnostic], None]:
    """Warnings as errors are shown."""
    return lambda diagnostic: warn(session.shown(diagnostic))
