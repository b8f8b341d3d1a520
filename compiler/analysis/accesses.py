"""Who touches which memory where: every load, store and slot access of a nest with the loops around it, and indices as affine
forms of iterations. Collects; the judgement is in `dependence` and `races`."""

from collections.abc import Callable, Iterable, Iterator

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.control import For, If
from compiler.hir.core import Binary, Cast, Combine, Compare, Const, InBounds, Index, Select
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Alloc, GetSlot, Load, MakeSlot, SetSlot, Store
from compiler.hir.module import HirFunction
from compiler.hir.prover import Inequalities
from compiler.hir.types import Mem, Tile, is_float
from runtime.records import Factory, define, field, frozen


@frozen(eq=False)
class NestLoop:
    """A `for` with its own axis of iterations: its variable is `low + step * axis`, the axis runs over `extent`."""

    op: For
    axis: str
    extent: Affine
    variable: Affine

    def __str__(self) -> str:
        return self.op.written


@define(eq=False)
class NestAccess:
    """One load or store: its memory, its index over the axes of `loops` (outermost first), and its place in the text order.
    `data`: names in the index of values that aren't affine in the iterations."""

    op: Load | Store
    mem: Value
    index: tuple[Affine, ...]
    loops: tuple[NestLoop, ...]
    position: int
    guards: "Guards"
    data: frozenset[str]
    accumulates: "Accumulation | None" = None

    @property
    def exact(self) -> bool:
        """Whether the index is affine in the iterations."""
        return not self.data

    @property
    def is_store(self) -> bool:
        return isinstance(self.op, Store)

    @property
    def conditional(self) -> bool:
        return self.guards.conditional


@frozen
class Guards:
    """Under which conditions something runs: `forms` are those that are affine, each >= 0; `conditional`: there are any;
    `complete`: all are among the forms."""

    conditional: bool = False
    forms: tuple[Affine, ...] = ()
    complete: bool = True

    def under(self, forms: Iterable[Affine] | None) -> "Guards":
        return Guards(True, (*self.forms, *(forms or ())), self.complete and forms is not None)


@frozen(eq=False)
class Accumulation:
    """`M[p] = M[p] (+) e`: the monoid, the load that reads the old value, and whether its order may change."""

    monoid: str
    load: Load
    reorders: bool


@define(eq=False)
class Nest:
    """What was collected from a function."""

    function: HirFunction
    loops: list[NestLoop] = Factory(list)
    around: dict[For, tuple[NestLoop, ...]] = Factory(dict)
    """The loops around each loop, outermost first, itself last."""
    accesses: list[NestAccess] = Factory(list)
    definitions: dict[str, Value] = Factory(dict)
    allocated: dict[Value, tuple[NestLoop, ...]] = Factory(dict)
    uses: dict[Value, list[Instruction]] = Factory(dict)
    home: dict[Value, tuple[NestLoop, ...]] = Factory(dict)
    """The loops in which each value is made."""

    def of_loop(self, op: For) -> NestLoop:
        return self.around[op][-1]

    def box(self, loops: tuple[NestLoop, ...]) -> dict[str, Affine]:
        return {loop.axis: loop.extent for loop in loops}

    def facts(self, loops: tuple[NestLoop, ...]) -> Inequalities:
        return Inequalities.inside(self.box(loops), sizes_of(self.function))


def sizes_of(function: HirFunction) -> frozenset[str]:
    """Names that can't be negative: those that are the extent of a memory."""
    sizes: set[str] = set()
    for value in [*function.parameters, *(r for op in walk(function.body) for r in op.results)]:
        if isinstance(value.type, Mem):
            sizes.update(str(dim) for dim in value.type.dims if len(dim.terms) == 1 and str(dim) in dim.names)
    return frozenset(sizes)


def walk(region: Region) -> Iterator[Instruction]:
    for op in region.body:
        yield from op.walk()


