"""Says whether a function is well formed: definitions before uses, types that follow from the operands, regions that end as they
must, and what each form forbids. What it finds is a mistake of the compiler, never of a program; it finds all of them at once."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.control import Attempt, Break, Call, Condition, Continue, For, If, Return, While, Yield
from compiler.hir.host import Element, Member
from compiler.hir.instruction import Instruction, InstructionFamily, Region, Value, ValueScope
from compiler.hir.memory import GetSlot, GlobalRef, MakeSlot, SetSlot
from compiler.hir.module import Form, HirFunction, HirModule
from compiler.hir.types import I1, INDEX, HirType, Mem, Pointer, Ring, Slot, Tile

TERMINATORS = (Yield, Condition, Break, Continue, Return)
NUMBERS = (InstructionFamily.PLAIN, InstructionFamily.MONOID, InstructionFamily.AXIS)
"""Families whose operands are numbers and tiles."""

SLOTS = (MakeSlot, GetSlot, SetSlot)


def verify(program: HirFunction | HirModule) -> None:
    """Return when all is well; else raise ZyntaxError with one 0901 for each fault."""
    functions = program.functions.values() if isinstance(program, HirModule) else (program,)
    module = program if isinstance(program, HirModule) else None
    faults: list[Diagnostic] = []
    for function in functions:
        faults += [
            Diagnostic("0901", f"in @{function.name}: {words}", op.span if op is not None else None)
            for op, words in _Verifier(function, module).faults()
        ]
    if module is not None:
        faults += [Diagnostic("0901", words) for words in _module_faults(module)]
    if faults:
        raise ZyntaxError(*faults)


def faults(function: HirFunction) -> list[str]:
    """The faults of one function, in words."""
    return [words for _, words in _Verifier(function, None).faults()]


Fault = tuple[Instruction | None, str]


class _Verifier:
    def __init__(self, function: HirFunction, module: HirModule | None) -> None:
        self.function = function
        self.module = module
        self.scope: ValueScope = function.scope()
        self.visible: dict[str, Value] = {}
        self.taken: set[str] = set()

    def faults(self) -> Iterator[Fault]:
        function = self.function
        for axis, extent in function.axes.items():
            yield from self.new_name(axis, None)
            yield from self.extents(axis, extent)
        if function.form is Form.NEST and function.axes:
            yield None, "form A has no axes"
        yield from self.define(function.parameters, None)
        for parameter in function.parameters:
            yield from self.known_type(parameter.type, f"parameter {parameter}", None)
        if function.is_elsewhere and function.body.body:
            yield None, f"it is {function.linkage.value} and has a body"
        yield from self.region(function.body, loops=(), inside=None)

    def extents(self, axis: str, extent: Affine) -> Iterator[Fault]:
        sizes = {p.name for p in self.function.parameters if p.type == INDEX}
        for name in extent.names:
            if name not in sizes:
                yield None, f"the extent of axis {axis} names {name}, which is no size of the function"
        if extent.names and self.function.form in (Form.TILE, Form.ROLES, Form.THREAD):
            yield None, f"axis {axis} of form {self.function.form.value} has the extent {extent}, which isn't constant"

    # ---- names ----

    def new_name(self, name: str, op: Instruction | None) -> Iterator[Fault]:
        if name in self.taken:
            yield op, f"the name {name} is given twice"
        self.taken.add(name)

    def define(self, values: list[Value], op: Instruction | None) -> Iterator[Fault]:
        for value in values:
            yield from self.new_name(value.name, op)
            self.visible[value.name] = value

    def use(self, value: Value, op: Instruction) -> Iterator[Fault]:
        if self.visible.get(value.name) is not value:
            elsewhere = "another value has its name" if value.name in self.visible else "it isn't defined before"
            yield op, f"`{op.name}` uses {value}, but {elsewhere}"

    def symbols(self, names: Iterator[str] | list[str], words: str, op: Instruction | None) -> Iterator[Fault]:
        for name in names:
            value = self.visible.get(name)
            if value is not None:
                if not isinstance(value.type, Tile) or value.type.dtype != "index":
                    yield op, f"{words} names {value} of type {value.type}; only an index may stand in an affine form"
            elif name not in self.function.axes:
                yield op, f"{words} names {name}, which is not in scope"

    def known_type(self, type_: HirType, words: str, op: Instruction | None) -> Iterator[Fault]:
        """Names in a type's extents are in scope; an axis has the extent that the function gives it."""
        match type_:
            case Tile():
                for name, extent in type_.axes:
                    declared = self.function.axes.get(name)
                    if declared is None:
                        yield op, f"{words} varies along {name}, which is no axis of the function"
                    elif declared != extent and not (op is not None and op.mnemonic == "concat"):
                        yield op, f"{words} gives axis {name} the extent {extent}, the function {declared}"
                if self.function.form is Form.NEST and type_.axes:
                    yield op, f"{words} is a tile, in form A"
            case Mem():
                for form in (*type_.dims, *(type_.strides or ())):
                    yield from self.symbols(list(form.names), f"the type of {words}", op)
                if type_.strides is not None and len(type_.strides) != len(type_.dims):
                    yield op, f"{words} has {len(type_.dims)} dims and {len(type_.strides)} strides"
            case Ring():
                for element in type_.elements:
                    yield from self.known_type(element, words, op)
            case Slot() if self.function.form is not Form.NEST and self.function.form is not Form.THREAD:
                yield op, f"{words} is a slot, in form {self.function.form.value}"
            case _:
                pass

    # ---- regions ----

    def region(self, region: Region, loops: tuple[Instruction, ...], inside: Instruction | None) -> Iterator[Fault]:
        outer = dict(self.visible)
        yield from self.define(region.parameters, inside)
        for number, op in enumerate(region.body):
            last = number == len(region.body) - 1
            if isinstance(op, TERMINATORS) and not last:
                yield op, f"`{op.name}` is not the last of its region"
            yield from self.instruction(op, loops, inside)
        self.visible = outer

    def instruction(self, op: Instruction, loops: tuple[Instruction, ...], inside: Instruction | None) -> Iterator[Fault]:
        for value in op.operand_values:
            yield from self.use(value, op)
        yield from self.symbols(op.symbols, f"`{op.name}`", op)
        yield from self.form_rules(op, loops, inside)
        yield from self.structure(op)
        match op:
            case For():
                yield from self.region(op.body, (*loops, op), op)
            case While():
                yield from self.while_regions(op, loops)
            case _:
                for inner in op.regions:
                    yield from self.region(inner, loops, op)
        yield from self.types(op)
        yield from self.define(op.results, op)

    def while_regions(self, op: While, loops: tuple[Instruction, ...]) -> Iterator[Fault]:
        """The body sees what `before` defines: it runs after it."""
        outer = dict(self.visible)
        yield from self.define(op.before.parameters, op)
        for number, inner in enumerate(op.before.body):
            if isinstance(inner, TERMINATORS) and number < len(op.before.body) - 1:
                yield inner, f"`{inner.name}` is not the last of its region"
            yield from self.instruction(inner, loops, op)
        yield from self.region(op.body, (*loops, op), op)
        self.visible = outer

    def structure(self, op: Instruction) -> Iterator[Fault]:
        """Regions have the parameters that their instruction says."""
        match op:
            case For():
                if not op.body.parameters or op.body.parameters[0].type != INDEX:
                    yield op, "a loop's variable is the first parameter of its region, of type index"
                yield from self.carried(op, op.body.parameters[1:], op.carried)
            case While():
                yield from self.carried(op, op.before.parameters, op.carried)
                if op.body.parameters:
                    yield from self.carried(op, op.body.parameters, op.carried)
            case If():
                if op.condition.type != I1:
                    yield op, f"`if` asks {op.condition} of type {op.condition.type}; i1 is wanted"
            case Condition():
                if op.value.type != I1:
                    yield op, f"`condition` asks {op.value} of type {op.value.type}; i1 is wanted"
            case Call() if self.module is not None:
                yield from self.call(op)
            case GlobalRef() if self.module is not None:
                table = self.module.globals.get(op.name_)
                if table is None or table.type != op.type:
                    yield op, f"`global` names {op.name_} of type {op.type}, which is not in the module"
            case Return():
                if not same_types([v.type for v in op.values], list(self.function.results)):
                    declared = ", ".join(map(str, self.function.results)) or "nothing"
                    yield op, f"returns {_types(op.values) or 'nothing'} where {declared} is declared"
            case _:
                pass

    def carried(self, op: Instruction, parameters: list[Value], carried: tuple[Value, ...]) -> Iterator[Fault]:
        if not same_types([p.type for p in parameters], [c.type for c in carried]):
            yield op, f"`{op.name}` carries {_types(carried)} into parameters of {_types(parameters)}"

    def call(self, op: Call) -> Iterator[Fault]:
        assert self.module is not None
        target = self.module.functions.get(op.function)
        if target is None:
            yield op, f"calls @{op.function}, which is not in the module"
            return
        if not same_types([v.type for v in op.arguments], [p.type for p in target.parameters]):
            yield op, f"calls @{op.function} with {_types(op.arguments)}, which takes {_types(target.parameters)}"
        if isinstance(op, Attempt):
            if target.results or target.is_external:
                yield op, f"attempts @{op.function}, which is {'a function of C' if target.is_external else 'one that gives values'}"
        elif not same_types(list(op.types), list(target.results)):
            yield op, f"@{op.function} doesn't give {', '.join(map(str, op.types)) or 'nothing'}"
        if "noalias" in target.attributes:
            pointers = [v for v in op.arguments if isinstance(v.type, Pointer)]
            for number, first in enumerate(pointers):
                for second in pointers[number + 1 :]:
                    if not apart(first, second, "noalias" in self.function.attributes):
                        yield op, f"{first} and {second} may share memory, which @{op.function} rules out"

    # ---- types and forms ----

    def types(self, op: Instruction) -> Iterator[Fault]:
        if op.family in NUMBERS:
            strangers = [v for v in op.operand_values if not isinstance(v.type, Tile)]
            if strangers:
                yield from ((op, f"`{op.name}`: {v} is no number: {v.type}") for v in strangers)
                return
        try:
            wanted = op.result_types(self.scope)
            words = list(op.check(self.scope))
        except (AssertionError, AttributeError, KeyError, IndexError) as error:
            # A declaration asks its operands for a dtype, a rank, an axis; an operand of a wrong kind has none.
            yield op, f"`{op.name}` has an operand of a wrong kind ({error})"
            return
        yield from ((op, f"`{op.name}`: {text}") for text in words)
        number = getattr(op, "site", -1) if op.family is InstructionFamily.HOST else -1
        if number < -1 or number >= len(self.function.sites):
            yield op, f"`{op.name}` names site {number}, and the function has {len(self.function.sites)}"
        if not same_types([r.type for r in op.results], wanted):
            yield op, f"`{op.name}` gives {', '.join(map(str, wanted)) or 'nothing'}, but its results are {_types(op.results) or 'none'}"
        for result in op.results:
            yield from self.known_type(result.type, str(result), op)

    def form_rules(self, op: Instruction, loops: tuple[Instruction, ...], inside: Instruction | None) -> Iterator[Fault]:
        form = self.function.form
        host = self.function.kernel_info is None
        if isinstance(op, SLOTS) and form not in (Form.NEST, Form.THREAD):
            yield op, f"`{op.name}` in form {form.value}; slots are for form A and threads"
        if isinstance(op, Break | Continue):
            if form not in (Form.NEST, Form.THREAD):
                yield op, f"`{op.name}` in form {form.value}; only loops in time can be left"
            if not loops:
                yield op, f"`{op.name}` outside a loop"
            elif getattr(loops[-1], "carried", ()):
                yield op, f"`{op.name}` in a loop that carries values"
        if op.family.is_gpu and form not in (Form.THREAD, Form.ROLES):
            yield op, f"`{op.name}` in form {form.value}; it needs threads"
        if op.family is InstructionFamily.RING and form in (Form.NEST, Form.FIELD):
            yield op, f"`{op.name}` in form {form.value}; rings are for tiles"
        if op.family is InstructionFamily.HOST and (form is not Form.NEST or not host):
            yield op, f"`{op.name}` is for host functions, which have form A"
        if isinstance(op, For | While | If | Return | Yield):
            given = [*(getattr(op, "carried", ())), *op.results, *(getattr(op, "values", ()))]
            yield from ((op, f"`{op.name}` hands on {v}; a pointer stays where it is made") for v in given if isinstance(v.type, Pointer))
        if isinstance(op, Attempt) and (form is not Form.NEST or not host):
            yield op, "`attempt` is for host functions, which have form A"
        if isinstance(op, Condition) and not isinstance(inside, While):
            yield op, "`condition` outside the first region of a `while`"
        if isinstance(op, Yield) and inside is None and op.values:
            yield op, "`yield` of values outside a loop or `if`"
        if isinstance(op, Return) and inside is not None and not host and form is not Form.NEST and form is not Form.THREAD:
            yield op, f"`return` inside a region, in form {form.value}"


