"""What `--explain-placement` says of a block: where it could have run, at what cost, where it runs, and why; and what `zyntax explain` says
of blocks that are split."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compiler.analysis.device_split import DeviceSplit
from compiler.source import Sources, Span
from runtime.cuda.errors import readable
from runtime.device import Device
from runtime.records import Factory, define, field, frozen
from runtime.tensor import Tensor
from runtime.tuples import as_tuple


@frozen
class DeviceCandidate:
    """A device that a block can run on: bytes of inputs that aren't there, and seconds for copying them and for the run, estimated
    or (`measured`) as earlier runs took; `share`: which range of the results it computes, where several devices do."""

    device: Device
    moved: int
    copying: float | None = None
    running: float | None = None
    measured: bool = False
    share: tuple[int, int] | None = None

    @property
    def seconds(self) -> float:
        return (self.copying or 0.0) + (self.running or 0.0)


@frozen
class Decision:
    """A block's device for one set of sizes."""

    span: Span
    name: str
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = field(converter=as_tuple)
    candidates: tuple[DeviceCandidate, ...] = field(converter=as_tuple)
    device: Device
    why: str

    @staticmethod
    def of(compute: Any, values: Mapping[str, Any], candidates: Sequence[DeviceCandidate], device: Device, why: str) -> "Decision":
        name = compute.kernel.name if compute.kernel is not None and compute.kernel.name else ""
        sizes = [(name, value.shape) for name, value in values.items() if isinstance(value, Tensor)]
        return Decision(compute.span, name, sizes, candidates, device, why)

    def text(self, position: str) -> str:
        """Some lines; `position` is the block's in the program."""
        sizes = ", ".join(f"{name} {list(shape)}" for name, shape in self.sizes)
        name = f" `{self.name}`" if self.name else ""
        head = f"{position}: compute{name}{' of ' if sizes else ''}{sizes}: {self.device}, {self.why}"
        return "\n".join([head, *(f"  {candidate.device + ':':<10} {_costs(candidate)}" for candidate in self.candidates)])


Explain = Callable[[Decision], None]


@define
class Telling:
    """An `Explain` that tells somebody in words, each thing once."""

    tell: Callable[[str], None]
    sources: Sources
    _told: set[tuple[Any, ...]] = Factory(set)

    def __call__(self, decision: Decision) -> None:
        key = (decision.span, decision.sizes, decision.device, decision.why, tuple(candidate.moved for candidate in decision.candidates))
        if key not in self._told:
            self._told.add(key)
            self.tell(decision.text(_position(decision.span, self.sources)))


def splits_explained(blocks: Iterable[Any], split_of: Callable[[Any], DeviceSplit | None], sources: Sources) -> str:
    """A line for each of the blocks that several devices compute together: what each of them gets. Raises ZyntaxError."""
    lines = []
    for compute in blocks:
        split = split_of(compute) if compute.kernel is not None and compute.kernel.parallel is not None else None
        if split is not None:
            cut = [f"`{name}` along its axis {axis}" for name, axis in split.inputs.items()]
            whole = [f"`{entry.name}`" for entry in compute.inputs if entry.name not in {*split.inputs, *split.scalars}]
            gets = f"each gets a range of {', '.join(cut) or 'the size'}{'; all of ' if whole else ''}{', '.join(whole)}"
            devices = ", ".join(compute.kernel.devices)
            lines.append(f"compute ({_position(compute.span, sources)})  split over {devices} along axis {split.axis}: {gets}\n")
    return "".join(lines)


def _position(span: Span, sources: Sources) -> str:
    source = sources.get(span.path)
    if source is None:
        return span.path
    line, column = source.line_and_column(span.start)
    return f"{span.path}:{line}:{column}"


def _costs(candidate: DeviceCandidate) -> str:
    moved = f"{readable(candidate.moved)} to copy" if candidate.moved else "nothing to copy"
    if candidate.share is not None:
        moved = f"{candidate.share[0]}..{candidate.share[1]}, {moved}"
    if candidate.running is None:
        return moved
    how = "measured" if candidate.measured else "estimated"
    copying = f" ({shown_seconds(candidate.copying)})" if candidate.copying else ""
    return f"{moved}{copying}, run {shown_seconds(candidate.running)} {how}, together {shown_seconds(candidate.seconds)}"


def shown_seconds(seconds: float | None) -> str:
    """Three digits, in the unit that suits: `1.52 ms`."""
    seconds = seconds or 0.0
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError(seconds)