def affine_value(value: Value) -> Affine | None:
    """The value as an affine form, when it is an integer that is one (64 bits: what an index can be)."""
    if not isinstance(value.type, Tile) or value.type.dtype not in ("index", "i64"):
        return None
    match value.source:
        case None:
            return Affine.of(value.name) if value.type == Tile("index") else None
        case Index(of=form):
            return form
        case Const(value=number):
            return Affine.of(int(number))
        case Cast(value=inner):
            return affine_value(inner)
        case Binary(operator="add" | "sub" | "mul" as operator, left=left, right=right):
            a, b = affine_value(left), affine_value(right)
            if a is None or b is None:
                return None
            if operator != "mul":
                return a + b if operator == "add" else a - b
            if a.value is not None or b.value is not None:
                return b * a.value if a.value is not None else a * (b.value or 0)
            return None
        case _:
            return Affine.of(value.name) if value.type == Tile("index") else None


def constraints_of(condition: Value) -> list[Affine] | None:
    """Forms that are all >= 0 exactly where the condition holds, for conditions that are affine."""
    match condition.source:
        case InBounds(of=form, below=below):
            return [form, below - 1 - form]
        case Compare(operator=operator, left=left, right=right):
            a, b = affine_value(left), affine_value(right)
            if a is None or b is None:
                return None
            match operator:
                case "lt":
                    return [b - a - 1]
                case "le":
                    return [b - a]
                case "gt":
                    return [a - b - 1]
                case "ge":
                    return [a - b]
                case "eq":
                    return [a - b, b - a]
                case "ne" if _is_remainder(a - b):
                    return [a - b - 1]
                case _:
                    return None
        case Binary(operator="and", left=left, right=right):
            first, second = constraints_of(left), constraints_of(right)
            return None if first is None or second is None else first + second
        case _:
            return None


def _is_remainder(form: Affine) -> bool:
    """Whether the form is what is left of a division by a number: never below 0."""
    for symbol, factor in form.terms:
        if isinstance(symbol, FloorDiv) and factor == -symbol.divisor:
            return form == symbol.numerator + Affine(((symbol, factor),))
    return False


