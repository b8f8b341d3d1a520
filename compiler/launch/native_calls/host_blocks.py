"""Blocks of host code, alone or in a chain, that machine code launches once they have run a few times, or from the first time on where
another process made the code. Host code hands tensors and numbers over; machine code takes arrays and Python's numbers, and answers as for
calls from Python (see `calls`). What it hands on goes the way through the program, as does everything while somebody watches launches."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import ref

from compiler.launch.native_calls.watch import CPU_LAUNCHES, CpuLaunch
from runtime.calls.vectorcall import is_supported, vectorcall_type
from runtime.lazy_numpy import np
from runtime.records import Factory, define, frozen
from runtime.tensor import Tensor

if TYPE_CHECKING:
    from compiler.launch.native_calls.calls import NativeCalls
    from compiler.launch.native_calls.kept import KeptAnswers
    from compiler.launch.native_calls.plan import Argument, CallPlan, Origin

COMES_AGAIN = 32
"""The call, counted from 1, after which machine code is made: it takes some milliseconds, and spares each call some 20 microseconds."""

MISSED: Any = object()
"""What machine code gives for a call that it hands on."""


class Within(threading.local):
    """Whether this thread runs a function that machine code will answer as a whole: code for its blocks alone is not worth making."""

    function = False

    @contextmanager
    def a_function(self) -> Iterator[None]:
        outer, self.function = self.function, True
        try:
            yield
        finally:
            self.function = outer


WITHIN = Within()


class LaunchedFromHost:
    """What machine code is put in front of."""

    _slow: Callable[..., Any]

    def __call__(self, *values: Any) -> Any:
        return MISSED


def _missed(*values: Any) -> Any:
    return MISSED


@cache
def _type_of_targets() -> tuple[type[LaunchedFromHost], dict[str, int]]:
    return vectorcall_type(LaunchedFromHost)


def made_target() -> Any:
    """Something that answers MISSED until machine code is put in front of it."""
    target = _type_of_targets()[0]()
    target._slow = _missed
    return target


def offsets() -> dict[str, int]:
    """Where the fields of targets lie."""
    return _type_of_targets()[1]


def is_possible() -> bool:
    """Whether machine code may take Python's objects here."""
    from runtime.calls import arrays

    return is_supported() and arrays.is_known()


@frozen(eq=False)
class LaunchStep:
    """A launch. `inputs`: where each comes from, by the kernel's name for it: the value at a position, or a pair of an earlier step and its
    result; `results`: how many it has."""

    inputs: Mapping[str, int | tuple[int, int]]
    results: int = 1


@frozen(eq=False)
class LaunchSteps:
    """What launches values of these types run. `updated`: positions of the values that they update. `kept`: the results that host code
    gets, each a step and its result; None: all that the only step gives."""

    types: tuple[type, ...]
    steps: tuple[LaunchStep, ...]
    updated: frozenset[int] = frozenset()
    kept: tuple[tuple[int, int], ...] | None = None

    @property
    def count(self) -> int:
        return len(self.types)

    def plan(self, kinds: tuple[Any, ...], given: Sequence[Any], launches: Sequence[CpuLaunch], value: Any) -> "CallPlan":
        """The plan of calls like one that made these launches. Raises Unplannable."""
        from compiler.launch.native_calls.plan import CallPlan, EarlierResult, PlannedLaunch, Unplannable

        if len(launches) != len(self.steps):
            raise Unplannable("other launches than those of its blocks")
        planned = []
        for step, launch in zip(self.steps, launches, strict=True):
            if self.kept is not None:
                results = launch.kernel.lowered.plan.results
                if len(results) != step.results or any(result.group or result.input is not None for result in results):
                    raise Unplannable("results that host code doesn't get as they are")
            inputs: dict[str, Origin] = {n: o if isinstance(o, int) else EarlierResult(*o) for n, o in step.inputs.items()}
            planned.append(PlannedLaunch(launch.kernel, inputs))
        results = launches[-1].kernel.lowered.plan.results
        if self.updated and not all(result.input is not None for result in results):
            raise Unplannable("new results beside updated inputs")
        kept = None if self.kept is None else tuple(EarlierResult(*origin) for origin in self.kept)
        arguments = [self._argument(kind, position) for position, kind in enumerate(kinds)]
        return CallPlan(launches[-1].threads, arguments, {}, planned, kept, bool(self.updated))

    def _argument(self, kind: Any, position: int) -> "Argument":
        from compiler.launch.native_calls.plan import ArrayArgument, NumberArgument, Unplannable
        from compiler.typed_ast.types import DType
        from runtime.tensor import dtype_name, numpy_dtype

        if not isinstance(kind, tuple):
            type_ = self.types[position]
            dtype = {float: DType.F64, int: DType.I64}.get(type_) or DType(dtype_name(np.dtype(type_)))
            return NumberArgument(kind, dtype)
        dtype, rank, layout = kind
        if position in self.updated and not layout.contiguous:
            raise Unplannable("an array with gaps that is updated")
        return ArrayArgument(numpy_dtype(dtype_name(dtype)), rank, layout, (None,) * rank, position in self.updated)


