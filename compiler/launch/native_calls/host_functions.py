"""Functions of host code that are a sequence of blocks, called with tensors on the host: machine code answers calls that come again, as it
does those from Python (see `calls`), and makes all their launches. Any other call goes the way through the program."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import ref

from compiler.launch.native_calls.host_blocks import COMES_AGAIN, WITHIN
from compiler.launch.native_calls.straight import made_function, offsets
from compiler.launch.watch import WATCHED
from runtime.lazy_numpy import np
from runtime.records import define, evolve
from runtime.tensor import Tensor

if TYPE_CHECKING:
    from compiler.launch.native_calls.calls import NativeCalls
    from compiler.launch.native_calls.kept import KeptAnswers
    from compiler.launch.native_calls.kinds import Kinds
    from compiler.launch.native_calls.learn import BlocksFunction
    from compiler.launch.native_calls.plan import CallPlan
    from compiler.launch.native_calls.straight import StraightFunction
    from compiler.launch.native_calls.watch import CpuLaunch


@define(eq=False)
class OfHost:
    """The function as host code calls it. `is_planned`: some of its calls have a plan."""

    function: "BlocksFunction"
    is_planned: bool = False

    @property
    def count(self) -> int:
        return self.function.count

    def plan(self, kinds: "Kinds", given: Sequence[Any], launches: "Sequence[CpuLaunch]", value: Any) -> "CallPlan":
        """The plan of calls like this one. Raises Unplannable."""
        plan = evolve(self.function.plan(kinds, given, launches, value), of_host=True)
        self.is_planned = True
        return plan


@define(eq=False)
class HostFunctionCalls:
    """The calls of one function. `function`: what the program has for it; `blocks` gives it as a sequence of blocks that run on the CPU,
    and whether they do so whatever other devices a machine has, or None; `unawaited`, `kept`: see `NativeCalls`; `asks`: code that other
    processes kept may answer."""

    function: Callable[..., Any]
    blocks: "Callable[[], tuple[BlocksFunction, bool] | None]"
    unawaited: object
    kept: "KeptAnswers | None"
    asks: bool
    target: "ref[StraightFunction]"
    _calls: "tuple[OfHost, NativeCalls] | None" = None
    _seen: int = 0

    def run(self, *values: Any, **named: Any) -> Any:
        """The function's value through the program, or by code of another process that is there from now on."""
        if named or WATCHED or (given := _arrays(values)) is None:
            return self.function(*values, **named)
        target = self.target()
        if target is None:
            return self.function(*values)
        if self.asks and self.kept is not None and self.kept.answers(target, given):
            return target(*values)
        self._seen += 1
        # the first call tells other processes of its blocks, should there be no plan
        if self._seen == 1 or (self._seen < COMES_AGAIN and (self.kept is None or self.asks)):
            return self.function(*values)
        if self._calls is None and not self._has_calls():
            target._slow = self.function
            return self.function(*values)
        assert self._calls is not None
        function, calls = self._calls
        is_early = self._seen < COMES_AGAIN
        with WITHIN.a_function() if is_early or calls.is_coming(given) else nullcontext():
            value = calls.value(given, values, self.function, early=is_early)
        if not function.is_planned:
            target._slow = self.function
        return value

    def _has_calls(self) -> bool:
        """Whether the function is a sequence of blocks."""
        from compiler.launch.native_calls.calls import NativeCalls

        blocks = self.blocks()
        if blocks is not None:
            function = OfHost(blocks[0])
            calls = NativeCalls(function, self.target, offsets(), self.unawaited, self.kept, blocks[1], comes_again=1)
            self._calls = function, calls
        return blocks is not None


def coming_back(
    function: Callable[..., Any], blocks: "Callable[[], tuple[BlocksFunction, bool] | None]", unawaited: object,
    kept: "KeptAnswers | None", asks: bool,
) -> Callable[..., Any]:  # fmt: skip
    """The function, for its callers: machine code answers calls that come back. The arguments are those of `HostFunctionCalls`."""
    target = made_function()
    target._slow = HostFunctionCalls(function, blocks, unawaited, kept, asks, ref(target)).run
    return target


def _arrays(values: Sequence[Any]) -> list[Any] | None:
    """The values, with arrays for tensors; None where one lies elsewhere, or is something else than a tensor or a number."""
    given: list[Any] = []
    for value in values:
        if value.__class__ is Tensor:
            if value.remote is not None:
                return None
            given.append(value.host)
        elif value.__class__ in (int, float) or isinstance(value, np.floating):
            given.append(value)
        else:
            return None
    return given
