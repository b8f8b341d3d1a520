"""What a running tier-0 program asks of the driver: compute blocks, pictures, parameters, settings, modules."""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from compiler.backends.host.values import Bounds
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion.kept_launches import KeptLaunches
from compiler.fusion.native_chains import NativeChains
from compiler.fusion.waiting import Pending
from compiler.launch.native_calls.host_blocks import MISSED, NativeBlock, is_possible
from compiler.options import CompileOptions
from compiler.source import Span
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.units import NANOSECONDS
from runtime.futures import PendingValue, under_way
from runtime.unawaited import Unawaited
from runtime.values import OF_DURATIONS, RecordValue

if TYPE_CHECKING:
    from compiler.backends.host.loaded import HostProgram
    from compiler.devices.placement import PlacedBlock
    from compiler.fusion.chains import Chains
    from compiler.launch.native_calls.learn import BlocksFunction
    from compiler.typed_ast import nodes
    from compiler.typed_ast.language import SessionLanguage


class RunningProgram(Protocol):
    @property
    def options(self) -> CompileOptions: ...

    @property
    def language(self) -> "SessionLanguage": ...

    @property
    def unawaited(self) -> Unawaited:
        """Of this program and its modules."""

    def compute_site(self, number: int) -> "nodes.Compute":
        """A compute expression of the typed tree, by its number among those of the program's code."""

    def block(self, compute: "nodes.Compute") -> "PlacedBlock":
        """A compute expression whose device is to be chosen."""

    def blocks_function(self, name: str) -> "BlocksFunction | None":
        """A function, by its name in the namespace, as a sequence of blocks; None for any other."""

    def module(self, path: tuple[str, ...], span: Span) -> "HostProgram | None":
        """The program that `import a.b` means; None where it is the library's."""


class ProgramRuntime:
    """The `HostRuntime` of a program. `blocks`: of each compute site the first one that is the same block, set once the program is
    generated. `kept`: what other processes know of its launches."""

    def __init__(self, program: RunningProgram, kept: KeptLaunches | None = None) -> None:
        self.program = program
        self.blocks: Sequence[int] = ()
        self._placed: dict[int, PlacedBlock] = {}
        self._kept = kept
        self._chains = NativeChains(program.unawaited.futures, self._launches_natively, self._planned_chains, kept)
        self._planned: Chains | None = None
        self._native: dict[int, NativeBlock | None] = {}
        """Blocks that machine code may launch; None for others."""
        self._answers: dict[int, Callable[[Mapping[str, Any]], Any]] = {}
        """What may have the value of a block on a device at once."""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        return {}

    def compute(self, site: int, values: dict[str, Any]) -> Any:
        answers = self._answers.get(site)
        if answers is not None and (value := answers(values)) is not MISSED:
            return value
        native = self._native.get(site) or self._native_block(site, values)
        return self._compute(site, values) if native is None else native.value(values, partial(self._compute, site))

    def _native_block(self, site: int, values: dict[str, Any]) -> NativeBlock | None:
        if site in self._native:
            return self._native[site]
        kept, names = self._kept, tuple(values)
        native = None if kept is None else kept.block(site, names)
        if native is None:
            placed, compute = self.block(site), self.program.compute_site(site)
            is_async = compute.kernel is not None and compute.kernel.is_async
            if not is_async and self._launches_natively(placed, values):
                updated = tuple(entry.name for entry in compute.inputs if entry.mutable)
                if kept is None:
                    native = NativeBlock(names, updated, self.program.unawaited.futures)
                else:
                    native = kept.new_block(site, names, updated, placed.wish is not None)
        self._native[site] = native
        return native

    def _compute(self, site: int, values: dict[str, Any]) -> Any:
        compute = self.program.compute_site(site)
        placed = self.block(site)
        block = placed.for_values(values)
        if under_way():
            from compiler.launch.async_blocks import wait_for_readers

            wait_for_readers(compute, values)
        if compute.kernel is None or not compute.kernel.is_async:
            if placed.answered is not None:
                self._answers[site] = placed.answered
            return block(values)
        from compiler.launch.async_blocks import start

        future = start(block, values, compute)
        self.program.unawaited.note(future)
        return future

    def compute_later(self, site: int, values: dict[str, Any], readers: int) -> Any:
        return Pending(self.blocks[site], self.block, values, readers)

    def compute_chain(self, site: int, values: dict[str, Any]) -> Any:
        return self._chains.run(Pending(self.blocks[site], self.block, values))

    def settled(self, value: Any) -> Any:
        return self._chains.settled(value)

    def _planned_chains(self) -> "Chains":
        if self._planned is None:
            from compiler.fusion.chains import Chains

            options = self.program.options
            self._planned = Chains(together=not options.sanitize or ":" in (options.device or ""))
        return self._planned

    def _launches_natively(self, placed: "PlacedBlock", values: Mapping[str, Any]) -> bool:
        """Whether machine code may launch a block: it runs on the CPU, nobody is told of launches, and no value decides on its kernel."""
        return not self._is_told and placed.always_on_cpu and placed.block.constants.isdisjoint(values) and is_possible()

    def coming_back(self, name: str, function: Callable[..., Any], changes: Callable[[], int]) -> Callable[..., Any]:
        device, unawaited = self.program.options.device or "cpu", self.program.unawaited
        if self._is_told or not is_possible():
            return function
        if device.startswith("cuda"):
            from compiler.launch.cuda.runs import coming_back

            return coming_back(function, changes, unawaited)
        if device != "cpu":
            return function
        from compiler.launch.native_calls.host_functions import coming_back as by_blocks

        kept = None if self._kept is None else self._kept.of_function(name)
        asks = self._kept is not None and self._kept.asks
        return by_blocks(function, lambda: self._as_blocks(name), unawaited.futures, kept, asks)

    def _as_blocks(self, name: str) -> "tuple[BlocksFunction, bool] | None":
        """A function as a sequence of blocks that machine code may launch, and whether all of these run on the CPU whatever other devices
        there are; None for any other."""
        function = self.program.blocks_function(name)
        if function is None:
            return None
        placed = [self.program.block(block) for block in function.blocks]
        for block, there in zip(function.blocks, placed, strict=True):
            if not there.always_on_cpu or there.block.constants.intersection(function.names[block.span]):
                return None
        return function, all(there.wish is not None for there in placed)

    @property
    def _is_told(self) -> bool:
        """Whether somebody is told of launches."""
        options = self.program.options
        return bool(options.explain is not None or options.launched is not None or options.sanitize or options.dry)

    def block(self, site: int) -> "PlacedBlock":
        """The block at a site."""
        placed = self._placed.get(site)
        if placed is None:
            placed = self._placed[site] = self.program.block(self.program.compute_site(site))
        return placed

    def settle(self, program_ends: bool) -> None:
        unawaited = self.program.unawaited
        if program_ends:
            unawaited.settle()
        elif unawaited:
            unawaited.settle_dropped()

    def note(self, future: PendingValue) -> None:
        self.program.unawaited.note(future)

    def render(self, value: Any, form: str, options: dict[str, Any], span: Span) -> None:
        if self.program.options.dry:
            return
        with _at(span):
            self.program.language.render(value, form, options)

    def configure(self, entries: dict[str, Any], span: Span) -> None:
        with _at(span):
            self.program.language.configure(entries)

    def parameter(self, name: str, default: Any, bounds: Bounds | None, span: Span) -> Any:
        """The default, or the text of `--set` read as a value of the default's kind, inside the bounds."""
        text = self.program.options.parameters.get(name)
        value = default if text is None else _parsed(name, text, default, span)
        if bounds is not None and not (bounds.low <= value <= bounds.high if bounds.inclusive else bounds.low <= value < bounds.high):
            shown = f"{bounds.low}..{'=' if bounds.inclusive else ''}{bounds.high}"
            raise ZyntaxError(Diagnostic("0807", f"`{name}` is {value}, outside of {shown}", span, hint=f"--set {name}={bounds.low}"))
        return value

    def module(self, path: tuple[str, ...], span: Span) -> "HostProgram | None":
        return self.program.module(path, span)


