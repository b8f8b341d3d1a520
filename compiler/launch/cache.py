"""The caches between a call and the code that runs. A level says what its entries are known by and how many one cache of it holds; no other
file of `launch` and `devices` decides when an entry makes way. A call that comes again finds its plan at the first level that it asks."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from runtime.cache.identity import compiler_identity
from runtime.cache.store import key_of, store
from runtime.records import frozen

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ABSENT: Any = object()


@frozen
class CacheLevel:
    """`holds`: what the entries are; `key`: what they are known by. `bound`: how many one cache holds at most, None where the program
    bounds them itself."""

    holds: str
    key: str
    bound: int | None = None


# ---- in memory, from Python's side down to the driver's ----

FUNCTION_CALLS = CacheLevel("calls of a function with arrays on a GPU", "layouts and streams of arrays, ints, types of floats", 64)
CALLS = CacheLevel("planned calls of a block", "`signature.call_key` of its values", 64)
KERNELS = CacheLevel("kernels of a block", "the signature")
SIZES = CacheLevel("solved sizes of a kernel", "extents and ints", 64)
THREAD_KERNELS = CacheLevel("kernels of a block for devices that run threads", "the signature, and the facts of a launch")
RECORDS = CacheLevel("idle fault records of a loaded kernel", "the stream")
GRAPHS = CacheLevel("recorded launches of a call", "all arguments", 8)
TENSOR_MAPS = CacheLevel("tensor maps of an array of a launch", "the array's address", 1024)
GATHERING = CacheLevel("kernels of a GPU that copy strided arrays", "rank and bytes of an element")
PLACES = CacheLevel("devices of the machine, and their rates", "the device")
PLACED = CacheLevel("blocks on a device", "the block, or the device")
WORK = CacheLevel("kernels of a block, and the work of their runs", "`signature.call_key` of its values", 256)
HISTORIES = CacheLevel("runs of a block's kernels", "the kernel and the device")
MEASURED = CacheLevel("measured runs of a kernel on a device", "the work", 256)
TUNED = CacheLevel("choices that tuning runs of a GPU took", "the field, and what the choice holds for")


class Cache(dict[K, V]):
    """The entries of a level. Where the bound is reached all make way: programs that pass it seldom come back to what they did before.
    Threads may share it."""

    __slots__ = ("bound",)

    def __init__(self, level: CacheLevel, entries: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(entries)
        self.bound = level.bound

    def keep(self, key: K, value: V) -> V:
        if self.bound is not None and len(self) >= self.bound:
            self.clear()
        self[key] = value
        return value

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The entry, made where it is missing."""
        value = self.get(key, ABSENT)
        return self.keep(key, make()) if value is ABSENT else value


class RecentCache(Cache[K, V]):
    """Entries of which the one makes way that wasn't asked for the longest. Its owner has a lock."""

    __slots__ = ()

    def recall(self, key: K) -> V | Any:
        """The entry, which is the most recent from now on; ABSENT where it is missing."""
        value = self.pop(key, ABSENT)
        if value is not ABSENT:
            self[key] = value
        return value

    def keep(self, key: K, value: V) -> V:
        self.pop(key, None)
        if self.bound is not None and len(self) >= self.bound:
            del self[next(iter(self))]
        self[key] = value
        return value


# ---- in the user's cache, for other processes ----


@frozen
class StoredLevel:
    """Entries on disk: what they hold is JSON (`head`) and bytes (`image`). A name is made of the compiler's identity and of all that
    `key` says. A damaged entry is as none, and so is one that another version wrote."""

    holds: str
    key: str

    def name(self, *parts: str) -> str:
        return key_of([self.holds, compiler_identity(), *parts])

    def find(self, name: Callable[[], str], read: Callable[[Any, bytes], V]) -> V | None:
        """The entry as `read` understands it, else None. Names are only made where there is a cache."""
        cache = store()
        entry = None if cache is None else cache.get(name())
        if entry is None:
            return None
        try:
            return read(*entry)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    def keep(self, name: Callable[[], str], head: Any, image: bytes = b"") -> None:
        cache = store()
        if cache is not None:
            cache.put(name(), head, image, self.holds)


PROGRAMS = StoredLevel("program", "the text, the options, and the files that it takes declarations of")
RUNS = StoredLevel("run", "the program, its options, the devices, and the version of Python; the files that it imports are looked at")
CPU_CALLS = StoredLevel("cpu call", "the program, the function, the processor, and types, ranks and layouts of the values")
CALL_ENTRIES = StoredLevel("entries of calls", "the processor, and where the fields of functions lie")
GPU_CALLS = StoredLevel("gpu call", "the program, the function, the device, and layouts and ints of the values")
GPU_CODE = StoredLevel("gpu code", "the assembler, the target, the functions, and the text that lines point to")
TUNING_RUNS = StoredLevel("tuned", "the field")
GPU_RATES = StoredLevel("gpu rates", "the device and its driver")
