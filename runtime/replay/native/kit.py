"""A little on top of llvmlite's builder, so that the decoders read from top to bottom: named variables, loops, loads by offset."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from runtime.cache.identity import identity
from runtime.cache.store import key_of, store
from runtime.cpu import load

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = I8.as_pointer()


class KitVariable:
    """A number with a name that changes."""

    def __init__(self, code: "KitFunction", kind: Any, first: Any) -> None:
        self._code = code
        with code.build.goto_entry_block():
            self._slot = code.build.alloca(kind)
        self.set(first)

    @property
    def value(self) -> Any:
        return self._code.build.load(self._slot)

    def set(self, value: Any) -> None:
        if isinstance(value, int):
            value = ir.Constant(self._slot.type.pointee, value)
        self._code.build.store(value, self._slot)

    def add(self, value: Any) -> None:
        self.set(self._code.add(self.value, value))


class KitFunction:
    """A function that is being written: its parameters by name (`"*text size"`: an address and a number), and `build`, llvmlite's builder
    at the place of writing. It gives a number back."""

    def __init__(self, module: ir.Module, name: str, parameters: str) -> None:
        kinds = [POINTER if name.startswith("*") else I64 for name in parameters.split()]
        self.function = ir.Function(module, ir.FunctionType(I64, kinds), name)
        self.build = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.parameters = dict(zip(parameters.replace("*", "").split(), self.function.args, strict=True))

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def variable(self, kind: Any, first: Any = 0) -> KitVariable:
        return KitVariable(self, kind, first)

    def add(self, a: Any, b: Any) -> Any:
        return self.build.add(a, _like(a, b))

    def sub(self, a: Any, b: Any) -> Any:
        return self.build.sub(a, _like(a, b))

    def mul(self, a: Any, b: Any) -> Any:
        return self.build.mul(a, _like(a, b))

    def compare(self, a: Any, how: str, b: Any) -> Any:
        """Unsigned."""
        return self.build.icmp_unsigned(how, a, _like(a, b))

    def compare_signed(self, a: Any, how: str, b: Any) -> Any:
        return self.build.icmp_signed(how, a, _like(a, b))

    def all(self, first: Any, *others: Any) -> Any:
        for other in others:
            first = self.build.and_(first, other)
        return first

    def any(self, first: Any, *others: Any) -> Any:
        for other in others:
            first = self.build.or_(first, other)
        return first

    def wide(self, value: Any, kind: Any = I64) -> Any:
        return self.build.zext(value, kind)

    def address(self, base: Any, offset: Any) -> Any:
        return self.build.gep(base, [_like(ir.Constant(I64, 0), offset)])

    def load(self, base: Any, offset: Any, kind: Any, big: bool = False) -> Any:
        """The number at a byte offset, wherever that lies; `big`: most significant byte first."""
        found = self.build.load(self.build.bitcast(self.address(base, offset), kind.as_pointer()), align=1)
        return self.build.bswap(found) if big and kind.width > 8 else found

    def store(self, base: Any, offset: Any, value: Any) -> None:
        self.build.store(value, self.build.bitcast(self.address(base, offset), value.type.as_pointer()), align=1)

    def item(self, base: Any, index: Any, kind: Any) -> Any:
        """Element `index` of an array."""
        return self.load(base, self.mul(index, kind.width // 8), kind)

    def put(self, base: Any, index: Any, value: Any) -> None:
        self.store(base, self.mul(index, value.type.width // 8), value)

    @contextmanager
    def repeat(self, condition: Callable[[], Any]) -> Iterator[None]:
        """While it holds."""
        head, body, done = (self.function.append_basic_block(name) for name in ("head", "body", "done"))
        self.build.branch(head)
        self.build.position_at_end(head)
        self.build.cbranch(condition(), body, done)
        self.build.position_at_end(body)
        yield
        if not self.build.block.is_terminated:
            self.build.branch(head)
        self.build.position_at_end(done)

    @contextmanager
    def when(self, condition: Any, likely: bool | None = None) -> Iterator[None]:
        with self.build.if_then(condition, likely=likely):
            yield

    def give(self, value: Any) -> None:
        self.build.ret(ir.Constant(self.function.function_type.return_type, value) if isinstance(value, int) else value)


def _like(a: Any, b: Any) -> Any:
    return ir.Constant(a.type, b) if isinstance(b, int) else b


class KitModule:
    """The functions of a module as callables of ints and arrays; an array is handed over as the address of its first element. `write`
    writes the module, unless the user's cache has its code."""

    def __init__(self, name: str, write: Callable[[ir.Module], None], names: Sequence[str]) -> None:
        cache, key = store(), key_of(["decoder", identity(), name])
        found = cache.get(key) if cache is not None else None
        if found is None:
            found = _code(name, write, names)
            if cache is not None:
                cache.put(key, *found)
        self._counts: dict[str, int] = found[0]
        made = load.CompiledModule("", load.target(None, None, None, 3), "2", {})
        made.use(found[1])
        self._addresses, self._keep = made.addresses(names)

    def call(self, name: str) -> Callable[..., int]:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * self._counts[name])
        native = kind(self._addresses[name])

        def called(*arguments: "int | npt.NDArray[Any]") -> int:
            return int(native(*[a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]))

        called.keep = self  # type: ignore[attr-defined]
        return called


def _code(name: str, write: Callable[[ir.Module], None], names: Sequence[str]) -> tuple[dict[str, int], bytes]:
    """How many parameters each function has, and the code."""
    module = ir.Module(name)
    write(module)
    counts = {one: len(module.get_global(one).args) for one in names}
    return counts, load.CompiledModule(str(module), load.target(None, None, None, 3), "2", {}).object
