"""`rotate`: what a loop adds to a carried value goes beside the next turn. An operation whose result is carried waits until another one of
the next turn has begun, so that both are under way at a time:

    for t in 0..n carry(%c = %z) {              for t in 0..1 { %a = first(t)  %p = between(%a) }
      %a = first(t)                             for t in 1..n carry(%q = %p, %c = %z) {
      %p = between(%a)                  =>        %a = first(t)
      %d = second(%p, %c)                         %d = second(%q, %c)
      yield %d }                                  %p = between(%a) }
                                                for t in n-1..n { %d = second(%p, %c) }

Its operands are carried from the turn that computes them. Those that lie in shared memory are brought a turn later instead: memory holds
what a ring has for it, and no more. What is made of nothing but the turn's number is made again. Loops without turns stay so: each of the
three has a turn less, or none.

A loop says which part of a rotated one it is (`rotated=`), so that the first and the last together are a turn of the program."""

from collections.abc import Iterable, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Convert, dtype_of
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, is_float
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field

FIRST, MIDDLE, LAST = "first", "middle", "last"


class NotRotatable(Exception):
    """An operation that can't go beside the next turn; the message says which loop it is in, and why."""


def rotate(function: HirFunction, op: Instruction, beside: Instruction) -> HirFunction:
    """The function with `op` of each turn right behind `beside` of the next. Raises `NotRotatable`."""
    rotating = _Rotating(function, op, beside)
    rotating.look()
    return rotating.run()


