"""The rule engine: a function is made again, instruction by instruction, and rules may put something else in an instruction's
place. A rule is a pattern (the instruction's class), a condition and a replacement; it returns None where it doesn't apply.

    @rule(Unary)
    def double_negation(op, into):
        "-(-x)  =>  x"
        ...
"""

from collections.abc import Callable, Sequence

from compiler.analysis.accesses import affine_value
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX
from runtime.records import define, field, frozen

Replacement = Callable[[Instruction, Builder], Value | None]


@frozen
class RewriteRule:
    """Tried on instructions of these classes; gives the value that stands for the instruction's result."""

    name: str
    classes: tuple[type[Instruction], ...]
    replace: Replacement


def rule(*classes: type[Instruction]) -> Callable[[Callable[..., Value | None]], RewriteRule]:
    """Make a rule of the function below; its docstring is the identity it uses."""

    def made(function: Callable[..., Value | None]) -> RewriteRule:
        return RewriteRule(function.__name__, classes, function)

    return made


@define(eq=False)
class Rebuild:
    """Makes a function again. Subclasses override `instruction`; equal pure instructions become one on the way."""

    source: HirFunction
    owner: FunctionBuilder = field(init=False)
    values: dict[Value, Value] = field(factory=dict, init=False)
    names: dict[str, Affine] = field(factory=dict, init=False)

    def run(self) -> HirFunction:
        source = self.source
        self.owner = FunctionBuilder(source.name, source.form, dict(source.axes))
        for parameter in source.parameters:
            self.bind(parameter, self.owner.parameter(parameter.name, parameter.type))
        self.region(source.body, self.owner.body)
        return with_facts_of(source, self.owner.finish())

    def bind(self, old: Value, new: Value) -> None:
        self.values[old] = new
        form = affine_value(new) if new.type == INDEX else None
        if form is not None and form != Affine.of(old.name):
            self.names[old.name] = form
        elif old.name != new.name or old.name in self.names:
            self.names[old.name] = Affine.of(new.name)

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def region(self, region: Region, into: Builder) -> None:
        for op in region.body:
            into.span = op.span
            for old, new in zip(op.results, self.instruction(op, into), strict=True):
                self.bind(old, new)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        """What stands for the instruction's results, after appending what computes them."""
        return self.copy(op, into)

    def copy(self, op: Instruction, into: Builder) -> Sequence[Value]:
        """The instruction itself, over the new values."""
        name = op.results[0].name if op.results else ""
        return into.emit(self.renewed(op, into), name).results

    def renewed(self, op: Instruction, into: Builder) -> Instruction:
        if not op.regions:
            return rebuilt(op, self.values.__getitem__, self.form)
        regions: dict[str, Region | None] = {}
        for name in op.fields(Role.REGION, Role.OPTIONAL_REGION):
            old: Region | None = getattr(op, name)
            regions[name] = None if old is None else self.nested(old, into)
        return rebuilt(op, self.values.__getitem__, self.form, regions)

    def nested(self, old: Region, into: Builder) -> Region:
        new = Region()
        for parameter in old.parameters:
            copy = self.owner.value(parameter.name, parameter.type)
            self.bind(parameter, copy)
            new.parameters.append(copy)
        self.region(old, into.child(new))
        return new


def with_facts_of(source: HirFunction, target: HirFunction) -> HirFunction:
    """What is said about the old function, said about the new one."""
    for name in (
        "results", "kernel_info", "constraints", "linkage", "calling_convention", "attributes", "link_name", "previous_version", "sites",
    ):  # fmt: skip
        setattr(target, name, getattr(source, name))
    return target


def rewrite(function: HirFunction, rules: Sequence[RewriteRule]) -> HirFunction:
    """The function with every rule applied where it fits, operands before their users."""
    return Rewriting(function, rules).run()


@define(eq=False)
class Rewriting(Rebuild):
    rules: Sequence[RewriteRule] = field(factory=tuple)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if len(op.results) != 1 or op.regions:
            return self.copy(op, into)
        new = self.renewed(op, into)
        for rule in self.rules:
            if isinstance(new, rule.classes):
                replacement = rule.replace(new, into)
                # a rule must not lose an axis along which the result varies
                if replacement is not None and replacement.type == new.result_types(self.owner.scope)[0]:
                    return [replacement]
        return into.emit(new, op.results[0].name).results
