"""Slots become values: what a loop changes it carries, what a branch changes is its result. Slots that a `break` or `continue`
reads past stay slots; `kept_slots` tells which and why. Form A in, form A out."""

from compiler.analysis.accesses import slots_set
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import Break, Continue, For, If, Return, While, Yield
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import GetSlot, MakeSlot, SetSlot
from compiler.hir.module import HirFunction
from runtime.records import define, field


def slots_to_carried(function: HirFunction) -> HirFunction:
    """The function with every slot that structured control flow can carry turned into carried values."""
    return _Promotion(function).run()


def kept_slots(function: HirFunction) -> dict[Value, str]:
    """Slots that can't become carried values, each with the reason in words."""
    reasons: dict[Value, str] = {}
    made_in: dict[Value, Instruction | None] = {}

    def look(body: Region, owner: Instruction | None) -> None:
        for op in body.body:
            if isinstance(op, MakeSlot):
                made_in[op.result] = owner
            leaves = _leaves(op)
            if isinstance(op, If) and (leaves or _returns(op)):
                for slot in slots_set(op):
                    if slot in made_in:
                        reasons.setdefault(slot, "it is set where a branch leaves the loop")
            elif isinstance(op, For | While) and leaves:
                for slot in slots_set(op):
                    if slot in made_in:
                        reasons.setdefault(slot, "it is set in a loop that `break` or `continue` leaves")
            if isinstance(op, While):
                for inner in op.before.body:
                    for slot in slots_set(inner):
                        if slot in made_in:
                            reasons.setdefault(slot, "it is set in the condition of a `while`")
            for region in op.regions:
                look(region, op)

    look(function.body, None)
    return reasons


def _leaves(op: Instruction) -> bool:
    """Whether a break or continue stands inside: of this very loop, or, for a branch, of the loop around it."""

    def inside(region: Region) -> bool:
        for inner in region.body:
            if isinstance(inner, Break | Continue):
                return True
            if not isinstance(inner, For | While) and any(inside(nested) for nested in inner.regions):
                return True
        return False

    return any(inside(region) for region in op.regions)


def _returns(op: Instruction) -> bool:
    return any(isinstance(inner, Return) for inner in op.walk())


@define
class _Promotion:
    source: HirFunction
    owner: FunctionBuilder = field(init=False)
    values: dict[Value, Value] = field(factory=dict, init=False)
    names: dict[str, Affine] = field(factory=dict, init=False)
    cells: dict[Value, Value] = field(factory=dict, init=False)
    """What each promoted slot holds now."""
    kept: dict[Value, str] = field(init=False)

    def run(self) -> HirFunction:
        source = self.source
        self.owner = FunctionBuilder(source.name, source.form, dict(source.axes))
        self.kept = kept_slots(source)
        for parameter in source.parameters:
            self.bind(parameter, self.owner.parameter(parameter.name, parameter.type))
        self.region(source.body, self.owner.body)
        function = self.owner.finish()
        for name in (
            "results",
            "kernel_info",
            "constraints",
            "linkage",
            "calling_convention",
            "attributes",
            "link_name",
            "previous_version",
            "sites",
        ):
            setattr(function, name, getattr(source, name))
        return function

    def bind(self, old: Value, new: Value) -> None:
        self.values[old] = new
        if old.name != new.name:
            self.names[old.name] = Affine.of(new.name)

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def region(self, region: Region, into: Builder) -> None:
        for op in region.body:
            into.span = op.span
            self.instruction(op, into)

    def instruction(self, op: Instruction, into: Builder) -> None:
        match op:
            case MakeSlot() if op.result not in self.kept:
                self.cells[op.result] = self.values[op.initial]
            case GetSlot() if op.slot in self.cells:
                self.bind(op.result, self.cells[op.slot])
            case SetSlot() if op.slot in self.cells:
                self.cells[op.slot] = self.values[op.value]
            case For():
                self.loop(op, into)
            case While():
                self.repeat(op, into)
            case If():
                self.branch(op, into)
            case Yield():
                pass  # its owner makes it
            case _:
                copy = into.emit(rebuilt(op, self.values.__getitem__, self.form), op.results[0].name if op.results else "")
                for old, new in zip(op.results, copy.results, strict=True):
                    self.bind(old, new)

    def changed(self, op: Instruction) -> list[Value]:
        return [slot for slot in slots_set(op) if slot in self.cells]

    def parameters(self, region: Region, slots: list[Value]) -> list[Value]:
        parameters = []
        for parameter in region.parameters:
            new = self.owner.value(parameter.name, parameter.type)
            self.bind(parameter, new)
            parameters.append(new)
        for slot in slots:
            self.cells[slot] = self.owner.value(slot.name, self.cells[slot].type)
            parameters.append(self.cells[slot])
        return parameters

    def fill(self, old: Region, new: Region, into: Builder, slots: list[Value]) -> None:
        """The region's instructions, then the yield of what it gave and what the slots hold at its end."""
        inner = into.child(new)
        self.region(old, inner)
        last = old.body[-1] if old.body else None
        given = [self.values[value] for value in last.values] if isinstance(last, Yield) else []
        given += [self.cells[slot] for slot in slots]
        if given or isinstance(last, Yield):
            inner.yield_(*given)

    def close(self, old: Instruction, copy: Instruction, slots: list[Value]) -> None:
        for before, after in zip(old.results, copy.results, strict=False):
            self.bind(before, after)
        for slot, after in zip(slots, copy.results[len(old.results) :], strict=True):
            self.cells[slot] = after

    def loop(self, op: For, into: Builder) -> None:
        slots = self.changed(op)
        carried = tuple(self.values[v] for v in op.carried) + tuple(self.cells[s] for s in slots)
        low, high = self.form(op.low), self.form(op.high)
        body = Region()
        body.parameters = self.parameters(op.body, slots)
        self.fill(op.body, body, into, slots)
        copy = For(carried=carried, body=body, low=low, high=high, step=op.step, place=op.place, marks=op.marks, span=op.span)
        self.close(op, into.emit(copy, _first_name(op, slots)), slots)

    def repeat(self, op: While, into: Builder) -> None:
        slots = self.changed(op)
        carried = tuple(self.values[v] for v in op.carried) + tuple(self.cells[s] for s in slots)
        before, body = Region(), Region()
        before.parameters = self.parameters(op.before, slots)
        self.region(op.before, into.child(before))
        body.parameters = self.parameters(op.body, slots)
        self.fill(op.body, body, into, slots)
        copy = While(carried=carried, before=before, body=body, span=op.span)
        self.close(op, into.emit(copy, _first_name(op, slots)), slots)

    def branch(self, op: If, into: Builder) -> None:
        slots = self.changed(op)
        entry = {slot: self.cells[slot] for slot in slots}
        condition = self.values[op.condition]
        then = Region()
        self.fill(op.then, then, into, slots)
        otherwise: Region | None = None
        if op.otherwise is not None or slots:
            self.cells.update(entry)
            otherwise = Region()
            self.fill(op.otherwise or Region(), otherwise, into, slots)
        types = (*op.types, *(entry[slot].type for slot in slots))
        copy = If(condition=condition, then=then, otherwise=otherwise, types=types, likely=op.likely, span=op.span)
        self.close(op, into.emit(copy, _first_name(op, slots)), slots)


def _first_name(op: Instruction, slots: list[Value]) -> str:
    return op.results[0].name if op.results else slots[0].name if slots else ""