@define(eq=False)
class HostLaunches:
    """The calls of one block or chain with values of the same types. `unawaited`, `kept`, `anywhere`: see `NativeCalls`; `asks`: code that
    other processes kept may answer."""

    steps: LaunchSteps
    unawaited: object
    kept: "KeptAnswers | None" = None
    anywhere: bool = False
    asks: bool = False
    _target: Any = None
    _calls: "NativeCalls | None" = None
    _seen: int = 0

    def value(self, values: Sequence[Any]) -> Any:
        """What machine code makes of these values, as NumPy's arrays and numbers; MISSED where it doesn't."""
        target = self._target
        if target is None:
            if not self.asks:
                return MISSED
            target = self._made_target()
        if CPU_LAUNCHES.calls is not None or (given := self._given(values)) is None:
            return MISSED
        value = target(*given)
        if value is MISSED and self.asks and self.kept is not None and self.kept.answers(target, given):
            return target(*given)
        return value

    def through(self, values: Sequence[Any], program: Callable[[], Any]) -> Any:
        """The value through the program. Once it has come often enough, machine code is made."""
        self._seen += 1
        if (self.kept is None and self._seen < COMES_AGAIN) or CPU_LAUNCHES.calls is not None or WITHIN.function:
            return program()
        given = self._given(values)
        if given is None:
            return program()
        if self._calls is None:
            from compiler.launch.native_calls.calls import NativeCalls

            target = ref(self._made_target())
            self._calls = NativeCalls(self.steps, target, offsets(), self.unawaited, self.kept, self.anywhere, comes_again=1)
        return self._calls.value(given, values, lambda *values: program(), early=self._seen < COMES_AGAIN)

    def _made_target(self) -> Any:
        if self._target is None:
            self._target = made_target()
        return self._target

    def _given(self, values: Sequence[Any]) -> list[Any] | None:
        """The values as machine code takes them; None where a tensor lies elsewhere."""
        given: list[Any] = []
        add = given.append
        for value in values:
            of = value.__class__
            if of is Tensor:
                if value.remote is not None:
                    return None
                add(value.host)
            else:
                add(value if of is int or of is float else value.item())
        for position in self.steps.updated:
            given[position] = values[position].array
        return given


_PYTHON = (int, float)


def takes(types: Sequence[type]) -> bool:
    """Whether values of these types are tensors and numbers that machine code takes."""
    return all(type_ is Tensor or type_ in _PYTHON or (issubclass(type_, np.number) and hasattr(type_, "item")) for type_ in types)


@define(eq=False)
class NativeBlock:
    """One block of host code. `updated`: the inputs that it updates; `kept`: for values of the types that these words say; the others as
    in `HostLaunches`."""

    names: tuple[str, ...]
    updated: tuple[str, ...]
    unawaited: object
    kept: "Callable[[str], KeptAnswers] | None" = None
    anywhere: bool = False
    asks: bool = False
    _known: dict[tuple[type, ...], HostLaunches | None] = Factory(dict)
    """By the types of the values; None where only the program launches."""

    def value(self, values: Mapping[str, Any], program: Callable[[Any], Any]) -> Any:
        given = [*values.values()]
        types = tuple(map(type, given))
        launches = self._known.get(types, MISSED)
        if launches is MISSED:
            launches = self._known[types] = self._launches(types)
        if launches is None:
            return program(values)
        value = launches.value(given)
        if value is MISSED:
            return launches.through(given, lambda: program(values))
        if self.updated:
            return values[self.updated[0]] if len(self.updated) == 1 else tuple([values[name] for name in self.updated])
        return as_program_has_it(value)

    def _launches(self, types: tuple[type, ...]) -> HostLaunches | None:
        if not takes(types):
            return None
        updated = frozenset(self.names.index(name) for name in self.updated)
        if any(types[position] is not Tensor for position in updated):
            return None
        step = LaunchStep({name: position for position, name in enumerate(self.names)})
        kept = None if self.kept is None else self.kept(in_words(types))
        return HostLaunches(LaunchSteps(types, (step,), updated), self.unawaited, kept, self.anywhere, self.asks)


def as_program_has_it(value: Any) -> Any:
    """A value of machine code's, with tensors for arrays."""
    if value.__class__ is np.ndarray:
        return Tensor(value)
    return tuple(map(as_program_has_it, value)) if value.__class__ is tuple else value


@frozen(eq=False)
class ChainLaunches:
    """`launches`: of a chain whose blocks have these links and share values in this way. `kept`: the numbers of the blocks whose values
    host code gets, the last one's at the end."""

    launches: HostLaunches
    kept: tuple[int, ...]


def in_words(key: Any) -> str:
    """What decides on launches, the same in every process."""
    if isinstance(key, tuple):
        return f"({' '.join(map(in_words, key))})"
    return f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else repr(key)