_DURATION = re.compile(rf"(?P<number>-?\d+(\.\d+)?)(?P<unit>{'|'.join(NANOSECONDS)})")


class _at:
    """Faults of the library inside get this position."""

    def __init__(self, span: Span) -> None:
        self.span = span

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, fault: BaseException | None, traceback: object) -> None:
        if isinstance(fault, LibraryFault):
            raise ZyntaxError(Diagnostic(fault.code, fault.message, self.span, hint=fault.hint)) from None


def _parsed(name: str, text: str, default: Any, span: Span) -> Any:
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text]
            case int():
                return _whole(text, -(1 << 63), (1 << 63) - 1)
            case float():
                return float(text)
            case str():
                return text
            case RecordValue():
                return _of_abstract_type(text, default)
            case _:
                return _of_dtype(text, default)
    except (ValueError, KeyError):
        kind = {bool: "true or false", int: "an int (i64)", float: "a float"}.get(type(default))
        if kind is None:
            kind = f"of type {default.__record__.shown if isinstance(default, RecordValue) else _dtype_name(default)}"
        raise ZyntaxError(Diagnostic("0807", f"--set {name}={text}: `{name}` is {kind}", span)) from None


def _of_abstract_type(text: str, default: RecordValue) -> RecordValue:
    """`10s`, `5usd`. Raises ValueError."""
    suffix = default.__record__.suffix
    if suffix is None:
        raise ValueError(text)
    if suffix != OF_DURATIONS:
        number = text.removesuffix(suffix)
        return type(default)((int(number) if isinstance(default[0], int) else float(number),))
    found = _DURATION.fullmatch(text)
    nanoseconds = Fraction(found["number"]) * NANOSECONDS[found["unit"]] if found is not None else Fraction(1, 2)
    if nanoseconds.denominator != 1 or abs(nanoseconds) >= 1 << 63:
        raise ValueError(text)
    return type(default)((int(nanoseconds),))


def _whole(text: str, least: int, most: int) -> int:
    value = int(text.replace("_", ""), 0)
    if not least <= value <= most:
        raise ValueError(text)
    return value


def _of_dtype(text: str, default: Any) -> Any:
    """A number of the default's own width; what doesn't fit into it is a ValueError."""
    import numpy as np

    kind = type(default)
    if isinstance(default, np.integer):
        limits = np.iinfo(kind)
        return kind(_whole(text, int(limits.min), int(limits.max)))
    with np.errstate(over="ignore"):
        value = kind(float(text))
    if np.isinf(value) and not np.isinf(float(text)):
        raise ValueError(text)
    return value


def _dtype_name(value: Any) -> str:
    from runtime.tensor import dtype_name

    return dtype_name(value.dtype)
