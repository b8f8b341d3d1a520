"""Whether a block can be split over devices: each of them gets a range of some inputs along one axis, and computes the same range of the
results. That holds where every result is written by independent loops over one size, at their own index; where each input is read at
that index alone, or not by it at all; and where neither the index nor the size is used in any other way. The block for a range of
the inputs is then the range of the block. Numbers that a loop combines in any order are combined once more."""

import re
from collections.abc import Mapping
from typing import NoReturn

from compiler.analysis.accesses import NestAccess, NestLoop, walk
from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.control import Call, For
from compiler.hir.core import Const
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem
from compiler.lowering.kernel import (
    LoweredKernel,
    ResultArgument,
    SizeArgument,
    TensorArgument,
)
from compiler.source import Span
from compiler.typed_ast.kernel import DataParallel
from runtime.records import Factory, define, field, frozen

_ONE_DEVICE = 'name one device: `@device("cuda:0")`'


@frozen
class DeviceSplit:
    """How a block is split. `axis`: of its results; `extent`: that of the axis, as a launch knows it; `inputs`: which inputs are cut, and
    along which axis (the others go whole to each device); `scalars`: ints among the inputs that are the size itself; `combined`: results
    that are numbers, with what combines those of the devices."""

    axis: int
    extent: str
    inputs: Mapping[str, int]
    scalars: frozenset[str]
    combined: Mapping[int, str]


def device_split(lowered: LoweredKernel, nest: HirFunction, facts: NestFacts, parallel: DataParallel) -> DeviceSplit:
    """How the block of a nest is split. Raises ZyntaxError (0417), which says what prevents it."""
    return _DeviceSplitting(lowered, nest, facts, parallel).run()


