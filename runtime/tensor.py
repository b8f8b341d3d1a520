"""The tensor that programs, kernels and Python share: a NumPy array and the device it lies on. It owns no arithmetic; that is
the standard library's."""

from collections.abc import Callable, Hashable
from functools import cache
from math import prod
from sys import getrefcount
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from runtime import buffers
from runtime.device import CPU, Device
from runtime.lazy_numpy import Array as Array
from runtime.lazy_numpy import np
from runtime.overlap import share_memory
from runtime.records import frozen


def is_foreign(dtype: "np.dtype[Any]") -> bool:
    """Whether NumPy itself knows little of the type (bf16, f8): neither its order nor a format for files."""
    return dtype.isbuiltin == 2


@cache
def numpy_dtype(name: str) -> "np.dtype[Any]":
    """NumPy's dtype for a program's (`bf16`); KeyError for a name that is none."""
    from runtime.plain_types import PLAIN

    if name in PLAIN:
        return PLAIN[name]
    from runtime.element_types import DTYPES

    return DTYPES[name]


@cache
def dtype_name(dtype: Any) -> str:
    """A program's name for NumPy's dtype (either byte order); KeyError when programs have no such elements."""
    from runtime.plain_types import PLAIN_NAMES

    known = np.dtype(dtype).newbyteorder("=")
    if known in PLAIN_NAMES:
        return PLAIN_NAMES[known]
    from runtime.element_types import NAMES

    return NAMES[known]


def has_elements(dtype: "np.dtype[Any]") -> bool:
    """Whether programs have elements of NumPy's type."""
    try:
        return bool(dtype_name(dtype))
    except KeyError:
        return False


