"""Turns a function into Python source that carries out its meaning: scalars become Python numbers, slots local variables, loops
loops, tiles NumPy arrays aligned by axis name. `interpret.py` runs the result; no name of the program gets into the source."""

from collections.abc import Sequence

import numpy as np

from compiler.emulator.expressions import COMPARE, PLAIN, binary, cast, decoded, encoded, unary
from compiler.emulator.fault import fault, unsupported
from compiler.emulator.translate_host import host_statement
from compiler.emulator.writer import Writer, axes_of
from compiler.hir import numbers
from compiler.hir.affine import Affine
from compiler.hir.control import Attempt, Break, Call, Condition, Continue, For, If, Return, While, Yield
from compiler.hir.core import (
    Binary,
    Bitcast,
    Cast,
    Combine,
    Compare,
    Concat,
    Const,
    Contract,
    Convert,
    Fma,
    InBounds,
    Index,
    IsNan,
    Pack2,
    Reduce,
    Scan,
    Select,
    Stack,
    Take,
    Threads,
    Unary,
    dtype_of,
)
from compiler.hir.instruction import Instruction, InstructionFamily, Region, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Check, GetSlot, GlobalRef, Load, MakeSlot, SetSlot, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.ring import RingFree, RingGet, RingMake, RingPut, RunRole, ring_of
from compiler.hir.types import Fragment, Mem, Ring, Tile, is_float

DEPTH = 18
"""Loops that Python's compiler takes inside one another, with two to spare."""


