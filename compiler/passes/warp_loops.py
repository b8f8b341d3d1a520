"""Warp operations as loops over the lanes of each warp: operands and results are arrays over the block's threads."""

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import dtype_of
from compiler.hir.gpu import WARP, Elect, MatchLanes, Redux, Shuffle, Vote
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES
from runtime.records import frozen


@frozen
class WarpLoops:
    """`active`: memory of one truth a thread, None when all take part. Lanes that don't take part give nothing and get nothing."""

    threads: int
    active: Value | None

    def emit(self, op: Instruction, operands: list[Value], result: Value, b: Builder) -> None:
        match op:
            case Shuffle():
                self.shuffle(op, operands, result, b)
            case Vote(operation="ballot"):
                self.fold(b, result, "or", "i32", lambda i, t: i.op("shl", i.cast(i.load(operands[0], [t]), "i32"), self.lane(i, t)))
            case Vote(operation=operation):
                monoid = "or" if operation == "any" else "and"
                self.fold(b, result, monoid, "i1", lambda i, t: i.load(operands[0], [t]))
            case Redux(operation=operation):
                self.fold(b, result, operation, mem_of(operands[0]).dtype, lambda i, t: i.load(operands[0], [t]))
            case MatchLanes():
                self.match(op, operands[0], result, b)
            case Elect():
                self.elect(result, b)
            case _:
                raise AssertionError(op.name)

    def lane(self, b: Builder, t: str) -> Value:
        return b.cast(b.index(Affine.of(t) % WARP), "i32")

    def taking_part(self, b: Builder, t: str) -> Value:
        inside = b.inbounds(t, self.threads)
        return inside if self.active is None else b.op("and", inside, b.load(self.active, [t], where=inside))

    def shuffle(self, op: Shuffle, operands: list[Value], result: Value, b: Builder) -> None:
        """Every lane reads the lane that its mode names, inside its group of `width`; its own where there is none."""
        values, lanes = operands
        with b.loop("t", 0, self.threads) as (i, loop):
            t = loop.variable.name
            with i.when(self.taking_part(i, t)) as g:
                number = self.lane(g, t)
                width = g.const(op.width, "i32")
                group = g.op("and", number, g.op("not", g.op("sub", width, g.const(1, "i32"))))
                delta = g.load(lanes, [t])
                match op.mode:
                    case "idx":
                        source = g.add(group, g.op("and", delta, g.op("sub", width, g.const(1, "i32"))))
                    case "up":
                        source = g.sub(number, delta)
                    case "down":
                        source = g.add(number, delta)
                    case _:
                        source = g.op("xor", number, delta)
                inside = g.op("and", g.op("ge", source, group), g.op("lt", source, g.add(group, width)))
                chosen = g.select(inside, source, number)
                thread = g.add(g.index(Affine.of(t).floordiv(WARP) * WARP), g.cast(chosen, "index"))
                exists = g.op("lt", thread, g.const(self.threads, "index"))
                at = g.select(exists, thread, g.index(t))
                g.store(result, g.load(values, [at.name]), [t])

    def fold(self, b: Builder, result: Value, monoid: str, dtype: str, element) -> None:  # type: ignore[no-untyped-def]
        """All lanes of a warp combined, and handed to all of them."""
        with b.loop("w", 0, -(-self.threads // WARP)) as (i, warp):
            total = i.slot(i.const(identity_of(monoid, [dtype])[0], dtype), "total")
            base = Affine.of(warp.variable.name) * WARP
            for collect in (True, False):
                with i.loop("l", 0, WARP) as (j, lane):
                    t = j.index(base + lane.variable.name)
                    with j.when(self.taking_part(j, t.name)) as g:
                        if collect:
                            g.set(total, g.op(monoid, g.get(total), element(g, t.name)))
                        else:
                            g.store(result, g.get(total), [t.name])

    def match(self, op: MatchLanes, values: Value, result: Value, b: Builder) -> None:
        """`any`: the lanes that hold this lane's bits. `all`: all lanes of the warp that take part, when they hold the same."""
        dtype = mem_of(values).dtype
        bits = f"u{DTYPES[dtype]}" if dtype[0] in "fb" and dtype != "bool" else dtype
        with b.loop("w", 0, -(-self.threads // WARP)) as (i, warp):
            base = Affine.of(warp.variable.name) * WARP
            with i.loop("l", 0, WARP) as (j, lane):
                t = j.index(base + lane.variable.name)
                with j.when(self.taking_part(j, t.name)) as g:
                    same, present = g.slot(g.const(0, "i32"), "same"), g.slot(g.const(0, "i32"), "present")
                    mine = self.as_bits(g, g.load(values, [t.name]), bits)
                    with g.loop("m", 0, WARP) as (k, other):
                        u = k.index(base + other.variable.name)
                        with k.when(self.taking_part(k, u.name)) as h:
                            bit = h.op("shl", h.const(1, "i32"), h.cast(other.variable, "i32"))
                            h.set(present, h.op("or", h.get(present), bit))
                            equal = h.op("eq", self.as_bits(h, h.load(values, [u.name]), bits), mine)
                            h.set(same, h.op("or", h.get(same), h.select(equal, bit, h.const(0, "i32"))))
                    if op.mode == "any":
                        g.store(result, g.get(same), [t.name])
                    else:
                        everyone = g.op("eq", g.get(same), g.get(present))
                        g.store(result, g.select(everyone, g.get(present), g.const(0, "i32")), [t.name])

    def as_bits(self, b: Builder, value: Value, bits: str) -> Value:
        from compiler.hir.core import Bitcast

        return value if dtype_of(value) == bits else b.emit(Bitcast(value=value, to=bits)).result

    def elect(self, result: Value, b: Builder) -> None:
        """The lowest lane that takes part."""
        with b.loop("w", 0, -(-self.threads // WARP)) as (i, warp):
            free = i.slot(i.const(True, "i1"), "free")
            with i.loop("l", 0, WARP) as (j, lane):
                t = j.index(Affine.of(warp.variable.name) * WARP + lane.variable.name)
                with j.when(self.taking_part(j, t.name)) as g:
                    g.store(result, g.get(free), [t.name])
                    g.set(free, g.const(False, "i1"))
