"""A table of fixed capacity from ints to values: open addressing with linear probes, no tombstones. All zero is an empty table.

A slot is found by the product of the key with 2**64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4); a removed
key leaves no hole, for those behind it move up (algorithm R there)."""

from hashlib import blake2s

from compiler.hir.core import dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import Array, HirType, Pointer, Struct, Tile
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I8, I64, struct
from runtime.records import frozen

FIBONACCI = 0x9E3779B97F4A7C15
PRESENT, INSERTED, FULL = range(3)
"""What `insert` says besides the slot."""


@frozen
class NativeTable:
    """`table<K, V, N>`: up to `capacity` keys. Slots are numbers; `value` is the address of what one holds."""

    key: Tile
    value_type: HirType
    capacity: int

    @property
    def slots(self) -> int:
        """A power of two that leaves at least a quarter free."""
        return 1 << (self.capacity * 4 // 3).bit_length()

    @property
    def type(self) -> Struct:
        n = self.slots
        return struct("table", count=I64, used=Array(I1, n), keys=Array(self.key, n), values=Array(self.value_type, n))

    def value(self, b: FunctionCode, table: Value, slot: Value) -> Value:
        """The address of the value in a slot that `find` or `insert` gave."""
        return b.at(table, "values", slot, proved=True)

    def find(self, b: FunctionCode, table: Value, key: Value) -> Value:
        """The key's slot, or -1."""
        (slot,) = b.call(self._made(b.program, "find"), table, key)
        return slot

    def insert(self, b: FunctionCode, table: Value, key: Value) -> tuple[Value, Value]:
        """The key's slot, and PRESENT, INSERTED (its value is all zero) or FULL (the slot is -1)."""
        slot, outcome = b.call(self._made(b.program, "insert"), table, key)
        return slot, outcome

    def remove(self, b: FunctionCode, table: Value, key: Value) -> Value:
        """Whether the key was there; it isn't any more."""
        (found,) = b.call(self._made(b.program, "remove"), table, key)
        return found

    # ---- the functions, made once a module ----

    def _made(self, program: ModuleBuilder, which: str) -> str:
        name = f"table.{which}.{blake2s(str(self.type).encode(), digest_size=6).hexdigest()}"
        if not program.has(name):
            getattr(self, f"_{which}")(program, name)
        return name

    def _parameters(self) -> dict[str, HirType]:
        return {"table": Pointer(self.type), "key": self.key}

    def _home(self, b: FunctionCode, key: Value) -> Value:
        """The slot where a key would like to be."""
        mixed = b.wrapping("mul", b.cast(key, "u64"), FIBONACCI)
        return b.cast(b.wrapping("shr", mixed, 64 - (self.slots.bit_length() - 1)), "i64")

    def _round(self, b: FunctionCode, slot: Value) -> Value:
        return b.wrapping("and", slot, self.slots - 1)

    def _find(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I64], internal=True) as b:
            table, key = b.parameters
            home = self._home(b, key)
            with b.loop(0, self.slots) as step:
                slot = self._round(b, b.wrapping("add", home, step))
                with b.when(b.negate(b.get(table, "used", slot, proved=True))):
                    b.give(-1)
                with b.when(b.eq(b.get(table, "keys", slot, proved=True), key)):
                    b.give(slot)
            b.give(-1)

    def _insert(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I64, I8], internal=True) as b:
            table, key = b.parameters
            home = self._home(b, key)
            with b.loop(0, self.slots) as step:
                slot = self._round(b, b.wrapping("add", home, step))
                with b.when(b.negate(b.get(table, "used", slot, proved=True))):
                    count = b.get(table, "count")
                    with b.when(b.ge(count, self.capacity)):
                        b.give(-1, FULL)
                    b.put(table, "count", b.wrapping("add", count, 1))
                    b.put(table, "used", slot, True, proved=True)
                    b.put(table, "keys", slot, key, proved=True)
                    b.clear(self.value(b, table, slot))
                    b.give(slot, INSERTED)
                with b.when(b.eq(b.get(table, "keys", slot, proved=True), key)):
                    b.give(slot, PRESENT)
            b.give(-1, FULL)

    def _remove(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I1], internal=True) as b:
            table, key = b.parameters
            found = self.find(b, table, key)
            with b.when(b.lt(found, 0)):
                b.give(False)
            hole = b.variable(found)
            with b.loop(1, self.slots) as step:
                slot = self._round(b, b.wrapping("add", found, step))
                with b.when(b.negate(b.get(table, "used", slot, proved=True))):
                    b.leave()
                own = b.get(table, "keys", slot, proved=True)
                from_home = self._round(b, b.wrapping("sub", slot, self._home(b, own)))
                from_hole = self._round(b, b.wrapping("sub", slot, b.now(hole)))
                with b.when(b.ge(from_home, from_hole)):
                    b.put(table, "keys", b.now(hole), own, proved=True)
                    b.copy(self.value(b, table, b.now(hole)), self.value(b, table, slot))
                    b.set(hole, slot)
            last = b.now(hole)
            b.put(table, "used", last, False, proved=True)
            b.put(table, "keys", last, b.const(0, dtype_of(key)), proved=True)
            b.clear(self.value(b, table, last))
            b.put(table, "count", b.wrapping("sub", b.get(table, "count"), 1))
            b.give(True)