def conjuncts(condition: Value) -> Iterator[Value]:
    """Conditions all of which must hold."""
    match condition.source:
        case Binary(operator="and", left=left, right=right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield condition


def collect(function: HirFunction) -> Nest:
    """All accesses of the function in order, with their loops."""
    return _Collector(Nest(function)).run()


@define
class _Collector:
    nest: Nest
    names: dict[str, Affine] = field(factory=dict)
    """Loop variables and affine index values, over axes and sizes."""
    opaque: set[str] = field(factory=set)
    position: int = 0

    def run(self) -> Nest:
        for parameter in self.nest.function.parameters:
            self.nest.definitions[parameter.name] = parameter
            self.nest.home[parameter] = ()
        self.region(self.nest.function.body, (), Guards())
        for access in self.nest.accesses:
            if isinstance(access.op, Store):
                access.accumulates = accumulation(access.op, self.nest)
        return self.nest

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def region(self, region: Region, loops: tuple[NestLoop, ...], guards: Guards) -> None:
        for op in region.body:
            self.position += 1
            self.instruction(op, loops, guards)

    def instruction(self, op: Instruction, loops: tuple[NestLoop, ...], guards: Guards) -> None:
        nest = self.nest
        for value in op.operand_values:
            nest.uses.setdefault(value, []).append(op)
        for name in op.symbols:
            if name in nest.definitions:
                nest.uses.setdefault(nest.definitions[name], []).append(op)
        for result in op.results:
            nest.definitions[result.name] = result
            nest.home[result] = loops
            if result.type == Tile("index"):
                form = affine_value(result)
                if form is None or form == Affine.of(result.name):
                    self.opaque.add(result.name)
                else:
                    self.names[result.name] = self.form(form)
        match op:
            case For():
                self.loop(op, loops, guards)
            case Load() | Store():
                index = tuple(self.form(form) for form in op.index)
                data = frozenset(name for form in index for name in form.names if name in self.opaque)
                guarded = guards if op.where is None else self.guarded(guards, op.where, True)
                nest.accesses.append(NestAccess(op, op.mem, index, loops, self.position, guarded, data))
            case Alloc():
                nest.allocated[op.result] = loops
            case If():
                self.region(op.then, loops, self.guarded(guards, op.condition, True))
                if op.otherwise is not None:
                    self.region(op.otherwise, loops, self.guarded(guards, op.condition, False))
            case _:
                for region in op.regions:
                    for parameter in region.parameters:
                        self.parameter(parameter, loops)
                    self.region(region, loops, guards.under(None))

    def guarded(self, guards: Guards, condition: Value, holds: bool) -> Guards:
        forms = constraints_of(condition)
        if forms is not None and not holds:
            forms = [-forms[0] - 1] if len(forms) == 1 else None
        return guards.under(None if forms is None else map(self.form, forms))

    def parameter(self, parameter: Value, loops: tuple[NestLoop, ...]) -> None:
        self.nest.definitions[parameter.name] = parameter
        self.nest.home[parameter] = loops
        if parameter.type == Tile("index"):
            self.opaque.add(parameter.name)

    def loop(self, op: For, loops: tuple[NestLoop, ...], guards: Guards) -> None:
        low, high = self.form(op.low), self.form(op.high)
        span = high - low if op.step > 0 else low - high
        name = op.variable.name
        mine = NestLoop(op, name, span.ceildiv(abs(op.step)), low + Affine.of(name) * op.step)
        self.nest.loops.append(mine)
        self.nest.around[op] = (*loops, mine)
        for parameter in op.body.parameters[1:]:
            self.parameter(parameter, (*loops, mine))
        self.nest.definitions[name] = op.variable
        self.nest.home[op.variable] = (*loops, mine)
        if low != Affine() or op.step != 1:
            self.names[name] = mine.variable
        self.region(op.body, (*loops, mine), guards)


EXACT = frozenset({"min", "max", "and", "or", "xor", "argmin", "argmax"})
"""Monoids whose order never matters, whatever the dtype."""


def reorders(monoid: str, dtype: str, flags: tuple[str, ...]) -> bool:
    """Whether the elements may be combined in any order and grouping."""
    return monoid in EXACT or not is_float(dtype) or "reassoc" in flags


def accumulation(store: Store, nest: Nest) -> Accumulation | None:
    """`store M[p], (load M[p]) (+) e` whose old value is used for nothing else."""

    def is_old(value: Value) -> bool:
        load = value.source
        return isinstance(load, Load) and load.mem is store.mem and _alike(load.index, store.index, nest)

    update = updates(store.value, is_old)
    if update is None:
        return None
    monoid, old, flags = update
    load = old.source
    assert isinstance(load, Load)
    if not used_only_to_update(store.value, is_old, nest, {id(store)}):
        return None
    dtype = old.type.dtype if isinstance(old.type, Tile) else ""
    return Accumulation(monoid, load, reorders(monoid, dtype, flags))


def _alike(first: tuple[Affine, ...], second: tuple[Affine, ...], nest: Nest) -> bool:
    """Whether indices are equal, also where an element of what is only read is read anew for each."""
    if first == second:
        return True
    apart = (set(a.names) ^ set(b.names) for a, b in zip(first, second, strict=True))
    keys = {name: _key_of(nest.definitions[name], nest) for names in apart for name in names}
    names = {name: next(other for other in keys if keys[other] == key) for name, key in keys.items() if key is not None}
    return all(a.substitute(names) == b.substitute(names) for a, b in zip(first, second, strict=True))


def _key_of(value: Value, nest: Nest) -> object:
    """What two values that are surely equal have in common, of casts of elements that are only read."""
    match value.source:
        case Cast(value=inner, to=to):
            return ("cast", to, _key_of(inner, nest))
        case Load(mem=mem, index=index, where=None) if isinstance(mem.type, Mem) and mem.type.readonly and mem.type.noalias:
            keys = [_key_of(nest.definitions[name], nest) for form in index for name in form.names]
            return ("load", mem, index, tuple(keys))
        case Index(of=form):
            return ("index", form)
        case _:
            return ("value", value)


COMMUTATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})