class Translator(Writer):
    """Writes one function that runs alone, from its first instruction to its last."""

    depth = 0
    """Loops around the instruction that is being written."""
    in_role = False
    """Whether it waits at rings, for another role; elsewhere nobody could come to help."""
    roles: Sequence[str] = ()
    """The roles beside it that are written, each with its name."""

    # ---- functions ----

    def translate(self) -> str:
        """Source of `def run(p0, p1, ...)`."""
        parameters = [self.bind(p) for p in self.function.parameters]
        self.write(0, f"def run({', '.join(parameters)}):")
        for parameter, name in zip(self.function.parameters, parameters, strict=True):
            if isinstance(parameter.type, Mem):
                self.memory(name, parameter.type, 1)
        self.region(self.function.body, 1, ())
        return "\n".join(self.lines) + "\n"

    def memory(self, name: str, type_: Mem, indent: int) -> None:
        """A memory called `name` is an array; `name_m` is its view for single elements, `name_0`, ... its extents."""
        if type_.rank:
            self.write(indent, f"{', '.join(f'{name}_{k}' for k in range(type_.rank))}, = {name}.shape")
        self.write(indent, f"{name}_m = memoryview({name})")

    # ---- regions and control ----

    def assign(self, targets: Sequence[Value], values: Sequence[Value], indent: int) -> None:
        """Give the targets these values, all at once."""
        if targets:
            self.write(indent, f"{', '.join(map(self.name, targets))}, = {', '.join(map(self.given, targets, values))},")

    def given(self, target: Value, value: Value) -> str:
        """A value as what is assigned to a target."""
        return self.name(value)

    def bind_all(self, values: Sequence[Value]) -> Sequence[Value]:
        for value in values:
            self.bind(value)
        return values

    def region(self, region: Region, indent: int, targets: Sequence[Value]) -> None:
        """The region's instructions; what it yields is assigned to `targets`."""
        if indent > 90:
            raise unsupported(f"@{self.function.name} nests more than 90 blocks deep")
        start = len(self.lines)
        for op, following in zip(region.body, [*region.body[1:], None], strict=False):
            if isinstance(op, RunRole):
                self.role(op, indent)
                if not isinstance(following, RunRole):
                    self.write(indent, f"run_roles({', '.join(self.roles)})")
                    self.roles = []
            elif isinstance(op, Yield):
                if op.values:
                    self.assign(targets, op.values, indent)
            else:
                self.instruction(op, indent)
        if len(self.lines) == start:
            self.write(indent, "pass")

    def instruction(self, op: Instruction, indent: int) -> None:
        match op:
            case For():
                self.loop(op, indent)
            case If():
                self.bind_all(op.results)
                self.write(indent, f"if {self.of(op.condition)}:")
                self.region(op.then, indent + 1, op.results)
                if op.otherwise is not None:
                    self.write(indent, "else:")
                    self.region(op.otherwise, indent + 1, op.results)
            case While():
                self.repeat(op, indent)
            case Condition():
                self.write(indent, f"if not {self.of(op.value)}: break")
            case Break():
                self.write(indent, "break")
            case Continue():
                self.write(indent, "continue")
            case Return():
                self.write(indent, f"return ({''.join(self.of(v) + ', ' for v in op.values)})")
            case Call():
                self.call(op, indent)
            case _:
                self.statement(op, indent)

    def role(self, op: RunRole, indent: int) -> None:
        """A function that gives what it waits for whenever it waits."""
        name = self.temporary()
        self.roles = [*self.roles, f"{op.role}={name}()"]
        self.write(indent, f"def {name}():")
        self.write(indent + 1, "yield lambda: True")
        depth, self.depth, self.in_role = self.depth, 0, True
        self.region(op.body, indent + 1, ())
        self.depth, self.in_role = depth, False

    def enter_loop(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            raise unsupported(f"@{self.function.name} nests more than {DEPTH} loops")

    def loop(self, op: For, indent: int) -> None:
        bounds = f"{self.affine(op.low)}, {self.affine(op.high)}"
        variable, *carried = self.bind_all(op.body.parameters)
        self.assign(carried, op.carried, indent)
        self.write(indent, f"for {self.name(variable)} in range({bounds}{f', {op.step}' if op.step != 1 else ''}):")
        self.enter_loop()
        self.region(op.body, indent + 1, carried)
        self.depth -= 1
        self.assign(self.bind_all(op.results), carried, indent)

    def repeat(self, op: While, indent: int) -> None:
        carried = self.bind_all(op.before.parameters)
        self.assign(carried, op.carried, indent)
        self.write(indent, "while True:")
        self.enter_loop()
        self.region(op.before, indent + 1, ())
        self.assign(self.bind_all(op.body.parameters), carried, indent + 1)
        self.region(op.body, indent + 1, carried)
        self.depth -= 1
        self.assign(self.bind_all(op.results), carried, indent)

    def callee(self, op: Call) -> HirFunction:
        """The function of the module that is called."""
        if self.module is None or op.function not in self.module.functions:
            raise fault(f"@{self.function.name} calls @{op.function}, which is not in the module")
        target = self.module.functions[op.function]
        if target.is_elsewhere:
            raise unsupported(f"@{op.function} is {target.linkage.value}; only functions of the module can be interpreted")
        if op.function not in self.called:
            self.called.append(op.function)
        return target

    def call(self, op: Call, indent: int) -> None:
        self.callee(op)
        call = f"functions[{op.function!r}]({', '.join(map(self.of, op.arguments))})"
        if isinstance(op, Attempt):
            self.attempt(self.bind(op.result), call, indent)
            return
        results = "".join(self.bind(r) + ", " for r in op.results)
        self.write(indent, f"{results}= {call}" if results else call)

    def attempt(self, failed: str, call: str, indent: int) -> None:
        self.write(indent, "try:")
        self.write(indent + 1, call)
        self.write(indent + 1, f"{failed} = False")
        self.write(indent, "except KernelFault as failure:")
        self.write(indent + 1, f"{failed} = True")
        self.write(indent + 1, "caught.append(failure)")

    # ---- plain instructions ----

    def statement(self, op: Instruction, indent: int) -> None:
        """An instruction without regions."""
        match op:
            case Load():
                self.load(op, indent)
            case Store():
                self.store(op, indent)
            case MakeSlot():
                self.bind(op.result)
                self.assign(op.results, [op.initial], indent)
            case SetSlot():
                self.assign([op.slot], [op.value], indent)
            case Alloc():
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                name = self.bind(op.result)
                self.write(indent, f"{name} = new_memory({op.type.dtype!r}, ({dims}))")
                self.memory(name, op.type, indent)
            case GlobalRef():
                self.table(op, indent)
            case Check():
                values = "".join(self.of(v) + ", " for v in op.values)
                condition = self.of(op.condition)
                if self.axes(op.condition):
                    self.write(indent, f"check_all({condition}, {op.code!r}, {op.site}, ({values}))")
                else:
                    raised = f"raise KernelFault({op.code!r}, {op.site}, ({values}), None, {self.constant(self.function.name)})"
                    self.write(indent, f"if not {condition}: {raised}")
            case Sort():
                arrays = [f"({self.of(v)}, {mem_of(v).dtype!r})" for v in (op.keys, *op.payload)]
                self.write(indent, f"sort_lines([{', '.join(arrays)}], {op.axis}, {op.descending})")
            case RingMake() | RingPut() | RingGet() | RingFree():
                self.ring(op, indent)
            case Combine():
                self.combine(op, indent)
            case Reduce():
                self.reduce(op, indent)
            case _:
                if op.family is InstructionFamily.HOST and host_statement(self, op, indent):
                    return
                text = self.expression(op)
                if text is None:
                    self.other(op, indent)
                else:
                    self.write(indent, f"{self.bind(op.result)} = {text}")

    def table(self, op: GlobalRef, indent: int) -> None:
        table = self.module.globals.get(op.name_) if self.module is not None else None
        if table is None:
            raise fault(f"@{self.function.name} names the global {op.name_}, which is not in the module")
        dims = tuple(form.constant for form in op.type.dims)
        name = self.bind(op.result)
        self.write(indent, f"{name} = table_of({op.type.dtype!r}, {dims}, {self.constant(table.values)})")
        self.memory(name, op.type, indent)

    def ring(self, op: RingMake | RingPut | RingGet | RingFree, indent: int) -> None:
        """A ring keeps what was put until it is freed; getting goes along the entries."""
        match op:
            case RingMake():
                assert isinstance(op.type, Ring)
                self.write(indent, f"{self.bind(op.result)} = RingQueue({op.type.stages})")
            case RingPut():
                elements = ring_of(op.ring).elements
                values = [self.see(v, axes_of(t)) for v, t in zip(op.values, elements, strict=True)]
                self.await_ring(f"{self.of(op.ring)}.has_room", indent)
                self.write(indent, f"{self.of(op.ring)}.put(({''.join(v + ', ' for v in values)}))")
            case RingGet():
                self.await_ring(f"{self.of(op.ring)}.has_entry", indent)
                names = "".join(self.bind(r) + ", " for r in op.results)
                self.write(indent, f"{names}= {self.of(op.ring)}.get()")
            case RingFree():
                self.write(indent, f"{self.of(op.ring)}.free()")

    def await_ring(self, is_ready: str, indent: int) -> None:
        if self.in_role:
            self.write(indent, f"if not {is_ready}(): yield {is_ready}")

    def other(self, op: Instruction, indent: int) -> None:
        """What only threads know; `translate_threads.py` adds it."""
        raise unsupported(f"`{op.name}` can't be interpreted in form {self.function.form.value}")

    def expression(self, op: Instruction) -> str | None:
        """A pure instruction with one result, as an expression; None when it is none of those."""
        axes = self.axes(op.result) if op.results else ()
        match op:
            case Const():
                return self.const(op)
            case GetSlot():
                return self.of(op.slot)
            case Binary():
                dtype = dtype_of(op.left)
                if axes:
                    left, right = self.see(op.left, axes), self.see(op.right, axes)
                    sign = PLAIN.get(op.operator) if dtype != "i1" else None
                    return f"({left} {sign} {right})" if sign else f"tile_binary({op.operator!r}, {dtype!r}, {left}, {right})"
                return binary(op.operator, dtype, self.of(op.left), self.of(op.right))
            case Compare():
                return (
                    f"({self.see(op.left, axes)} {COMPARE[op.operator]} {self.see(op.right, axes)})"
                    if axes
                    else (f"({self.of(op.left)} {COMPARE[op.operator]} {self.of(op.right)})")
                )
            case Unary():
                dtype = dtype_of(op.value)
                return (
                    f"tile_unary({op.operator!r}, {dtype!r}, {self.of(op.value)})" if axes else unary(op.operator, dtype, self.of(op.value))
                )
            case IsNan():
                return f"({self.of(op.value)} != {self.of(op.value)})"
            case Fma():
                text = ", ".join(self.see(v, axes) if axes else self.of(v) for v in (op.a, op.b, op.c))
                return f"{'tile_fma' if axes else 'fma' if is_float(dtype_of(op.a)) else 'int_fma'}({text}, {dtype_of(op.a)!r})"
            case Select():
                if axes:
                    return f"tile_select({', '.join(self.see(v, axes) for v in (op.condition, op.then, op.otherwise))})"
                return f"({self.of(op.then)} if {self.of(op.condition)} else {self.of(op.otherwise)})"
            case Cast():
                source = dtype_of(op.value)
                return f"tile_cast({self.of(op.value)}, {source!r}, {op.to!r})" if axes else cast(self.of(op.value), source, op.to)
            case Bitcast():
                name = "tile_bitcast" if axes else "bitcast"
                return f"{name}({self.of(op.value)}, {dtype_of(op.value)!r}, {op.to!r})"
            case Index():
                text = self.affine(op.of, axes)
                return f"spread({text}, {self.shape(op.result)}, 'index')" if axes else text
            case Threads():
                return "1"
            case InBounds():
                of, below = self.affine(op.of, axes), self.affine(op.below, axes)
                if not axes:
                    return f"(0 <= {of} < {below})"
                return f"spread((0 <= {of}) & ({of} < {below}), {self.shape(op.result)}, 'i1')"
            case _:
                return self.tile_expression(op)

    def const(self, op: Const) -> str:
        if isinstance(op.type, Fragment):
            return self.constant(np.full(op.type.shape, float(op.value)))
        assert isinstance(op.type, Tile)
        dtype = op.type.dtype
        value = numbers.convert(op.value, "f64" if isinstance(op.value, float) else "i1" if isinstance(op.value, bool) else "i64", dtype)
        if op.type.axes:
            return f"spread_constant({self.constant(value)}, {self.shape(op.result)}, {dtype!r})"
        special = isinstance(value, float) and (value != value or value in (numbers.INFINITY, -numbers.INFINITY))
        return self.constant(value) if special else repr(value)

    def tile_expression(self, op: Instruction) -> str | None:
        match op:
            case Scan():
                axis = self.axes(op.value).index(op.over[0])
                return f"tile_scan({op.monoid!r}, {dtype_of(op.value)!r}, {self.of(op.value)}, {axis}, {op.exclusive}, {op.reverse})"
            case Contract():
                return self.contract(op)
            case Take():
                axis = self.axes(op.value).index(op.axis)
                text = f"{self.of(op.value)}.take({self.affine(op.at)}, {axis})"
                return text if self.axes(op.result) else self.scalar(text, dtype_of(op.value))
            case Concat():
                axes = self.axes(op.result)
                return f"concatenate(({', '.join(self.see(v, axes) for v in op.values)},), {axes.index(op.axis)})"
            case Stack():
                axes = self.axes(op.result)
                return f"stacked(({', '.join(self.see(v, axes) for v in op.values)},), {axes.index(op.axis)})"
            case Pack2():
                have, want = self.axes(op.value), self.axes(op.result)
                text = f"pack_pairs({self.of(op.value)}, {have.index(op.over)})"
                return text if want else self.scalar(text, "u32")
            case Convert():
                return self.of(op.value)
            case _:
                return None

    def combine(self, op: Combine, indent: int) -> None:
        half = len(op.operands_) // 2
        old, new = op.operands_[:half], op.operands_[half:]
        axes = self.axes(op.results[0])
        results = [self.bind(r) for r in op.results]
        if op.monoid not in ("argmin", "argmax"):
            for name, a, b in zip(results, old, new, strict=True):
                dtype = dtype_of(a)
                if axes:
                    self.write(indent, f"{name} = tile_binary({op.monoid!r}, {dtype!r}, {self.see(a, axes)}, {self.see(b, axes)})")
                else:
                    self.write(indent, f"{name} = {binary(op.monoid, dtype, self.of(a), self.of(b))}")
            return
        if axes:
            pairs = [f"({', '.join(self.see(v, axes) for v in pair)},)" for pair in (old, new)]
            self.write(indent, f"{', '.join(results)}, = tile_combine({op.monoid!r}, {pairs[0]}, {pairs[1]})")
            return
        pairs = [f"({', '.join(map(self.of, pair))},)" for pair in (old, new)]
        self.write(indent, f"{', '.join(results)}, = {pairs[1]} if beats({op.monoid!r}, {pairs[1]}, {pairs[0]}) else {pairs[0]}")

    def reduce(self, op: Reduce, indent: int) -> None:
        axes = tuple(dict.fromkeys(axis for value in op.values for axis in self.axes(value)))
        outer = self.axes(op.results[0])
        order = tuple(axes.index(a) for a in outer) + tuple(axes.index(a) for a in axes if a in op.over)
        values = ", ".join(self.see(v, axes) for v in op.values)
        dtypes = tuple(dtype_of(v) for v in op.values)
        results = [self.bind(r) for r in op.results]
        self.write(indent, f"{', '.join(results)}, = tile_reduce({op.monoid!r}, {dtypes}, ({values},), {order}, {len(outer)})")
        if not outer:
            for name, dtype in zip(results, dtypes, strict=True):
                self.write(indent, f"{name} = {self.scalar(name, dtype)}")

    def contract(self, op: Contract) -> str:
        a, b, outer = self.axes(op.a), self.axes(op.b), self.axes(op.result)
        numbers_of = {name: number for number, name in enumerate(dict.fromkeys((*a, *b, *outer)))}
        subscripts = tuple(tuple(numbers_of[n] for n in names) for names in (a, b, tuple(n for n in outer if n in a or n in b)))
        product = tuple(n for n in outer if n in a or n in b)
        accumulator = "None"
        if op.accumulator is not None:
            accumulator = self.see(op.accumulator, outer) if outer else self.of(op.accumulator)
        shape = self.constant(tuple(slice(None) if n in product else None for n in outer))
        text = f"tile_contract({self.of(op.a)}, {self.of(op.b)}, {accumulator}, {subscripts}, {shape}, {op.to!r})"
        return text if outer else self.scalar(text, op.to)

    # ---- memory ----

    def load(self, op: Load, indent: int) -> None:
        axes = self.axes(op.result)
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        pad = numbers.convert(op.pad, "f64" if isinstance(op.pad, float) else "i64", dtype) if op.pad is not None else numbers.wrap(0, "i1")
        fill = self.constant(numbers.convert(pad, "f64" if isinstance(pad, float) else "i64", dtype))
        if axes:
            where = "None" if op.where is None else self.see(op.where, axes)
            padded, shape = op.pad is not None, self.shape(op.result)
            text = f"tile_load({memory}, {dtype!r}, ({self.index(op, axes)}), {where}, {fill}, {padded}, {shape}, {self.site(op)})"
            self.write(indent, f"{self.bind(op.result)} = {text}")
            return
        index_names, inside = self.place(op.index, memory, indent)
        element = decoded(f"{memory}_m[{index_names}]", dtype)
        if op.pad is not None:
            guard = inside if op.where is None else f"{self.of(op.where)} and {inside}"
            self.write(indent, f"{self.bind(op.result)} = {element} if {guard} else {fill}")
            return
        if op.where is not None:
            guard = f"{self.of(op.where)}"
            result = self.bind(op.result)
            self.write(indent, f"if {guard}:")
            self.write(indent + 1, f"if not ({inside}): outside({self.site(op)}, ({index_names}), {memory}.shape)")
            self.write(indent + 1, f"{result} = {element}")
            self.write(indent, f"else: {result} = {fill}")
            return
        self.write(indent, f"if not ({inside}): outside({self.site(op)}, ({index_names}), {memory}.shape)")
        self.write(indent, f"{self.bind(op.result)} = {element}")

    def place(self, index: tuple[Affine, ...], memory: str, indent: int) -> tuple[str, str]:
        """Python for a scalar index, and for its being inside the memory."""
        names: list[str] = []
        for form in index:
            text = self.affine(form)
            if not text.isidentifier() and form.value is None:
                name = self.temporary()
                self.write(indent, f"{name} = {text}")
                text = name
            names.append(text)
        inside = " and ".join(f"0 <= {name} < {memory}_{k}" for k, name in enumerate(names)) or "True"
        return "".join(name + ", " for name in names) or "()", inside

    def index(self, op: Load | Store, axes: tuple[str, ...]) -> str:
        """The indices of a tile's elements."""
        return "".join(self.affine(form, axes) + ", " for form in op.index)

    def store_axes(self, op: Store) -> tuple[str, ...]:
        where = self.axes(op.where) if op.where is not None else ()
        return tuple(dict.fromkeys((*self.varies(*op.index), *self.axes(op.value), *where)))

    def store(self, op: Store, indent: int) -> None:
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        axes = self.store_axes(op)
        if axes:
            where = "None" if op.where is None else self.see(op.where, axes)
            index, value = self.index(op, axes), self.see(op.value, axes)
            self.write(indent, f"tile_store({memory}, {dtype!r}, ({index}), {value}, {where}, {self.site(op)})")
            return
        if op.where is not None:
            self.write(indent, f"if {self.of(op.where)}:")
            indent += 1
        index_names, inside = self.place(op.index, memory, indent)
        self.write(indent, f"if not ({inside}): outside({self.site(op)}, ({index_names}), {memory}.shape)")
        self.write(indent, f"{memory}_m[{index_names}] = {encoded(self.of(op.value), dtype)}")
