"""From Python exceptions in a running program to diagnostics with the program's own place: the innermost generated frame of the
traceback tells the instruction, the instruction its columns, and those the span."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn

from compiler.backends.host.lookups import looked_up_again
from compiler.backends.host.naming import MARK
from compiler.backends.host.stopped_natively import CALLED, ENDS, TOO_DEEP, StoppedInLoop, StoppedNatively, placed
from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.source import NOWHERE, Span
from compiler.typed_ast.library import LibraryFault
from runtime.cuda.errors import CudaError, CudaRefused, CudaUnavailable
from runtime.host_tasks import stop
from runtime.records import evolve
from runtime.thrown import Thrown

if TYPE_CHECKING:
    from compiler.backends.host.positions import Positions

POSITIONS = "·positions"
"""The name in a generated module's globals by which its frames are known."""


_reserve = [bytes(1 << 22)]
"""Given up when memory has run out, so that the message about it finds room. It takes addresses, and no memory before it is touched."""


@contextmanager
def translated_faults() -> Iterator[None]:
    """Whatever a program raises leaves as a ZyntaxError. Floats follow IEEE 754 silently."""
    try:
        with silent_floats():
            yield
    except (Exception, KeyboardInterrupt) as error:
        raise_translated(error)


def silent_floats() -> AbstractContextManager[object]:
    """In it floats follow IEEE 754 silently, those of NumPy too if it is imported there: by itself it warns."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        silent: AbstractContextManager[object] = numpy.errstate(all="ignore")
        return silent
    return warnings.catch_warnings(action="ignore", category=RuntimeWarning)


def raise_translated(error: BaseException) -> NoReturn:
    """Whatever a program raised, as a ZyntaxError."""
    if isinstance(error, BrokenPipeError):
        # Whoever read the program's output went away: no fault of the program, and the command's business.
        raise error
    if isinstance(error, MemoryError):
        _reserve.clear()
    if isinstance(error, KeyboardInterrupt):
        stop()
    raise translated(error) from error


def translated(error: BaseException) -> ZyntaxError:
    """The diagnostic for what a running program raised."""
    span = program_span(error.__traceback__)
    match error:
        case ZyntaxError():
            return ZyntaxError(*(_seen_from_outside(d, span, error.__traceback__) for d in error.diagnostics))
        case Thrown():
            hint = "put a `try` around it, or around a call that leads to it"
            message = f"thrown and not caught: {error.shown()}"
            return ZyntaxError(Diagnostic("0820", message, span, others=_caller(error.__traceback__), hint=hint))
        case StoppedInLoop():
            inside = error.diagnostic
            in_loop = any(label.text == CALLED for label in inside.others)
            return ZyntaxError(inside if in_loop else evolve(inside, others=(*inside.others, *_caller(error.__traceback__))))
        case StoppedNatively():
            return ZyntaxError(placed(error.diagnostic, span))
        case IndexError() | KeyError() if (fault := _of_lookup(error, span)) is not None:
            return ZyntaxError(Diagnostic(fault.code, fault.message, span, others=_caller(error.__traceback__), hint=fault.hint))
        case LibraryFault():
            others = (*_in_library(error.__traceback__), *_caller(error.__traceback__))
            return ZyntaxError(Diagnostic(error.code, error.message, span, others=others, hint=error.hint))
        case RecursionError():
            # the innermost frame stopped wherever it happened to be; the one around it, at the call
            around = _caller(error.__traceback__)
            return _error("0808", TOO_DEEP, around[0].span if around else span, ENDS)
        case MemoryError():
            return _error("0804", "out of memory", span)
        case SystemError() if "without exception set" in str(error) or "without setting an exception" in str(error):
            # what Python says when it had no memory for a frame, nor for the exception that tells so
            _reserve.clear()
            return _error("0804", "out of memory", span)
        case KeyboardInterrupt():
            return _error("0809", "interrupted", span)
        case NameError() if _raised_by_program(error.__traceback__):
            found_name = re.search("'([A-Za-z_][A-Za-z0-9_]*)", str(error))
            if found_name is not None:
                name = found_name[1]
                return _error("0808", f"`{name}` is read before it has a value", span)
        case CudaError() | CudaRefused() | CudaUnavailable():
            from compiler.codes.device_faults import diagnostic

            return ZyntaxError(diagnostic(error, span))
        case OSError():
            reason = error.strerror or str(error)
            return _error("0807", f"{error.filename}: {reason}" if error.filename else reason, span)
    return _error("0901", f"a fault of the compiler itself: {type(error).__name__}: {error}", span, "please report this program")


def _error(code: str, message: str, span: Span | None, hint: str | None = None) -> ZyntaxError:
    return ZyntaxError(Diagnostic(code, message, span, hint=hint))


def _of_lookup(error: BaseException, span: Span | None) -> LibraryFault | None:
    """What the library says where the program's own instruction found no such index or key."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or POSITIONS not in trace.tb_frame.f_globals:
        return None
    names = trace.tb_frame.f_globals
    return looked_up_again(trace.tb_frame, names[POSITIONS].lookups, span, names[f"{MARK}get"])


