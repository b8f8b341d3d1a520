"""Which values of a field are kept instead of computed again. In a field a value is computed wherever it is read; a score that
the maximum, the exponential and the weighted sum read would be computed three times. Where that costs a reduction or a
transcendental function each time, the value goes to a buffer along the axes that lie inside the shared loops.

A contraction that reads a kept value reads it along an axis of its own (a copy of the axis, same extent), so that the table may
walk the buffer once as vectors and once as the rows of a product."""

from compiler.analysis.recognise import instructions_below, product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Contract, Reduce, Scan, Unary, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, Tile

Target = Store | Reduce | Contract

_COSTLY = {"exp", "exp2", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf"}


def materialise(field: HirFunction, functions: bool = True) -> HirFunction:
    """The field with buffers for values that cost much and are read in more than one loop; those that are `functions` of single elements
    only if so asked."""
    stored = {value: axes for value, axes in _kept(field).items() if functions or isinstance(value.source, Reduce | Contract)}
    return _Rebuilding(field, stored).run() if stored else field


def _targets(field: HirFunction) -> list[Target]:
    return [op for op in field.body.body if isinstance(op, Store | Reduce | Contract)]


def _reads(op: Instruction, named: dict[str, Value]) -> list[Value]:
    return list(op.operand_values) + [named[name] for name in op.symbols if name in named]


def _kept(field: HirFunction) -> dict[Value, tuple[str, ...]]:
    """Values to keep, in order of computation, with the axes of their buffers."""
    named = {result.name: result for op in field.body.body for result in op.results}
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    common = set(common_axes(field)) - reduced
    stored: dict[Value, tuple[str, ...]] = {}
    readers: dict[Value, list[Target]] = {}
    level: dict[Target, int] = {}
    for target in _targets(field):
        seen: set[Value] = set()
        waiting = _reads(target, named)
        below = [0]
        while waiting:
            value = waiting.pop()
            if value in seen or value.source is None:
                continue
            seen.add(value)
            readers.setdefault(value, []).append(target)
            if isinstance(value.source, Reduce | Contract):
                below.append(level[value.source] + 1)
                continue
            waiting += _reads(value.source, named)
        level[target] = max(below)
    for op in field.body.body:
        if not op.results or isinstance(op, Load | Alloc):
            continue
        value = op.result
        axes = {name for name, _ in union_axes(value)}
        inside = tuple(sorted(axes - common))
        if not inside or not common or not _is_costly(op):
            continue
        using = readers.get(value, [])
        passes = {level[target] for target in using}
        wider = any(isinstance(target, Contract) and _axes_of(target) - axes for target in using)
        if len(passes) > 1 or (wider and (len(using) > 1 or _is_product(op))):
            stored[value] = inside
    return stored


def _is_costly(op: Instruction) -> bool:
    return isinstance(op, Reduce | Contract) or (isinstance(op, Unary | Binary) and op.operator in _COSTLY | {"pow", "atan2"})


def _is_product(op: Instruction) -> bool:
    """Whether it is a sum of products of rows and columns, which costs more than what reads it."""
    product = product_sum(op)
    return product is not None and bool(product.m and product.n)


def common_axes(field: HirFunction) -> tuple[str, ...]:
    """Axes that every result varies along and every contraction knows, in order of declaration: loops over them can stand around
    everything. (A contraction that lacks one would be computed anew in each of its iterations.)"""
    scope = field.scope()
    stores = [op for op in field.body.body if isinstance(op, Store) and not isinstance(op.mem.source, Alloc)]
    sets = [{name for name, _ in scope.axes_of(*store.index)} for store in stores]
    products = [op for op in field.body.body if isinstance(op, Contract) or (isinstance(op, Reduce) and _is_product(op))]
    sets += [_axes_of(op) | {name for name, _ in union_axes(*op.results)} for op in products]
    common = set.intersection(*sets) if sets else set()
    return tuple(axis for axis in field.axes if axis in common)


def _axes_of(target: Target) -> set[str]:
    return {name for name, _ in union_axes(*[v for v in target.operand_values if isinstance(v.type, Tile)])}


class _Rebuilding:
    """The field anew, its kept values stored and loaded again."""

    def __init__(self, field: HirFunction, stored: dict[Value, tuple[str, ...]]) -> None:
        self.field, self.kept = field, stored
        self.named = {result.name: result for op in field.body.body for result in op.results}
        self.out = FunctionBuilder(field.name, Form.FIELD)
        for name, extent in field.axes.items():
            self.out.axis(name, extent)
        self.made: dict[tuple[Value, tuple[tuple[str, str], ...]], Value] = {}
        self.buffers: dict[Value, Value] = {}
        self.copies: dict[str, str] = {}

    def run(self) -> HirFunction:
        for parameter in self.field.parameters:
            self.made[parameter, ()] = self.out.parameter(parameter.name, parameter.type)
        for op in self.field.body.body:
            for result in op.results:
                if result in self.kept:
                    self.keep(result)
            if isinstance(op, Store):
                self.out.body.emit(rebuilt(op, lambda v: self.value(v, ()), lambda form: self.form(form, ())))
        function = self.out.finish()
        function.kernel_info, function.constraints = self.field.kernel_info, self.field.constraints
        function.sites, function.linkage = self.field.sites, self.field.linkage
        return function

    def keep(self, value: Value) -> None:
        inside = self.kept[value]
        assert isinstance(value.type, Tile)
        renamed: tuple[tuple[str, str], ...] = ()
        if isinstance(value.source, Contract):
            renamed = tuple((axis, self.out.axis(f"{axis}_in", self.field.axes[axis])) for axis in inside)
        computed = self.compute(value, renamed)
        dims = tuple(self.field.axes[axis] for axis in inside)
        buffer = self.out.body.emit(Alloc(type=Mem(value.type.dtype, dims, align=64)), f"{value.name}_kept").result
        names = dict(renamed)
        self.out.body.store(buffer, computed, [names.get(axis, axis) for axis in inside])
        self.buffers[value] = buffer

    def value(self, value: Value, renamed: tuple[tuple[str, str], ...]) -> Value:
        """The value in the new field, some of its axes renamed."""
        if not isinstance(value.type, Tile):
            return self.made[value, ()]
        renamed = tuple(pair for pair in renamed if pair[0] in value.type.axis_names)
        if value in self.buffers:
            names = dict(renamed)
            index = [Affine.of(names.get(axis, axis)) for axis in self.kept[value]]
            loaded = self.out.body.load(self.buffers[value], index)
            return self.varying(loaded, value, renamed)
        existing = self.made.get((value, renamed))
        if existing is None:
            existing = self.made[value, renamed] = self.compute(value, renamed)
        return existing

    def varying(self, loaded: Value, value: Value, renamed: tuple[tuple[str, str], ...]) -> Value:
        """A buffer's element varies along the loops around the buffer too: said by the type, so that it is read inside them."""
        names = dict(renamed)
        assert isinstance(value.type, Tile)
        wanted = Tile(value.type.dtype, tuple((names.get(n, n), e) for n, e in value.type.axes))
        loaded.type = wanted
        self.out.scope.types[loaded.name] = wanted
        return loaded

    def compute(self, value: Value, renamed: tuple[tuple[str, str], ...]) -> Value:
        op = value.source
        assert op is not None
        if isinstance(op, Contract):
            renamed_here = renamed + self.own_axes(op)
            if renamed_here:
                names = dict(renamed_here)
                copy = rebuilt(
                    op,
                    lambda v: self.value(v, renamed_here),
                    lambda form: form,
                    over=tuple(names.get(axis, axis) for axis in op.over),
                )
                return self.out.body.emit(copy, value.name).result
        copy = rebuilt(op, lambda v: self.value(v, renamed), lambda form: self.form(form, renamed))
        results = self.out.body.emit(copy, value.name).results
        return results[op.results.index(value)]

    def own_axes(self, op: Contract) -> tuple[tuple[str, str], ...]:
        """Summed axes that a kept operand was computed along get a copy."""
        axes: dict[str, str] = {}
        for operand in (op.a, op.b):
            for stored in self.closure(operand):
                for axis in self.kept[stored]:
                    if axis in op.over:
                        if axis not in self.copies:
                            self.copies[axis] = self.out.axis(f"{axis}_again", self.field.axes[axis])
                        axes[axis] = self.copies[axis]
        return tuple(axes.items())

    def closure(self, value: Value) -> list[Value]:
        """Kept values that the value is computed from without a reduction between."""
        ops = instructions_below(value, enter=lambda op: self.kept.keys().isdisjoint(op.results) and not isinstance(op, Reduce | Contract))
        return [result for op in ops for result in op.results if result in self.kept]

    def form(self, form: Affine, renamed: tuple[tuple[str, str], ...]) -> Affine:
        names: dict[str, Affine | str] = dict(renamed)
        for name in form.names:
            if name in self.named:
                names[name] = self.value(self.named[name], renamed).name
        return form.substitute(names)
