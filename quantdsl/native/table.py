"""A table of fixed capacity from ints to values: open addressing with linear probes, no tombstones. All zero is an empty table.

A slot is found by the product of the key with 2**64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4); a removed
key leaves no hole, for those behind it move up (algorithm R there)."""

from hashlib import blake2s

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record
from compiler.hir.native_types import I1, I8, I64, struct
from compiler.hir.types import Array, HirType, Pointer, Struct, Tile
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

    def value(self, b: FunctionCode, table: Record, slot: Expr) -> Record:
        """The address of the value in a slot that `find` or `insert` gave."""
        return b.at(table, "values", slot, proved=True)

    def find(self, b: FunctionCode, table: Record, key: Expr) -> Expr:
        """The key's slot, or -1."""
        (slot,) = b.call(self._made(b.program, "find"), table, key)
        return slot

    def insert(self, b: FunctionCode, table: Record, key: Expr) -> tuple[Expr, Expr]:
        """The key's slot, and PRESENT, INSERTED (its value is all zero) or FULL (the slot is -1)."""
        slot, outcome = b.call(self._made(b.program, "insert"), table, key)
        return slot, outcome

    def remove(self, b: FunctionCode, table: Record, key: Expr) -> Expr:
        """Whether the key was there; it isn't any more."""
        (removed,) = b.call(self._made(b.program, "remove"), table, key)
        return removed

    # ---- the functions, made once a module ----

    def _made(self, program: ModuleBuilder, which: str) -> str:
        name = f"table.{which}.{blake2s(str(self.type).encode(), digest_size=6).hexdigest()}"
        if not program.has(name):
            getattr(self, f"_{which}")(program, name)
        return name

    def _parameters(self) -> dict[str, HirType]:
        return {"table": Pointer(self.type), "key": self.key}

    def _home(self, b: FunctionCode, key: Expr) -> Expr:
        """The slot where a key would like to be."""
        mixed = key.cast("u64").wrapping_mul(FIBONACCI)
        return (mixed >> (64 - (self.slots.bit_length() - 1))).cast("i64")

    def _round(self, b: FunctionCode, slot: Expr) -> Expr:
        return slot & (self.slots - 1)

    def _find(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I64], internal=True) as b:
            table, key = b.parameters
            home = self._home(b, key)
            with b.loop(0, self.slots) as step:
                slot = self._round(b, home.wrapping_add(step))
                with b.when(~table.used.unchecked[slot]):
                    b.ret(-1)
                with b.when(table.keys.unchecked[slot] == key):
                    b.ret(slot)
            b.ret(-1)

    def _insert(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I64, I8], internal=True) as b:
            table, key = b.parameters
            home = self._home(b, key)
            with b.loop(0, self.slots) as step:
                slot = self._round(b, home.wrapping_add(step))
                with b.when(~table.used.unchecked[slot]):
                    count = table.count
                    with b.when(count >= self.capacity):
                        b.ret(-1, FULL)
                    table.count = count.wrapping_add(1)
                    table.used.unchecked[slot] = True
                    table.keys.unchecked[slot] = key
                    b.clear(self.value(b, table, slot))
                    b.ret(slot, INSERTED)
                with b.when(table.keys.unchecked[slot] == key):
                    b.ret(slot, PRESENT)
            b.ret(-1, FULL)

    def _remove(self, program: ModuleBuilder, name: str) -> None:
        with program.function(name, self._parameters(), [I1], internal=True) as b:
            table, key = b.parameters
            first = self.find(b, table, key)
            with b.when(first < 0):
                b.ret(False)
            hole = b.variable(first)
            with b.loop(1, self.slots) as step:
                slot = self._round(b, first.wrapping_add(step))
                with b.when(~table.used.unchecked[slot]):
                    b.break_()
                own = table.keys.unchecked[slot]
                from_home = self._round(b, slot.wrapping_sub(self._home(b, own)))
                from_hole = self._round(b, slot.wrapping_sub(hole.value))
                with b.when(from_home >= from_hole):
                    table.keys.unchecked[hole.value] = own
                    b.copy(self.value(b, table, hole.value), self.value(b, table, slot))
                    hole.value = slot
            last = hole.value
            table.used.unchecked[last] = False
            table.keys.unchecked[last] = b.const(0, key.dtype)
            b.clear(self.value(b, table, last))
            table.count = table.count.wrapping_sub(1)
            b.ret(True)