def apart(a: Value, b: Value, parameters_apart: bool) -> bool:
    """Whether two pointers surely lead to different memory: by different origins, or into different fields of one. Any two elements of
    an array may be the same."""
    (origin, path), (other, other_path) = _path(a), _path(b)
    if origin is not other:
        return parameters_apart or not (origin.source is None and other.source is None)
    return any(own_step != there for own_step, there in zip(path, other_path, strict=False))


def _path(pointer: Value) -> tuple[Value, tuple[str, ...]]:
    """Where a pointer comes from, a parameter or a `local`, and the steps from there; an element is an empty name."""
    match pointer.source:
        case Member(pointer=base, field_=field):
            origin, path = _path(base)
            return origin, (*path, field)
        case Element(pointer=base):
            origin, path = _path(base)
            return origin, (*path, "")
        case _:
            return pointer, ()


def _module_faults(module: HirModule) -> Iterator[str]:
    for name, function in module.functions.items():
        if name != function.name:
            yield f"@{function.name} stands under the name {name}"
    for export in module.exports:
        if export.function not in module.functions:
            yield f"@{export.function} is exported, but not in the module"
    if module.gpu_metadata is not None:
        for name in (*module.gpu_metadata.kernel_entries, *module.gpu_metadata.device_functions):
            if name not in module.functions:
                yield f"the GPU data name @{name}, which is not in the module"


def same_types(have: list[HirType], want: list[HirType]) -> bool:
    """Equal, but for the order of a tile's axes."""
    return len(have) == len(want) and all(map(_same_type, have, want))


def _same_type(a: HirType, b: HirType) -> bool:
    if isinstance(a, Tile) and isinstance(b, Tile):
        return a.dtype == b.dtype and dict(a.axes) == dict(b.axes)
    if isinstance(a, Mem) and isinstance(b, Mem):
        return a.dtype == b.dtype and a.rank == b.rank
    return a == b


def _types(values: list[Value] | tuple[Value, ...]) -> str:
    return ", ".join(str(value.type) for value in values)