Test = Callable[[Value], bool]


def updates(value: Value, is_old: Test) -> tuple[str, Value, tuple[str, ...]] | None:
    """`old (+) e` with (+) a monoid and e free of old, at the top of the value (through a select that keeps the old value):
    the monoid, the old value and the flags."""
    match value.source:
        case Binary(operator=operator, left=left, right=right, flags=flags) if operator in COMMUTATIVE or operator == "sub":
            if is_old(left) and not depends(right, is_old):
                return ("add" if operator == "sub" else operator), left, flags
            if operator != "sub" and is_old(right) and not depends(left, is_old):
                return operator, right, flags
            # (old + a) + b: the same monoid again
            for first, second in ((left, right),) if operator == "sub" else ((left, right), (right, left)):
                if depends(first, is_old) and not depends(second, is_old):
                    inner = updates(first, is_old)
                    if inner is not None and inner[0] == ("add" if operator == "sub" else operator):
                        return inner[0], inner[1], tuple(flag for flag in flags if flag in inner[2])
            return None
        case Select(condition=condition, then=then, otherwise=otherwise) if not depends(condition, is_old):
            if is_old(otherwise):
                return updates(then, is_old)
            if is_old(then):
                return updates(otherwise, is_old)
            return None
        case Combine(monoid=monoid, operands_=operands) as combine:
            half = len(operands) // 2
            old = operands[combine.results.index(value)]
            if is_old(old) and not any(depends(v, is_old) for v in operands[half:]):
                return monoid, old, ()
            return None
        case _:
            return None


def update_path(value: Value, is_old: Test) -> list[Value]:
    """The values from the old one to its update, as `updates` finds them."""
    match value.source:
        case Select(then=then, otherwise=otherwise):
            return [value, *update_path(then if is_old(otherwise) else otherwise, is_old), then if is_old(then) else otherwise]
        case Binary(left=left, right=right):
            if is_old(left) or is_old(right):
                return [value, left if is_old(left) else right]
            return [value, *update_path(left if depends(left, is_old) else right, is_old)]
        case Combine(operands_=operands) as combine:
            return [value, operands[combine.results.index(value)]]
        case _:
            return [value]


def used_only_to_update(value: Value, is_old: Test, nest: "Nest", sinks: set[int]) -> bool:
    """Whether nothing but the update itself, and the instructions `sinks`, uses the old value and what it becomes."""
    path = update_path(value, is_old)
    allowed = sinks | {id(step.source) for step in path}
    return all(id(use) in allowed for step in path for use in nest.uses.get(step, ()))


def depends(value: Value, test: Test) -> bool:
    """Whether any value that this one is computed from (not through memory) passes the test."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if test(current):
            return True
        if current.source is not None:
            below = current.source.walk() if current.source.regions else (current.source,)
            stack.extend(v for op in below for v in op.operand_values if isinstance(v.type, Tile))
    return False


def slots_set(op: Instruction) -> list[Value]:
    """Slots set by the instruction or inside it, in order."""
    return list(dict.fromkeys(inner.slot for inner in op.walk() if isinstance(inner, SetSlot)))


def slot_accesses(region: Region) -> Iterator[tuple[Instruction, Value]]:
    """Every make, get and set of a slot in the region, in order."""
    for op in walk(region):
        match op:
            case MakeSlot():
                yield op, op.result
            case GetSlot() | SetSlot():
                yield op, op.slot
            case _:
                pass