class Remote(Protocol):
    """A tensor's elements on another device. `named`: the program put them there, so that is where they are computed with."""

    @property
    def device(self) -> Device: ...

    @property
    def named(self) -> bool: ...

    def claim(self) -> None:
        """From now on they were put there by name."""

    @property
    def layout(self) -> Hashable:
        """All that checks of types and shapes look at."""

    @property
    def address(self) -> int:
        """Where the first element lies."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def is_contiguous(self) -> bool: ...

    @property
    def is_read_only(self) -> bool: ...

    def shares_memory(self, other: "Remote") -> bool:
        """Whether a byte of one's elements is a byte of the other's."""

    def reshaped(self, shape: tuple[int, ...]) -> "Remote":
        """The same elements, which lie in C order without gaps, in another shape."""

    def viewed(self, view: Callable[[Array], Array]) -> "Remote":
        """The elements that `view` leaves of an array of these, in its order. It makes NumPy's views alone: no element may be read."""

    def to_host(self) -> Array: ...

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

    def __dlpack__(self, **options: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


@frozen
class Filled:
    """Elements that are all this number: a device makes them itself. `dtype`: the program's name for it."""

    number: Any
    shape: tuple[int, ...]
    dtype: str

    def made(self) -> Array:
        """On the host. Raises MemoryError."""
        dtype = numpy_dtype(self.dtype)
        is_zero = not any(np.asarray(self.number, dtype).tobytes())
        return np.zeros(self.shape, dtype) if is_zero else np.full(self.shape, self.number, dtype)

    def reshaped(self, shape: tuple[int, ...]) -> "Filled":
        return Filled(self.number, shape, self.dtype)


class Tensor:
    """A dense tensor. `array` is any view (any strides) of a supported dtype and is never copied on the way in; two tensors are
    equal when they are the same object.

    A tensor that a device computed, or that was sent there, has its elements there (`remote`). `contents` fetches them to be read
    and both copies stay; `array` fetches them too, and, since whoever asked may write to them, the remote ones no longer count.
    Views of one another share NumPy's memory on the host, and on a device a `SharedElements`.

    A tensor that lies on the host may have a copy on a device besides (`device_copy`), until somebody asks for `array`. It is made where
    the tensor is alone: nobody has the array then who could write to it without asking. So long, too, it is known where all elements are
    one number (`filled`), which may be made on the host when somebody looks at them: large ones that only devices read never are."""

    __slots__ = ("__weakref__", "_array", "_shared", "device_copy", "filled", "remote")

    def __init__(self, array: Array | None, remote: Remote | None = None, filled: Filled | None = None) -> None:
        assert array is not None or remote is not None or filled is not None
        self._array, self.remote, self.filled = array, remote, filled
        self._shared: SharedElements | None = None
        self.device_copy: Remote | None = None

    @property
    def array(self) -> Array:
        array = self._fetched()
        if self._shared is not None:
            self._shared.leave()
        self.remote = self.device_copy = self.filled = None
        return array

    @property
    def contents(self) -> Array:
        """The elements on the host, to be read only; what lies on a device stays there."""
        array = self._fetched()
        if self.remote is None:
            return array
        view = array.view()
        view.flags.writeable = False
        return view

    def _fetched(self) -> Array:
        if self._array is None:
            if self._shared is not None:
                self._shared.fetch()
            elif self.remote is not None:
                self._array = self.remote.to_host()
            elif self.filled is not None:
                self._array = self.filled.made()
        assert self._array is not None
        return self._array

    def changed_there(self) -> None:
        """Says that the device wrote to `remote`: what the host knows of the elements is old."""
        assert self.remote is not None
        self._array = None
        if self._shared is not None:
            self._shared.forget_host()

    @property
    def is_alone(self) -> bool:
        """Whether only this tensor reaches its elements, which lie on the host: no view, no other tensor or library, nobody who was given
        them. So says the number of references, as views refer to the array that they are of."""
        if self._array is None or self.remote is not None:
            return self.is_unmade
        (of_view, *of_bases), last = self._references()
        alone = _references_alone()
        return of_view <= alone[0] and all(count <= alone[1] for count in of_bases) and buffers.is_lent_once(last)

    def _references(self) -> tuple[list[int], Any]:
        """How many references there are to the array and to those that it is a view of, and what the last of them has its memory from."""
        counts, base = [getrefcount(self._array)], self._array.base  # type: ignore[union-attr]
        while base.__class__ is np.ndarray:
            counts.append(getrefcount(base))
            base = base.base
        return counts, base

    def move(self, remote: Remote) -> None:
        """From now on the elements are these, on a device. The tensor was alone."""
        self._array = self.device_copy = self.filled = None
        self.remote = remote

    def as_it_is(self) -> "Tensor":
        """Another tensor of the elements as they lie now, for a reader whom writers wait for."""
        tensor = Tensor(self._array, self.remote, self.filled)
        tensor.device_copy = self.device_copy
        return tensor

    def viewed(self, view: Callable[[Array], Array]) -> "Tensor":
        """What `view` makes of the elements, over the same memory, wherever that is: a change of one is a change of the other. It makes
        NumPy's views alone; what it raises for others comes through."""
        remote = self.remote
        if remote is None or not (self._shared is not None or remote.is_contiguous):
            return Tensor(view(self.array))
        return self._sharing(remote.viewed(view))

    def viewed_as(self, shape: tuple[int, ...]) -> "Tensor":
        """The elements in another shape of as many, over the same memory. Raises ValueError where they lie so that there is no view."""
        if self.is_unmade or (self.remote is not None and self.remote.is_contiguous):
            return self._sharing(self._told.reshaped(shape))
        return self.viewed(lambda array: np.reshape(array, shape, copy=False))

    def _sharing(self, part: Remote | Filled) -> "Tensor":
        """A view, which lies there."""
        if self._shared is None:
            self._shared = SharedElements(self)
        return self._shared.tensor(part)

    @property
    def host(self) -> Array | None:
        """The elements on the host to be read only, or None while they are elsewhere."""
        return self._fetched() if self.is_unmade else self._array

    @property
    def is_unmade(self) -> bool:
        """Whether the elements are one number, and nobody has looked at them."""
        return self._array is None and self.remote is None

    def make_there(self, make: Callable[["Tensor"], Remote]) -> None:
        """Elements that nobody has looked at lie from now on, with all views of them, where `make` puts those of a tensor like this one."""
        if self._shared is None:
            self.move(make(self))
        else:
            self._shared.make_there(make)

    @property
    def device(self) -> Device:
        """Where it lies: the CPU, unless a device has its elements."""
        return CPU if self.remote is None else self.remote.device

    @property
    def shape(self) -> tuple[int, ...]:
        return self._told.shape if self._array is None else self._array.shape

    @property
    def dtype(self) -> "np.dtype[Any]":
        return self._array.dtype if self._array is not None else numpy_dtype(self._told.dtype)

    @property
    def dtype_name(self) -> str:
        return dtype_name(self.dtype)

    @property
    def layout(self) -> Hashable:
        """Where it lies, its elements and extents (and strides on a device): what checks of types and shapes look at."""
        remote = self.remote
        if remote is not None:
            return remote.layout
        array = self._array
        return (array.dtype, array.shape) if array is not None else (self.dtype, self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps, where they are."""
        if self.is_unmade:
            return True
        return self.remote.is_contiguous if self.remote is not None else bool(self.contents.flags.c_contiguous)

    @property
    def is_read_only(self) -> bool:
        """Whether the memory where it lies may not be written."""
        if self.is_unmade:
            return False
        return self.remote.is_read_only if self.remote is not None else not self.contents.flags.writeable

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, where it lies."""
        if self.remote is not None:
            return self.remote.strides
        width = self.dtype.itemsize
        return tuple(stride // width for stride in self.byte_strides)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """In bytes, on the host."""
        if not self.is_unmade:
            return self.contents.strides
        shape, width = self.shape, self.dtype.itemsize
        return tuple(width * prod(shape[axis + 1 :]) for axis in range(len(shape)))

    @property
    def dense_axis(self) -> int | None:
        """The last axis whose elements lie side by side."""
        strides, step = (self.remote.strides, 1) if self.remote is not None else (self.contents.strides, self.contents.itemsize)
        return max((axis for axis, stride in enumerate(strides) if stride == step), default=None)

    @property
    def _there(self) -> Remote:
        assert self.remote is not None
        return self.remote

    @property
    def _told(self) -> Remote | Filled:
        """What tells the shape of a tensor without an array."""
        if self.remote is not None:
            return self.remote
        assert self.filled is not None
        return self.filled

    def reshaped(self, shape: tuple[int, ...]) -> "Tensor":
        """The elements in another shape of as many, to be read only; those on a device stay there if they lie without gaps."""
        if shape == self.shape:
            return self
        if self.remote is not None and self.remote.is_contiguous:
            return Tensor(None, self.remote.reshaped(shape))
        filled = None if self.filled is None else self.filled.reshaped(shape)
        tensor = Tensor(None if self.is_unmade else self.contents.reshape(shape), None, filled)
        tensor.device_copy = None if self.device_copy is None else self.device_copy.reshaped(shape)
        return tensor

    def shares_memory(self, other: "Tensor") -> bool:
        """Whether a byte of one's elements is a byte of the other's, where they lie."""
        if self.remote is not None and other.remote is not None:
            return self.remote.shares_memory(other.remote)
        if self.is_unmade or other.is_unmade:
            return self is other or (self._shared is not None and self._shared is other._shared)
        if self.remote is not None or other.remote is not None:
            return False
        return share_memory(self.contents, other.contents)

    def clone(self) -> "Tensor":
        """A contiguous copy that shares nothing with this tensor."""
        return Tensor(np.array(self.contents, order="C", copy=True))

    # Other libraries see the elements where they lie, without a copy. NumPy reads a copy of what a device has: it can't write there.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._exposed, dtype=dtype, copy=copy)

    @property
    def _exposed(self) -> Array:
        """The elements on the host for a reader who may write where that has an effect."""
        return self.array if self.remote is None else self.contents

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if is_foreign(self.dtype):
            raise AttributeError("NumPy's array interface has no name for the elements")
        array = _EXPOSED[self] = self._exposed
        return array.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.remote is None:
            raise AttributeError("the tensor lies on the CPU")
        self.changed_there()
        return self.remote.__cuda_array_interface__

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        """The tensor on its device, for a consumer that works on `stream`. What the host knows of the elements of a device is
        forgotten: the consumer may write."""
        if self.remote is not None:
            self.changed_there()
            return self.remote.__dlpack__(stream=stream, max_version=max_version, **options)
        if not is_foreign(self.dtype):
            return self.array.__dlpack__(stream=stream, max_version=max_version, **options)
        from runtime.dlpack import export_host_array

        if stream is not None or options.get("copy") or options.get("dl_device", (1, 0)) not in (None, (1, 0)):
            raise BufferError("the tensor lies on the CPU and is exported as it lies")
        return export_host_array(self.array, self.dtype_name, versioned=max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.remote.__dlpack_device__() if self.remote is not None else (1, 0)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Tensor({np.array2string(self.contents, threshold=20, separator=', ')}, dtype={self.dtype_name}, device={self.device})"


_EXPOSED: "WeakKeyDictionary[Tensor, Array]" = WeakKeyDictionary()
"""Arrays whose addresses others were given, who hold the tensor alone: references that say that the array isn't."""


@cache
def _references_alone() -> list[int]:
    """The references of an array, and of one that it is a view of, where only a tensor has them."""
    return Tensor(np.empty(2)[1:])._references()[0]


class SharedElements:
    """Elements on a device that several tensors view, or that nobody has made yet. `whole` are all of them, in C order without gaps, and
    `host` what the host knows of them: NumPy's memory, of which the tensors' own arrays are views. So the tensors are fetched together,
    become old together, and come to the host together, where they are views of one another as any are."""

    __slots__ = ("_tensors", "host", "whole")

    def __init__(self, tensor: Tensor) -> None:
        self.whole: Remote | Filled = tensor._told
        self.host = tensor._array
        self._tensors: WeakSet[Tensor] = WeakSet((tensor,))

    def tensor(self, part: Remote | Filled) -> Tensor:
        """Another tensor of these elements."""
        array = None if self.host is None else self._on_host(self.host, part)
        tensor = Tensor(array, None, part) if isinstance(part, Filled) else Tensor(array, part)
        tensor._shared = self
        self._tensors.add(tensor)
        return tensor

    def fetch(self) -> None:
        """Both copies stay."""
        self.host = host = self.whole.made() if isinstance(self.whole, Filled) else self.whole.to_host()
        for tensor in self._tensors:
            tensor._array = self._on_host(host, tensor._told)

    def make_there(self, make: Callable[[Tensor], Remote]) -> None:
        """See `Tensor.make_there`."""
        assert isinstance(self.whole, Filled)
        self.whole = whole = make(Tensor(None, None, self.whole))
        for tensor in self._tensors:
            tensor.move(whole.reshaped(tensor.shape))

    def leave(self) -> None:
        """The host's elements, which were fetched, are those of all tensors from now on."""
        for tensor in self._tensors:
            tensor.remote = tensor._shared = tensor.filled = tensor.device_copy = None

    def forget_host(self) -> None:
        """The host's elements are old."""
        self.host = None
        tensors = list(self._tensors)
        for tensor in tensors:
            tensor._array = None
        if len(tensors) == 1:
            tensors[0]._shared = None

    def _on_host(self, host: Array, part: Remote | Filled) -> Array:
        """The array over a part of the host's memory."""
        if isinstance(part, Filled) or isinstance(self.whole, Filled):
            return host.reshape(part.shape)
        if 0 in part.shape:
            return np.empty(part.shape, host.dtype)
        size, offset = host.itemsize, part.address - self.whole.address
        array: Array = np.ndarray(part.shape, host.dtype, host, offset, [stride * size for stride in part.strides])
        array.flags.writeable = host.flags.writeable and not part.is_read_only
        return array
