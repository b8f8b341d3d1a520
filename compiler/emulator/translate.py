"""Turns a function into Python source that carries out its meaning: scalars become Python numbers, slots local variables, loops
loops, tiles NumPy arrays aligned by axis name. `interpret.py` runs the result; no name of the program gets into the source."""

from typing import Any

import numpy as np

from compiler.emulator.expressions import COMPARE, PLAIN, binary, cast, decoded, encoded, unary
from compiler.emulator.fault import fault, unsupported
from compiler.emulator.translate_host import host_statement
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
    Take,
    Unary,
    dtype_of,
    union_axes,
)
from compiler.hir.instruction import Family, Instruction, Region, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Check, GetSlot, GlobalRef, Load, MakeSlot, SetSlot, Store, mem_of
from compiler.hir.module import Form, HirFunction, HirModule
from compiler.hir.ring import RingFree, RingGet, RingMake, RingPut, ring_of
from compiler.hir.types import Fragment, HirType, Mem, Ring, Tile, is_float

DEPTH = 18
"""Loops that Python's compiler takes inside one another, with two to spare."""


def axes_of(type_: HirType) -> tuple[str, ...]:
    """Names of a type's axes; none for what is no tile."""
    return type_.axis_names if isinstance(type_, Tile) else ()


class Translator:
    """Writes one function. `generator`: the function runs as one thread of many, and gives way (`yield`) where threads meet."""

    def __init__(self, function: HirFunction, module: HirModule | None = None, generator: bool = False) -> None:
        self.function = function
        self.module = module
        self.generator = generator
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.types: dict[str, HirType] = {}
        self.called: list[str] = []
        self.depth = 0
        self.counter = 0

    # ---- names and places ----

    def bind(self, value: Value) -> str:
        """A Python name for a value."""
        name = f"v{len(self.names)}"
        self.names[value.name] = name
        self.types[value.name] = value.type
        return name

    def of(self, value: Value) -> str:
        found = self.names.get(value.name)
        if found is None:
            raise fault(f"%{value.name} is used before it is defined in @{self.function.name}")
        return found

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def temporary(self) -> str:
        self.counter += 1
        return f"t{self.counter}"

    def write(self, indent: int, text: str) -> None:
        self.lines.append(" " * indent + text)

    # ---- affine forms ----

    def affine(self, form: Affine, axes: tuple[str, ...] = ()) -> str:
        """The form as a Python expression; with `axes`, over arrays that vary along them."""
        parts: list[str] = []
        for symbol, coefficient in form.terms:
            if isinstance(symbol, str):
                text = self.symbol(symbol, axes)
            else:
                text = f"(({self.affine(symbol.numerator, axes)}) // {symbol.divisor})"
            parts.append(text if coefficient == 1 else f"{coefficient} * {text}")
        if form.constant or not parts:
            parts.append(str(form.constant))
        return " + ".join(parts)

    def symbol(self, name: str, axes: tuple[str, ...]) -> str:
        if name in self.names:
            type_ = self.types[name]
            return self.aligned(self.names[name], type_, axes) if axes_of(type_) else self.names[name]
        if name in self.function.axes and name in axes:
            shape = tuple(-1 if axis == name else 1 for axis in axes)
            return f"axis_values({self.affine(self.function.axes[name])}, {shape})"
        raise fault(f"{name} is not known in @{self.function.name}")

    def varies(self, *forms: Affine) -> tuple[str, ...]:
        """Axes along which the forms vary."""
        found: dict[str, None] = {}
        for form in forms:
            for name in form.names:
                if name in self.names:
                    found.update(dict.fromkeys(axes_of(self.types[name])))
                elif name in self.function.axes:
                    found[name] = None
        return tuple(found)

    # ---- tiles ----

    def aligned(self, name: str, type_: HirType, axes: tuple[str, ...]) -> str:
        """The array `name` seen with `axes`, which include its own."""
        have = axes_of(type_)
        if have == axes:
            return name
        if not have:
            assert isinstance(type_, Tile)
            return f"numpy_scalar({name}, {type_.dtype!r})"
        order = tuple(have.index(axis) for axis in axes if axis in have)
        shape = tuple(slice(None) if axis in have else None for axis in axes)
        return f"{name}.transpose({order})[{self.constant(shape)}]"

    def see(self, value: Value, axes: tuple[str, ...]) -> str:
        return self.aligned(self.of(value), value.type, axes)

    def shape(self, type_: HirType) -> str:
        """The extents of a tile's axes, as a Python tuple."""
        assert isinstance(type_, Tile)
        extents = (str(extent.value) if extent.value is not None else f"max(0, {self.affine(extent)})" for _, extent in type_.axes)
        return "(" + "".join(f"{extent}, " for extent in extents) + ")"

    # ---- functions ----

    def translate(self) -> str:
        """Source of `def run(p0, p1, ...)`."""
        parameters = [self.bind(p) for p in self.function.parameters]
        self.write(0, f"def run({', '.join([*parameters, *(['thread'] if self.generator else [])])}):")
        for parameter, name in zip(self.function.parameters, parameters, strict=True):
            if isinstance(parameter.type, Mem):
                self.memory(name, parameter.type, 1)
        if self.generator:
            self.write(1, "if False: yield None")
        self.region(self.function.body, 1, None)
        return "\n".join(self.lines) + "\n"

    def memory(self, name: str, type_: Mem, indent: int) -> None:
        """A memory called `name` is an array; `name_m` is its view for single elements, `name_0`, ... its extents."""
        if type_.rank:
            self.write(indent, f"{', '.join(f'{name}_{k}' for k in range(type_.rank))}, = {name}.shape")
        self.write(indent, f"{name}_m = memoryview({name})")

    # ---- regions and control ----

    def region(self, region: Region, indent: int, targets: list[str] | None) -> None:
        """The region's instructions; what it yields is assigned to `targets`."""
        if indent > 90:
            raise unsupported(f"@{self.function.name} nests more than 90 blocks deep")
        start = len(self.lines)
        for op in region.body:
            if isinstance(op, Yield):
                if targets and op.values:
                    self.write(indent, f"{', '.join(targets)}, = {', '.join(map(self.of, op.values))},")
            else:
                self.instruction(op, indent)
        if len(self.lines) == start:
            self.write(indent, "pass")

    def instruction(self, op: Instruction, indent: int) -> None:
        match op:
            case For():
                self.loop(op, indent)
            case If():
                results = [self.bind(r) for r in op.results]
                self.write(indent, f"if {self.of(op.condition)}:")
                self.region(op.then, indent + 1, results)
                if op.otherwise is not None:
                    self.write(indent, "else:")
                    self.region(op.otherwise, indent + 1, results)
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

    def enter_loop(self) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            raise unsupported(f"@{self.function.name} nests more than {DEPTH} loops")

    def loop(self, op: For, indent: int) -> None:
        bounds = f"{self.affine(op.low)}, {self.affine(op.high)}"
        variable, *carried = [self.bind(p) for p in op.body.parameters]
        if carried:
            self.write(indent, f"{', '.join(carried)}, = {', '.join(map(self.of, op.carried))},")
        self.write(indent, f"for {variable} in range({bounds}{f', {op.step}' if op.step != 1 else ''}):")
        self.enter_loop()
        self.region(op.body, indent + 1, carried)
        self.depth -= 1
        for result, name in zip(op.results, carried, strict=True):
            self.write(indent, f"{self.bind(result)} = {name}")

    def repeat(self, op: While, indent: int) -> None:
        carried = [self.bind(p) for p in op.before.parameters]
        if carried:
            self.write(indent, f"{', '.join(carried)}, = {', '.join(map(self.of, op.carried))},")
        self.write(indent, "while True:")
        self.enter_loop()
        self.region(op.before, indent + 1, None)
        own = [self.bind(p) for p in op.body.parameters]
        if own:
            self.write(indent + 1, f"{', '.join(own)}, = {', '.join(carried)},")
        self.region(op.body, indent + 1, carried)
        self.depth -= 1
        for result, name in zip(op.results, carried, strict=True):
            self.write(indent, f"{self.bind(result)} = {name}")

    def call(self, op: Call, indent: int) -> None:
        if self.module is None or op.function not in self.module.functions:
            raise fault(f"@{self.function.name} calls @{op.function}, which is not in the module")
        target = self.module.functions[op.function]
        if target.is_elsewhere:
            raise unsupported(f"@{op.function} is {target.linkage.value}; only functions of the module can be interpreted")
        if op.function not in self.called:
            self.called.append(op.function)
        arguments = [self.of(v) for v in op.arguments]
        thread = self.generator and target.form is Form.THREAD
        call = f"functions[{op.function!r}]({', '.join([*arguments, *(['thread'] if thread else [])])})"
        call = f"(yield from {call})" if thread else call
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
                self.write(indent, f"{self.bind(op.result)} = {self.of(op.initial)}")
            case SetSlot():
                self.write(indent, f"{self.of(op.slot)} = {self.of(op.value)}")
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
                if axes_of(op.condition.type):
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
            case _ if op.family is Family.HOST:
                host_statement(self, op, indent)
            case _:
                text = self.expression(op)
                if text is None:
                    self.other(op, indent)
                else:
                    self.write(indent, f"{self.bind(op.result)} = {text}")

    def table(self, op: GlobalRef, indent: int) -> None:
        made = self.module.globals.get(op.name_) if self.module is not None else None
        if made is None:
            raise fault(f"@{self.function.name} names the global {op.name_}, which is not in the module")
        dims = tuple(form.constant for form in op.type.dims)
        name = self.bind(op.result)
        self.write(indent, f"{name} = table_of({op.type.dtype!r}, {dims}, {self.constant(made.values)})")
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
                self.write(indent, f"{self.of(op.ring)}.put(({''.join(v + ', ' for v in values)}))")
            case RingGet():
                names = "".join(self.bind(r) + ", " for r in op.results)
                self.write(indent, f"{names}= {self.of(op.ring)}.get()")
            case RingFree():
                self.write(indent, f"{self.of(op.ring)}.free()")

    def other(self, op: Instruction, indent: int) -> None:
        """What only threads know; `interpret_threads` adds it."""
        raise unsupported(f"`{op.name}` can't be interpreted in form {self.function.form.value}")

    def expression(self, op: Instruction) -> str | None:
        """A pure instruction with one result, as an expression; None when it is none of those."""
        axes = axes_of(op.result.type) if op.results else ()
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
                return f"spread({text}, {self.shape(op.result.type)}, 'index')" if axes else text
            case InBounds():
                of, below = self.affine(op.of, axes), self.affine(op.below, axes)
                if not axes:
                    return f"(0 <= {of} < {below})"
                return f"spread((0 <= {of}) & ({of} < {below}), {self.shape(op.result.type)}, 'i1')"
            case _:
                return self.tile_expression(op)

    def const(self, op: Const) -> str:
        if isinstance(op.type, Fragment):
            return self.constant(np.full(op.type.shape, float(op.value)))
        assert isinstance(op.type, Tile)
        dtype = op.type.dtype
        value = numbers.convert(op.value, "f64" if isinstance(op.value, float) else "i1" if isinstance(op.value, bool) else "i64", dtype)
        if op.type.axes:
            return f"spread_constant({self.constant(value)}, {self.shape(op.type)}, {dtype!r})"
        special = isinstance(value, float) and (value != value or value in (numbers.INFINITY, -numbers.INFINITY))
        return self.constant(value) if special else repr(value)

    def tile_expression(self, op: Instruction) -> str | None:
        match op:
            case Scan():
                axis = axes_of(op.value.type).index(op.over[0])
                return f"tile_scan({op.monoid!r}, {dtype_of(op.value)!r}, {self.of(op.value)}, {axis}, {op.exclusive}, {op.reverse})"
            case Contract():
                return self.contract(op)
            case Take():
                axis = axes_of(op.value.type).index(op.axis)
                text = f"{self.of(op.value)}.take({self.affine(op.at)}, {axis})"
                return text if axes_of(op.result.type) else self.scalar(text, dtype_of(op.value))
            case Concat():
                axes = axes_of(op.result.type)
                return f"concatenate(({', '.join(self.see(v, axes) for v in op.values)},), {axes.index(op.axis)})"
            case Pack2():
                have, want = axes_of(op.value.type), axes_of(op.result.type)
                text = f"pack_pairs({self.of(op.value)}, {have.index(op.over)})"
                return text if want else self.scalar(text, "u32")
            case Convert():
                return self.of(op.value)
            case _:
                return None

    def scalar(self, text: str, dtype: str) -> str:
        """An array without dimensions as a Python number."""
        return f"{'float' if is_float(dtype) else 'bool' if dtype == 'i1' else 'int'}({text})"

    def combine(self, op: Combine, indent: int) -> None:
        half = len(op.operands_) // 2
        old, new = op.operands_[:half], op.operands_[half:]
        axes = axes_of(op.results[0].type)
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
        axes = tuple(name for name, _ in union_axes(*op.values))
        kept = axes_of(op.results[0].type)
        order = tuple(axes.index(a) for a in kept) + tuple(axes.index(a) for a in axes if a in op.over)
        values = ", ".join(self.see(v, axes) for v in op.values)
        dtypes = tuple(dtype_of(v) for v in op.values)
        results = [self.bind(r) for r in op.results]
        self.write(indent, f"{', '.join(results)}, = tile_reduce({op.monoid!r}, {dtypes}, ({values},), {order}, {len(kept)})")
        if not kept:
            for name, dtype in zip(results, dtypes, strict=True):
                self.write(indent, f"{name} = {self.scalar(name, dtype)}")

    def contract(self, op: Contract) -> str:
        a, b, kept = axes_of(op.a.type), axes_of(op.b.type), axes_of(op.result.type)
        numbers_of = {name: number for number, name in enumerate(dict.fromkeys((*a, *b, *kept)))}
        subscripts = tuple(tuple(numbers_of[n] for n in names) for names in (a, b, tuple(n for n in kept if n in a or n in b)))
        product = tuple(n for n in kept if n in a or n in b)
        accumulator = "None"
        if op.accumulator is not None:
            accumulator = self.see(op.accumulator, kept) if kept else self.of(op.accumulator)
        shape = self.constant(tuple(slice(None) if n in product else None for n in kept))
        text = f"tile_contract({self.of(op.a)}, {self.of(op.b)}, {accumulator}, {subscripts}, {shape}, {op.to!r})"
        return text if kept else self.scalar(text, op.to)

    # ---- memory ----

    def load(self, op: Load, indent: int) -> None:
        axes = axes_of(op.result.type)
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        pad = numbers.convert(op.pad, "f64" if isinstance(op.pad, float) else "i64", dtype) if op.pad is not None else numbers.wrap(0, "i1")
        fill = self.constant(numbers.convert(pad, "f64" if isinstance(pad, float) else "i64", dtype))
        if axes:
            where = "None" if op.where is None else self.see(op.where, axes)
            index = "".join(self.affine(form, axes) + ", " for form in op.index)
            shape = self.shape(op.result.type)
            text = f"tile_load({memory}, {dtype!r}, ({index}), {where}, {fill}, {op.pad is not None}, {shape}, {self.site(op)})"
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

    def store(self, op: Store, indent: int) -> None:
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        axes = tuple(dict.fromkeys((*self.varies(*op.index), *axes_of(op.value.type), *(axes_of(op.where.type) if op.where else ()))))
        if axes:
            index = "".join(self.affine(form, axes) + ", " for form in op.index)
            where = "None" if op.where is None else self.see(op.where, axes)
            self.write(indent, f"tile_store({memory}, {dtype!r}, ({index}), {self.see(op.value, axes)}, {where}, {self.site(op)})")
            return
        if op.where is not None:
            self.write(indent, f"if {self.of(op.where)}:")
            indent += 1
        index_names, inside = self.place(op.index, memory, indent)
        self.write(indent, f"if not ({inside}): outside({self.site(op)}, ({index_names}), {memory}.shape)")
        self.write(indent, f"{memory}_m[{index_names}] = {encoded(self.of(op.value), dtype)}")

    def site(self, op: Instruction) -> str:
        """A constant that tells which instruction is at fault."""
        return self.constant(op)