def _raised_by_program(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame is the program's own: a fault of that kind elsewhere is ours."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and POSITIONS in traceback.tb_frame.f_globals


def program_span(trace: TracebackType | None) -> Span | None:
    """The place in the program that was at work: that of the innermost generated frame."""
    return next((_span(frame) for frame in _generated(trace, 1)), None)


def spans_of(trace: TracebackType | None) -> list[Span]:
    """The places in texts of the user that were at work, innermost first."""
    return [span for frame in _generated(trace, 0) if (span := _span(frame)) is not None]


def _seen_from_outside(diagnostic: Diagnostic, span: Span | None, trace: TracebackType | None) -> Diagnostic:
    """A diagnostic that shows the user's own text first: what goes wrong inside of the library is shown at its call."""
    if diagnostic.span in (None, NOWHERE):
        return evolve(diagnostic, span=span)
    inside = {positions.path for positions in map(_positions, _all_generated(trace)) if positions.of_library}
    if diagnostic.span is None or diagnostic.span.path not in inside or span is None:
        return diagnostic
    others = (Label(diagnostic.span, diagnostic.label or "in the library"), *diagnostic.others)
    return evolve(diagnostic, span=span, label="called from here", others=others)


def _in_library(trace: TracebackType | None) -> tuple[Label, ...]:
    """The place in the library that was at work, when that is a program too."""
    innermost = next(reversed(_all_generated(trace)), None)
    span = _span(innermost) if innermost is not None and _positions(innermost).of_library else None
    return () if span is None else (Label(span, "in the library"),)


def _caller(trace: TracebackType | None) -> tuple[Label, ...]:
    """The call that led into the function at fault, when that function is the program's."""
    frames = _generated(trace, 2)
    span = _span(frames[1]) if len(frames) == 2 and frames[0].tb_frame is not frames[1].tb_frame else None
    return () if span is None else (Label(span, "called from here"),)


def _generated(trace: TracebackType | None, count: int) -> list[TracebackType]:
    """The innermost frames of a traceback that the user's texts generated, innermost first; with a count of 0 all."""
    return list(reversed([frame for frame in _all_generated(trace) if not _positions(frame).of_library][-count:]))


def _all_generated(trace: TracebackType | None) -> list[TracebackType]:
    """The generated frames of a traceback, outermost first."""
    frames = []
    while trace is not None:
        if POSITIONS in trace.tb_frame.f_globals:
            frames.append(trace)
        trace = trace.tb_next
    return frames


def _positions(frame: TracebackType) -> "Positions":
    positions: Positions = frame.tb_frame.f_globals[POSITIONS]
    return positions


def span_of_frame(frame: FrameType | None) -> Span | None:
    """The place in the program that a thread is at work at, by its innermost frame."""
    while frame is not None and POSITIONS not in frame.f_globals:
        frame = frame.f_back
    return None if frame is None else _span_at(frame, frame.f_lasti)


def spans_of_stack(frame: FrameType | None) -> list[Span]:
    """The places in the program that a thread is at work at, innermost first."""
    spans = []
    while frame is not None:
        span = _span_at(frame, frame.f_lasti) if POSITIONS in frame.f_globals else None
        spans += [span] if span is not None else []
        frame = frame.f_back
    return spans


def _span(frame: TracebackType) -> Span | None:
    return _span_at(frame.tb_frame, frame.tb_lasti)


def _span_at(frame: FrameType, instruction: int) -> Span | None:
    positions: Positions = frame.f_globals[POSITIONS]
    columns = next(islice(frame.f_code.co_positions(), instruction // 2, None), (None, None, None, None))
    line, end_line, column, end_column = columns
    return positions.span(line, end_line, column, end_column)