@define(eq=False)
class _DeviceSplitting:
    """`cells`: what loops carry and results become, by these loops; `combined`: such results. `roots`: sizes as forms over extents of
    inputs and over ints; `equal`: extents that must be equal, each with one that stands for all; `loops`: those that are split; `cut`:
    memories with an axis along which each device has a range; `ranged`: extents that are smaller on each device."""

    lowered: LoweredKernel
    nest: HirFunction
    facts: NestFacts
    parallel: DataParallel
    cells: dict[For, set[Value]] = Factory(dict)
    combined: dict[int, str] = Factory(dict)
    roots: dict[str, Affine] = Factory(dict)
    equal: dict[str, str] = Factory(dict)
    loops: list[NestLoop] = Factory(list)
    cut: dict[Value, int] = Factory(dict)
    inputs: dict[str, int] = Factory(dict)
    ranged: set[str] = Factory(set)
    named: dict[Value, str] = field(init=False)
    """Memories that are inputs, with their names."""
    results: dict[Value, int] = field(init=False)
    """Memories that are results, with their numbers."""

    def __attrs_post_init__(self) -> None:
        pairs = [*zip(self.nest.parameters, self.lowered.plan.arguments, strict=False)]
        self.named = {value: argument.name for value, argument in pairs if isinstance(argument, TensorArgument)}
        self.results = {value: argument.index for value, argument in pairs if isinstance(argument, ResultArgument)}

    def run(self) -> DeviceSplit:
        self.require_results()
        plan = self.lowered.plan
        for rule in plan.sizes:
            self.roots[rule.name] = rule.form.substitute(self.roots)
        for equation in plan.equations:
            left, right = self.extent(equation.left), self.extent(equation.right)
            if equation.relation == "==" and left is not None and right is not None:
                self.equal[self.shared(right)] = self.shared(left)
        self.find_loops()
        self.cut_unread_inputs()
        self.require_whole_elsewhere()
        self.require_one_size()
        self.require_equations()
        for instruction in walk(self.nest.body):
            self.require_apart(instruction)
        self.require_extents()
        ints = {scalar.name for scalar in self.lowered.signature.scalars} - self.roots.keys()
        scalars = frozenset(name for name in ints if self.shared(name) in self.ranged)
        flat = [f"{self.named[value]}.0" for value in self.cut if value in self.named and self.is_flat(value)]
        extent = flat[0] if flat else self.extent(self.loops[0].extent) or ""
        return DeviceSplit(self.parallel.axis, extent, self.inputs, scalars, self.combined)

    def refuse(self, reason: str, span: Span | None, hint: str, label: str = "") -> NoReturn:
        axis, annotation = self.parallel.axis, self.parallel.span
        others = () if span is None or span == annotation else (Label(annotation, "split here"),)
        raise ZyntaxError(
            Diagnostic("0417", f"axis {axis} can't be split over devices: {reason}", span or annotation, label, others, hint=hint)
        )

    # ---- what is split ----

    def require_results(self) -> None:
        if self.lowered.function.form is Form.THREAD:
            hint = f"write it as loops, without `@kernel(custom)`, or {_ONE_DEVICE}"
            self.refuse("a `custom` kernel says itself what each of its threads does", None, hint)
        for number, result in enumerate(self.lowered.plan.results):
            span = self.span_of(number)
            if result.input is not None:
                hint = f"write the new values to `out`, and assign them: `{result.input} = compute({result.input}) ...`"
                self.refuse(f"the block updates `{result.input}`, which lies in one memory", span, hint)
            if result.copy_of is not None:
                hint = f"write to `out[...]` instead of `{result.copy_of}[...]`"
                self.refuse(f"the value begins as a copy of `{result.copy_of}`", span, hint)
            if result.scalar:
                self.combine(number)
            elif len(result.dims) <= self.parallel.axis:
                hint = "`@parallel(data, axis=0)` splits the first axis"
                self.refuse(f"`{result.name}` has no such axis", span, hint)

    def combine(self, number: int) -> None:
        """A result that is a number: what one loop at the top combines, in any order, and nothing else reads."""
        span = self.span_of(number)
        if self.parallel.axis > 0:
            self.refuse("the value is a number, which has no axes", span, "`@parallel(data, axis=0)` splits its outermost loop")
        accesses = [access.op for access in self.facts.nest.accesses if self.results.get(access.mem) == number]
        value = accesses[0].value if len(accesses) == 1 and isinstance(accesses[0], Store) else None
        loop = value.source if value is not None else None
        if value is not None and isinstance(loop, For) and len(self.facts.nest.around[loop]) == 1:
            position = loop.results.index(value)
            fold = next((fold for fold in self.facts.of(loop).folds if fold.cell is loop.body.parameters[1 + position]), None)
            is_neutral = fold is not None and _neutral(fold.monoid, loop.carried[position])
            if fold is not None and fold.reorders and is_neutral and self.facts.nest.uses[value] == accesses:
                self.cells.setdefault(loop, set()).add(fold.cell)
                self.combined[number] = fold.monoid
                return
        reason = "the value is a number that isn't plainly a sum, product, `min`, `max`, `and` or `or` in any order"
        self.refuse(reason, span, "let the block give one number for each row, and combine these in a second block")

    def span_of(self, result: int) -> Span | None:
        """Where a result is written last."""
        spans = [access.op.span for access in self.facts.nest.accesses if access.is_store and self.results.get(access.mem) == result]
        return spans[-1] if spans else None

    def find_loops(self) -> None:
        """The loops over the size by whose index results are written, and all that they touch, until there is no more."""
        for loop in self.facts.nest.loops:
            if loop.op in self.cells:
                self.add(loop)
        for access in self.facts.nest.accesses:
            if access.is_store and access.mem in self.results and self.results[access.mem] not in self.combined:
                axis = 0 if self.is_flat(access.mem) else self.parallel.axis
                self.add(self.loop_of(access, axis), access)
                self.cut[access.mem] = axis
        known = -1
        while known != len(self.loops) + len(self.cut):
            known = len(self.loops) + len(self.cut)
            names = {loop.axis for loop in self.loops}
            for access in self.facts.nest.accesses:
                for position, form in enumerate(access.index):
                    if not names.isdisjoint(form.names):
                        self.cut.setdefault(access.mem, position)
            self.ranged = {self.shared(extent) for loop in self.loops if (extent := self.extent(loop.extent)) is not None}
            for loop in self.facts.nest.loops:
                extent = self.extent(loop.extent)
                if loop not in self.loops and extent is not None and self.shared(extent) in self.ranged:
                    self.add(loop)
        self.inputs = {self.named[value]: axis for value, axis in self.cut.items() if value in self.named}

    def loop_of(self, access: NestAccess, axis: int) -> NestLoop:
        """The loop whose variable alone is the access's index along the axis."""
        form = access.index[axis]
        loop = next((loop for loop in access.loops if form == loop.variable and loop.op.low == Affine() and loop.op.step == 1), None)
        if loop is None:
            name = access.mem.name
            self.refuse(
                f"`{name}` isn't written at the index of one loop from 0 alone",
                access.op.span,
                f"write `{name}` at the variable of a loop `for i in 0..N`, or {_ONE_DEVICE}",
                f"written at `{self.shown(form)}` along axis {axis}",
            )
        return loop

    def add(self, loop: NestLoop, access: NestAccess | None = None) -> None:
        if loop in self.loops:
            return
        extent, judged = self.extent(loop.extent), self.facts.of(loop.op)
        span = loop.op.span or (access.op.span if access is not None else None)
        if extent is None or loop.op.low != Affine() or loop.op.step != 1:
            hint = f"let it run over a whole axis, `for {loop} in 0..N`, or {_ONE_DEVICE}"
            self.refuse(f"`{loop}` goes over `{self.bounds(loop.op)}`, not over the extent of an axis", span, hint)
        of_results = self.cells.get(loop.op, set())
        is_combined = judged.kind is LoopKind.REDUCTION and all(fold.cell in of_results for fold in judged.folds)
        if not judged.independent and not is_combined:
            why = judged.reason or f"its iterations are combined by `{judged.folds[0].monoid}`"
            hint = _ONE_DEVICE if access is not None else f"give it a size of its own, or {_ONE_DEVICE}"
            self.refuse(f"the loop over `{loop}` isn't independent: {why}", span, hint)
        if any(outer in self.loops for outer in self.facts.nest.around[loop.op][:-1]) or any(
            loop in self.facts.nest.around[other.op][:-1] for other in self.loops
        ):
            hint = "give the loops sizes of their own; a tensor along which both run is passed twice: `compute(a = x, b = x)`"
            self.refuse(f"`{loop}` runs over the same size as a loop around it", span, hint)
        self.loops.append(loop)

    def cut_unread_inputs(self) -> None:
        """Inputs that nothing reads, but whose extents must agree with those of inputs that are cut."""
        read = {self.named[access.mem] for access in self.facts.nest.accesses if access.mem in self.named}
        for tensor in self.lowered.signature.tensors:
            for axis in range(tensor.rank):
                if tensor.name not in read and self.shared(f"{tensor.name}.{axis}") in self.ranged:
                    self.inputs.setdefault(tensor.name, axis)

    # ---- what must not be used otherwise ----

    def require_whole_elsewhere(self) -> None:
        """What is cut is read and written at the index of a split loop alone; all else, not by it."""
        names = {loop.axis for loop in self.loops}
        for access in self.facts.nest.accesses:
            axis = self.cut.get(access.mem)
            name, span = access.mem.name, access.op.span
            for position, form in enumerate(access.index):
                if position == axis:
                    if form not in [loop.variable for loop in access.loops if loop in self.loops]:
                        hint = f"pass it twice, `other = {name}`, and read that one here, with a size of its own; or {_ONE_DEVICE}"
                        hint = hint if names.isdisjoint(form.names) else _ONE_DEVICE
                        reason = f"each device has its own range of `{name}` alone"
                        verb = "written" if access.is_store else "read"
                        self.refuse(reason, span, hint, f"{verb} at `{self.shown(form)}` along axis {position}")
                elif not names.isdisjoint(form.names):
                    reason = f"the index along which it is split stands along two axes of `{name}`"
                    self.refuse(reason, span, f"give the axes loops and sizes of their own, or {_ONE_DEVICE}")
        cut = {value: self.named[value] for value in self.cut if value in self.named}
        flat = [name for value, name in cut.items() if self.is_flat(value)]
        for value, name in cut.items():
            if flat and not self.is_flat(value):
                hint = "index all of them with as many indices as they have axes"
                self.refuse(f"one index runs over all elements of `{flat[0]}`, and over an axis of `{name}`", None, hint)

    def require_one_size(self) -> None:
        """All split loops run over one size."""
        first, *others = self.loops
        for loop in others:
            if self.shared_form(loop.extent) != self.shared_form(first.extent):
                sizes = f"`{first}` runs over `{first.op.high}` and `{loop}` over `{loop.op.high}`"
                hint = "let the results have one size along the axis, or use two blocks"
                self.refuse(f"there are two sizes: {sizes}", loop.op.span, hint)

    def require_equations(self) -> None:
        """Sizes agree on each device if they agree for the whole."""
        for equation in self.lowered.plan.equations:
            sides = (equation.left.substitute(self.roots), equation.right.substitute(self.roots))
            if not any(self.moves(name) for side in sides for name in side.names):
                continue
            if equation.relation == ">=" and sides[1] == Affine.of(1) and self.extent(sides[0]) is not None:
                continue  # no device has an empty range, unless the axis is empty
            extents = [self.extent(side) for side in sides]
            if not all(extent is not None and self.moves(extent) for extent in extents) or len({_counts(each) for each in extents}) > 1:
                relation = f"{self.in_words(equation.left)} {equation.relation} {self.in_words(equation.right)}"
                is_number = any(not side.terms for side in sides)
                hint = "write a size in place of the number" if is_number else "give what isn't split a size of its own"
                self.refuse(f"it must hold that `{relation}`, of the whole axis", equation.diagnostic.span, f"{hint}, or {_ONE_DEVICE}")

    def require_apart(self, instruction: Instruction) -> None:
        """Neither the index nor the size is used other than for memory and for the bounds of loops."""
        if isinstance(instruction, For) and instruction in [loop.op for loop in self.loops]:
            return
        if isinstance(instruction, Load | Store):
            used = {value.name for value in instruction.operand_values}
            used |= {name for form in instruction.index for name in form.names if self.follows(name)}
        elif isinstance(instruction, Sort):
            self.require_apart_lines(instruction)
            return
        else:
            if isinstance(instruction, Call) or instruction.effects & Effect.SYNC or _touches_memory(instruction):
                self.refuse(f"`{instruction.name}` works on all of a memory", instruction.span, _ONE_DEVICE)
            used = {*instruction.symbols, *(value.name for value in instruction.operand_values)}
        for loop in self.loops:
            if loop.axis in used:
                hint = f"pass the numbers as an input, `at = arange(0, n)`, and read `at[{loop}]`; or {_ONE_DEVICE}"
                self.refuse(f"`{loop}` is used as a number, and counts from 0 on each device", instruction.span, hint)
        size = next((name for name in used if self.follows(name)), None)
        if size is not None:
            shown = self.in_words(Affine.of(size))
            if isinstance(instruction, For):
                hint = f"give it a size of its own (a tensor along which both loops run is passed twice), or {_ONE_DEVICE}"
                reason = f"another loop runs over `{self.bounds(instruction)}`, of which each device has a range"
                self.refuse(reason, instruction.span, hint)
            extent = self.in_words(Affine.of(self.extent(Affine.of(size)) or size))
            hint = f"pass it as a number of another name, `whole = {extent}`, or {_ONE_DEVICE}"
            self.refuse(f"`{shown}` is used as a number, and is smaller on each device", instruction.span, hint)

    def require_apart_lines(self, sort: Sort) -> None:
        for memory in (sort.keys, *sort.payload):
            if self.cut.get(memory) == sort.axis:
                hint = f"sort along another axis, or {_ONE_DEVICE}"
                self.refuse("the elements are sorted along it", sort.span, hint)

    def require_extents(self) -> None:
        """Results have the size along their axis and nowhere else, as has every memory of the block's own."""
        for result in self.lowered.plan.results:
            for axis, dim in enumerate(result.dims if not result.scalar else ()):
                self.require_extent(result.name, dim.substitute(self.roots), axis == self.parallel.axis)
        own = [value for value in self.nest.parameters if isinstance(value.type, Mem) and value not in {**self.named, **self.results}]
        own += [instruction.result for instruction in walk(self.nest.body) if isinstance(instruction, Alloc)]
        for value in own:
            assert isinstance(value.type, Mem)
            for axis, dim in enumerate(value.type.dims):
                self.require_extent(value.name, self.root(dim), axis == self.cut.get(value))

    def require_extent(self, name: str, extent: Affine, is_cut: bool) -> None:
        symbol = self.extent(extent)
        if is_cut != any(self.moves(each) for each in extent.names) or (is_cut and symbol is None):
            hint = f"let each result have the size of the loop along the axis, and along no other; or {_ONE_DEVICE}"
            self.refuse(f"`{name}` doesn't have the size of the loop along one axis alone", None, hint)

    # ---- sizes ----

    def root(self, form: Affine) -> Affine:
        """A form over the nest's parameters as one over extents of inputs and ints."""
        pairs = zip(self.nest.parameters, self.lowered.plan.arguments, strict=False)
        sizes = {value.name: argument.form for value, argument in pairs if isinstance(argument, SizeArgument)}
        return form.substitute(sizes).substitute(self.roots)

    def extent(self, form: Affine) -> str | None:
        """The extent of an input, or the int among them, that the form is, if it is one alone."""
        root = self.root(form)
        ((symbol, coefficient),) = root.terms if len(root.terms) == 1 else ((None, 0),)
        return symbol if isinstance(symbol, str) and coefficient == 1 and root.constant == 0 else None

    def shared(self, extent: str) -> str:
        """What stands for all extents that must be equal to this one."""
        while extent in self.equal and self.equal[extent] != extent:
            extent = self.equal[extent]
        return extent

    def shared_form(self, form: Affine) -> str:
        extent = self.extent(form)
        return "" if extent is None else self.shared(extent)

    def moves(self, symbol: str) -> bool:
        """Whether an extent of an input, or an int among them, is smaller on each device."""
        if self.shared(symbol) in self.ranged:
            return True
        name, _, axis = symbol.rpartition(".")
        return name in self.inputs and axis in ("numel", str(self.inputs[name]))

    def follows(self, parameter: str) -> bool:
        """Whether a parameter of the nest follows from such an extent."""
        return any(self.moves(name) for name in self.root(Affine.of(parameter)).names)

    # ---- words ----

    def is_flat(self, value: Value) -> bool:
        """Whether one index runs over all elements of a tensor that has several axes."""
        if value in self.results:
            rank = len(self.lowered.plan.results[self.results[value]].dims)
        else:
            rank = next(tensor.rank for tensor in self.lowered.signature.tensors if tensor.name == self.named[value])
        return isinstance(value.type, Mem) and value.type.rank < rank

    def shown(self, form: Affine) -> str:
        """The form with loop variables by the program's names."""
        return str(form.substitute({loop.axis: str(loop) for loop in self.facts.nest.loops}))

    def bounds(self, loop: For) -> str:
        """`0..N`, or with the form of the size where the name stands for one: `0..x.shape(0)+1`."""
        stands_for_one = len(loop.high.terms) == 1 and self.extent(loop.high) is None
        return f"{self.shown(loop.low)}..{self.in_words(self.root(loop.high)) if stands_for_one else self.shown(loop.high)}"

    def in_words(self, form: Affine) -> str:
        """The form with extents as the program would write them."""
        return re.sub(r"(\w+)\.numel", r"\1.numel()", re.sub(r"(\w+)\.(\d+)", r"\1.shape(\2)", str(form)))


def _neutral(monoid: str, value: Value) -> bool:
    """Whether each device may begin with the value: it changes nothing, or nothing more when it is combined again."""
    if monoid not in ("add", "mul"):
        return monoid in ("min", "max", "and", "or") and isinstance(value.source, Const)
    return isinstance(value.source, Const) and value.source.value == (0 if monoid == "add" else 1)


def _counts(extent: str | None) -> bool:
    return extent is not None and extent.endswith(".numel")


def _touches_memory(instruction: Instruction) -> bool:
    return not isinstance(instruction, Alloc) and any(isinstance(value.type, Mem) for value in instruction.operand_values)
