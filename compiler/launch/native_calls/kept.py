"""Machine code of calls, kept in the user's cache. A function that another process called with arguments of these kinds is answered by
that process's code: nothing is parsed, checked or compiled, and LLVM isn't loaded. An entry is named by the program's text, its options,
the function, the compiler, the processor, and all that the code was made for; it holds the code of the call and of its kernels as one
image. Where the code hands a call on, the program is made as if there were no entry."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from compiler.launch.cache import CALL_ENTRIES, CPU_CALLS
from compiler.launch.native_calls.kinds import Kinds, kinds_of
from compiler.launch.watch import WATCHED
from runtime import buffers
from runtime.calls import arrays
from runtime.calls.answering import FIRST, PLANS, SLOWLY, put_in_front
from runtime.cpu import detect, team
from runtime.cpu.image import CodeImage, LoadedImage, NotPortable, ObjectToLink, put_together
from runtime.device import CPU, present_devices
from runtime.plain_types import PLAIN
from runtime.records import Factory, define
from runtime.tensor import Tensor
from runtime.unawaited import READING

CALL = "call"
"""The name of an image's code that answers."""

EMPTIED = "PyExc_ReferenceError"
"""Symbol of the exception's class for calls of a function that was emptied."""


@define(eq=False)
class KeptAnswers:
    """The calls of one function. `origin`: the program's text and options, and the function's name; `unawaited`: a dictionary with
    something in it while futures of the program are under way whose faults a call must tell."""

    origin: tuple[str, ...]
    offsets: Mapping[str, int]
    unawaited: object
    may_keep: Callable[[], bool] = bool(1).__bool__
    """Whether what this process makes is for others, too."""
    _asked: set[Kinds] = Factory(set)
    _answered: set[Kinds] = Factory(set)

    def has_answered(self, kinds: Kinds) -> bool:
        """Whether code of another process answers calls like this one."""
        return kinds in self._answered

    def answers(self, target: Any, values: Sequence[Any]) -> bool:
        """Whether code of another process answers calls like this one from now on. A kind is looked for once."""
        kinds = kinds_of(values)
        if kinds is None or kinds in self._asked or len(self._asked) >= PLANS:
            return False
        self._asked.add(kinds)
        entries = kept_entries(self.offsets) if arrays.is_known() else None
        if entries is None:
            return False
        if not CPU_CALLS.find(lambda: self._name(kinds), lambda head, code: self._put_in_front(target, entries, head, code)):
            return False
        self._answered.add(kinds)
        return True

    def _put_in_front(self, target: Any, entries: Mapping[str, int], head: Any, code: bytes) -> bool:
        """Raises ValueError for what can't be here."""
        if not head["anywhere"] and present_devices() != (CPU,):
            return False
        objects = {symbol: self._object(words) for symbol, words in head["objects"].items()}
        image = CodeImage.of(head["image"], code)
        symbols = {**arrays.symbols(), **{symbol: id(referred) for symbol, referred in objects.items()}}

        def bring(after: Mapping[str, int]) -> tuple[int, Any]:
            loaded = image.loaded({**symbols, **after, team.SYMBOL: team.address()})
            return loaded.addresses[CALL], (loaded, objects)

        try:
            put_in_front(target, entries, bring)
        except OSError:
            return False
        return True

    def keep(self, kinds: Kinds, code: bytes, objects: Mapping[str, Any], kernels: Sequence[ObjectToLink], anywhere: bool) -> None:
        """Puts the code of a call there: its object, the objects of Python's that it refers to, and those of its kernels. `anywhere`: it
        is the code for calls on machines with other devices, too."""
        if not self.may_keep():
            return
        told = {symbol: self._words(referred) for symbol, referred in objects.items()}
        if any(words is None for words in told.values()):
            return
        try:
            image = put_together([*kernels, ObjectToLink(code, {_BOUND: CALL})], [CALL])
        except NotPortable:
            return
        head = {"image": image.as_json(), "objects": told, "anywhere": anywhere}
        CPU_CALLS.keep(lambda: self._name(kinds), head, image.code)

    def _name(self, kinds: Kinds) -> str:
        return CPU_CALLS.name(*self.origin, detect.processor(), str(detect.threads()), *map(_kind_in_words, kinds))

    # ---- objects of Python's in words ----

    def _words(self, referred: Any) -> str | None:
        """What stands for an object in every process; None for one that only this process has."""
        for words, known in self._known().items():
            if referred is known:
                return words
        if isinstance(referred, np.dtype):
            return f"dtype {referred.name}"
        if isinstance(referred, type) and issubclass(referred, np.dtype):
            return _named(referred, _PLAIN) or _named(referred, _dtype_names())
        return None

    def _object(self, words: str) -> Any:
        """Raises ValueError for words that stand for nothing."""
        known = self._known()
        if words in known:
            return known[words]
        sort, _, name = words.partition(" ")
        if sort not in ("dtype", "class") or name not in (_PLAIN if name in _PLAIN else _dtype_names()):
            raise ValueError(words)
        dtype = np.dtype(name)
        return dtype if sort == "dtype" else type(dtype)

    def _known(self) -> dict[str, Any]:
        return {
            "array": np.ndarray,
            "empty": buffers.empty,
            "float": float,
            "float32": np.float32,
            "float64": np.float64,
            "int": int,
            "none": None,
            "reading": READING,
            "tensor": Tensor,
            "unawaited": self.unawaited,
            "watched": WATCHED,
        }