@define(eq=False)
class _Rotating(Rebuild):
    op: Instruction = field()
    beside: Instruction = field()
    loop: For = field(init=False)
    place: int = field(init=False)
    """Of the operation's result among what is carried."""
    users: dict[Value, list[Instruction]] = field(factory=dict, init=False)
    """In the loop, those of what is made there."""
    late: set[Instruction] = field(factory=set, init=False)
    """The operation, and what between it and shared memory it alone needs."""
    again: set[Instruction] = field(factory=set, init=False)
    """What is made of the turn's number, for the operation."""
    kept: list[Value] = field(factory=list, init=False)
    """What is carried from the turn before."""

    # ---- preconditions ----

    def refuse(self, why: str) -> NotRotatable:
        return NotRotatable(f"the loop over {self.loop.written}: {why}")

    def look(self) -> None:
        loops = (each for top in self.source.body.body for each in top.walk() if isinstance(each, For))
        loop = next((each for each in loops if self.op in each.body.body), None)
        if loop is None:
            raise NotRotatable(f"`{self.op.name}` stands in no loop")
        self.loop = loop
        body, last = loop.body.body, loop.body.body[-1]
        if self.beside not in body or self.beside is self.op:
            raise self.refuse("what the operation goes beside isn't in it")
        if abs(loop.step) != 1:
            raise self.refuse(f"its step is {loop.step}")
        if self.op.effects or len(self.op.results) != 1:
            raise self.refuse(f"`{self.op.name}` is no operation that has one result and does nothing else")
        named = {value.name: value for op in body for value in op.results} | {value.name: value for value in loop.body.parameters}
        for op in body:
            for inner in op.walk():
                for value in {*inner.operand_values, *(named[name] for name in inner.symbols if name in named)}:
                    self.users.setdefault(value, []).append(op)
        (result,) = self.op.results
        yielded = last.values if isinstance(last, Yield) else ()
        if yielded.count(result) != 1:
            raise self.refuse(f"{result} isn't carried to the next turn")
        if any(user is not last for user in self.users[result]):
            raise self.refuse(f"{result} is read in the turn that makes it")
        self.place = yielded.index(result)
        before = loop.body.parameters[1 + self.place]
        soon = next((op for op in body[: body.index(self.beside) + 1] if op in self.users.get(before, []) and op is not self.op), None)
        if soon is not None:
            raise self.refuse(f"`{soon.name}` needs {before} before the operation is beside `{self.beside.name}`")
        self.choose({op: self.sources(op, named) for op in body})

    def sources(self, op: Instruction, named: dict[str, Value]) -> list[Value]:
        """What an instruction of the loop reads that the loop makes."""
        read = [*op.operand_values, *(named[name] for name in op.symbols if name in named)]
        own = {*named.values()}
        return [value for value in dict.fromkeys(read) if value in own]

    def choose(self, sources: dict[Instruction, list[Value]]) -> None:
        """What is done late, what again, and what is carried."""
        needed, shared = self.below([self.op], sources), list[Instruction]()
        self.late = {self.op}
        for tile in (op for op in needed if isinstance(op, Convert) and op.place == "shared"):
            between = {op for op in needed if tile in self.below([op], sources)}
            if all(user in between for op in between - {self.op} for result in op.results for user in self.users[result]):
                shared.append(tile)
                self.late |= between
        copied = self.below(shared, sources)
        if any(Effect.WRITE in inner.effects for op in self.loop.body.body for inner in op.walk()) and copied:
            raise self.refuse("it writes memory, and what the operation reads there would be read a turn later")
        for op in copied:
            carried = next((value for value in sources[op] if value.source is None and value is not self.loop.variable), None)
            if carried is not None:
                raise self.refuse(f"{carried}, which it carries, is needed to copy")
        self.again = copied - self.late
        for op in (op for op in self.loop.body.body if op in self.late):
            for value in sources[op]:
                source = value.source
                if source in self.late or source in self.again or value is self.loop.variable:
                    continue
                if source is not None and self.is_counted(self.below([source], sources), sources):
                    self.again |= self.below([source], sources)
                elif not isinstance(value.type, Tile) or value.type.place != "reg":
                    raise self.refuse(f"{value}: {value.type} can't be carried")
                elif value not in self.kept:
                    self.kept.append(value)

    def below(self, ops: Iterable[Instruction], sources: dict[Instruction, list[Value]]) -> set[Instruction]:
        """These, and what in the loop they need."""
        needed, waiting = set[Instruction](), [*ops]
        while waiting:
            op = waiting.pop()
            if op not in needed:
                needed.add(op)
                waiting += [value.source for value in sources[op] if value.source is not None]
        return needed

    def is_counted(self, ops: Iterable[Instruction], sources: dict[Instruction, list[Value]]) -> bool:
        """Whether nothing but the turn's number goes into these."""
        read = {value for op in ops for value in sources[op] if value.source is None}
        return read <= {self.loop.variable} and not any(op.effects or op.regions for op in ops)

    # ---- the three loops ----

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        return self.rotated(into) if op is self.loop else self.copy(op, into)

    def rotated(self, into: Builder) -> list[Value]:
        loop, step = self.loop, self.loop.step
        low, high = self.form(loop.low), self.form(loop.high)
        behind = low + step
        if (turns := ((high - low) * step).value) is None or turns < 1:
            behind = Affine.of(into.op("min" if step > 0 else "max", into.index(behind), into.index(high)).name)
        begun = [self.values[value] for value in loop.carried]
        sum = begun.pop(self.place)
        nothing = [into.const(0.0 if is_float(dtype_of(value)) else 0, value.type) for value in self.kept]
        others = len(begun)
        state = self.turns(into, FIRST, (low, behind), [*begun, *nothing], sum)
        state = self.turns(into, MIDDLE, (behind, high), state, None)
        with into.loop(loop.variable.name, high - behind + low, high, step, [sum], **self.marks(LAST)) as (body, last):
            body.yield_(self.done_late(body, Affine.of(last.variable.name), state[others:]))
        results = state[:others]
        results.insert(self.place, last.results[0])
        return results

    def marks(self, part: str) -> dict[str, Any]:
        return {**dict(self.loop.marks), "rotated": part}

    def turns(self, into: Builder, part: str, ends: tuple[Affine, Affine], state: Sequence[Value], sum: Value | None) -> list[Value]:
        """Turns of which the operation isn't done yet, that of the turn before is, where there is one; `sum`: before the first."""
        loop, (low, high) = self.loop, ends
        parameters = [*loop.body.parameters[1:]]
        own = parameters.pop(self.place)
        with into.loop(loop.variable.name, low, high, loop.step, state, **self.marks(part)) as (body, turn):
            self.bind(loop.variable, turn.variable)
            for old, new in zip(parameters, turn.carried, strict=False):
                self.bind(old, new)
            before = turn.carried[len(parameters) :]
            if sum is not None:
                self.bind(own, sum)
            unread = self.unread()
            for op in loop.body.body:
                if op not in self.late and op not in unread and not isinstance(op, Yield):
                    body.span = op.span
                    for old, new in zip(op.results, self.copy(op, body), strict=True):
                        self.bind(old, new)
                if op is self.beside and sum is None:
                    self.bind(own, self.done_late(body, Affine.of(turn.variable.name) - loop.step, before))
            last = loop.body.body[-1]
            assert isinstance(last, Yield)
            after = [value for number, value in enumerate(last.values) if number != self.place]
            body.yield_(*(self.values[value] for value in (*after, *self.kept)))
        return turn.results

    def unread(self) -> set[Instruction]:
        """What nothing but the late instructions reads."""
        unread = set[Instruction]()
        for op in reversed(self.loop.body.body):
            users = [user for result in op.results for user in self.users.get(result, [])]
            if users and all(user in self.late or user in unread for user in users) and not any(value in self.kept for value in op.results):
                unread.add(op)
        return unread

    def done_late(self, into: Builder, number: Affine, before: Sequence[Value]) -> Value:
        """The operation of the turn of this number, of which this is carried; the sum is that before it."""
        values, names = dict(self.values), dict(self.names)
        for old, new in zip(self.kept, before, strict=True):
            self.bind(old, new)
        self.names[self.loop.variable.name] = number
        for op in self.loop.body.body:
            if op in self.late or op in self.again:
                into.span = op.span
                for old, new in zip(op.results, self.copy(op, into), strict=True):
                    self.bind(old, new)
        result = self.values[self.op.results[0]]
        self.values, self.names = values, names
        return result