_BOUND = "zyntax_bound_call"
"""Symbol of the code of a call in its object."""


_PLAIN = tuple(dtype.name for dtype in PLAIN.values())
"""Types of elements that are NumPy's own, and that most programs have no others of."""


def _named(referred: type, names: Sequence[str]) -> str | None:
    return next((f"class {name}" for name in names if type(np.dtype(name)) is referred), None)


def _dtype_names() -> tuple[str, ...]:
    from runtime.element_types import NAMES

    return tuple(dtype.name for dtype in NAMES)


def _kind_in_words(kind: Any) -> str:
    if isinstance(kind, tuple):
        dtype, rank, layout = kind
        return f"{dtype.name} {dtype.byteorder} {rank} {layout.contiguous} {layout.dense}"
    return str(kind.__name__)


# ---- the code that Python calls first ----


def keep_entries(code: bytes, offsets: Mapping[str, int], addresses: Mapping[str, int]) -> None:
    """Puts its object there, for functions whose fields lie at these offsets. `addresses`: where it lies in this process."""
    _ENTRIES[tuple(offsets.items())] = addresses
    try:
        image = put_together([ObjectToLink(code, {FIRST: FIRST, SLOWLY: SLOWLY})], [FIRST, SLOWLY])
    except NotPortable:
        return
    CALL_ENTRIES.keep(lambda: _entries_name(offsets), image.as_json(), image.code)


def kept_entries(offsets: Mapping[str, int]) -> Mapping[str, int] | None:
    """Where this code lies, brought here from the cache if need be; None where nobody made it."""
    key = tuple(offsets.items())
    if key not in _ENTRIES:
        loaded = CALL_ENTRIES.find(lambda: _entries_name(offsets), _loaded)
        if loaded is None:
            return None
        _LASTING.append(loaded)
        _ENTRIES[key] = loaded.addresses
    return _ENTRIES[key]


def _loaded(head: Any, code: bytes) -> LoadedImage | None:
    with suppress(OSError):
        return CodeImage.of(head, code).loaded({**arrays.symbols(), EMPTIED: id(ReferenceError)})
    return None


def _entries_name(offsets: Mapping[str, int]) -> str:
    return CALL_ENTRIES.name(detect.processor(), *(f"{name} {offset}" for name, offset in sorted(offsets.items())))


_ENTRIES: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
"""Where it lies, by the offsets of the fields."""

_LASTING: list[LoadedImage] = []
"""What keeps the code alive: a function that the garbage collector has emptied can be called."""
