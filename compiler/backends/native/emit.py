"""From a module of host functions to the text of an LLVM module.

Each function is internal; each exported one has an entry besides, `i64 name(ptr record, ..., ptr results)`: pointers as they are, ints as
i64, floats in their own width; the results are written one behind the other as a C struct. It gives 0, or 1 after a failure. Modules that
are linked call each other by these entries, with the same record."""

from collections.abc import Iterable

from compiler.backends.llvm import arithmetic, structured
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.plain import emit_plain
from compiler.backends.llvm.types import I1, I8, I64, PTR, LlvmType, memory_type, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.backends.native import faults, heap, integers, pointers, wide
from compiler.backends.native.frame import STACK, NativeFrame, NativeModule, body_name, plain
from compiler.backends.native.inlining import recursive, taken_in
from compiler.backends.native.polls import polled
from compiler.backends.native.record import FaultPoint, mark_of
from compiler.hir.control import Attempt, Call, For, Return, While
from compiler.hir.core import Cast, dtype_of
from compiler.hir.host import (
    Address,
    Allocate,
    AtAddress,
    Checked,
    Clear,
    Copy,
    Cycles,
    Element,
    HeapMark,
    Local,
    MatchBytes,
    Member,
    Narrow,
    Quotient,
    Read,
    ReadBytes,
    Release,
    Saturating,
    Write,
)
from compiler.hir.instruction import Effect, Instruction
from compiler.hir.layout import align_of, in_memory, offset_of, size_of
from compiler.hir.memory import Check
from compiler.hir.module import HirFunction, HirModule, Linkage
from compiler.hir.types import HirType, Pointer, Struct, Tile, is_float, is_wide
from compiler.source import Span

OUR_ATTRIBUTES = {"cold": "cold", "noinline": "noinline", "hot": "hot"}
"""Attributes of a function that LLVM is told under the same name; `noalias` says that its pointers point to different memory."""


def emit_module(
    module: HirModule, attributes: tuple[str, ...], inline: bool = True, callers: list[Span | None] | None = None, stack: int = STACK
) -> tuple[ModuleWriter, list[FaultPoint]]:
    """The LLVM module, and its points of failure by the numbers that records use. `inline`: calls are replaced by what they call; `callers`
    gets the places of calls by the numbers that records use, which they tell only where it is given; `stack`: bytes that functions which
    call themselves may take."""
    writer = ModuleWriter(module.name, attributes, backend="native")
    circular = recursive(module)
    looking = polled(module)
    weights = writer.metadata('!{!"branch_weights", i32 1, i32 1048575}')
    native = NativeModule(
        module,
        writer,
        emit,
        faults.check_stop,
        may_fail(module) | _callers(module, {*circular, *looking}),
        circular,
        taken_in(module) if inline else frozenset(),
        mark_of(module.name),
        looking,
        callers=callers,
        stack=stack,
        unlikely=f", !prof {weights}",
    )
    for function in module.functions.values():
        if function.is_elsewhere:
            _declare(writer, function)
        else:
            _function(native, function)
            if function.linkage is Linkage.EXPORTED:
                _entry(native, function)
    return writer, native.points


def may_fail(module: HirModule) -> frozenset[str]:
    """Functions that may fail, by themselves or by what they call, which counts for all that is imported; and those that catch failures."""
    failing = {name for name, f in module.functions.items() if any(_fails(op) for top in f.body.body for op in top.walk())}
    return _callers(module, failing | {name for name, f in module.functions.items() if f.linkage is Linkage.IMPORTED})


def _callers(module: HirModule, names: Iterable[str]) -> frozenset[str]:
    """These functions and those that call them, by however many steps."""
    callers = set(names)
    calls = {
        name: {op.function for top in f.body.body for op in top.walk() if isinstance(op, Call)} for name, f in module.functions.items()
    }
    while more := {name for name, called in calls.items() if name not in callers and called & callers}:
        callers |= more
    return frozenset(callers)


def _fails(op: Instruction) -> bool:
    return isinstance(op, Attempt) or (bool(op.effects & Effect.FAULT) and getattr(op, "site", 0) >= 0)


# ---- functions ---------------------------------------------------------------------------------------------------


def _function(module: NativeModule, function: HirFunction) -> None:
    fails = function.name in module.may_fail
    parameters: list[tuple[LlvmType, str]] = [(PTR, "record")] if fails else []
    parameters += [(_parameter_type(p.type), f"p{number}") for number, p in enumerate(function.parameters)]
    types = [register_type(dtype) for dtype in _result_dtypes(function)]
    parameters += [(PTR, f"r{number}") for number in range(len(types))]
    w = module.writer.function(body_name(function), I1 if fails else None, parameters, "internal", _attributes(module, function))
    first = 1 if fails else 0
    last = len(parameters) - len(types)
    own, results = w.parameters[first:last], w.parameters[last:]
    frame = NativeFrame(
        function=function,
        w=w,
        flag=constant(I64, 0),
        finish=w.label("finish"),
        module=module,
        record=w.parameters[0] if fails else None,
        results=results,
        failed=w.label("failed"),
    )
    if fails:
        w.parameter_notes[0] = "noalias noundef"
    for number, (parameter, value) in enumerate(zip(function.parameters, own, strict=True)):
        if isinstance(parameter.type, Pointer):
            frame.pointers[parameter.name] = value
            w.parameter_notes[number + fails] = _pointer_notes(parameter.type, "noalias" in function.attributes)
        else:
            frame.values[parameter.name] = scalar_bundle(dtype_of(parameter), value)
    for number, type in enumerate(types):
        w.parameter_notes[last + number] = f"noalias noundef nonnull align {type.bytes} dereferenceable({type.bytes})"
    frame.turned = frozenset(
        id(op.body)
        for top in function.body.body
        for op in top.walk()
        if isinstance(op, For | While) and id(op) in module.polled.get(function.name, ())
    )
    frame.region(function.body)
    w.branch(frame.finish)
    w.start(frame.finish)
    w.ret(constant(I1, 0) if fails else None)
    if fails:
        w.start(frame.failed)
        w.ret(constant(I1, 1))


def _parameter_type(type: HirType) -> LlvmType:
    if isinstance(type, Pointer):
        return PTR
    assert isinstance(type, Tile) and not type.axes, f"a parameter of type {type}"
    return register_type(type.dtype)


def _pointer_notes(type: Pointer, noalias: bool) -> str:
    known = f"align {align_of(type.pointee)}"
    if in_memory(type.pointee) and size_of(type.pointee):
        known = f"nonnull {known} dereferenceable({size_of(type.pointee)})"
    return f"{'noalias ' if noalias else ''}noundef {known}"


def _attributes(module: NativeModule, function: HirFunction) -> str:
    """A function that comes back to itself keeps its calls: as the turns of a loop they would take no stack, and never end."""
    texts = _declared_attributes(function)
    if function.name in module.recursive:
        texts.append('"disable-tail-calls"="true"')
    if function.constraints is not None and function.constraints.inline_always:
        texts.append("alwaysinline")
    return " ".join(texts)


def _declared_attributes(function: HirFunction) -> list[str]:
    return [OUR_ATTRIBUTES[name] for name in function.attributes if name in OUR_ATTRIBUTES]


def _result_dtypes(function: HirFunction) -> list[str]:
    return [type.dtype for type in function.results if isinstance(type, Tile)]


def _declare(writer: ModuleWriter, function: HirFunction) -> None:
    """A function of another module by its entry, or one of C: at most one result, a number."""
    if function.linkage is Linkage.IMPORTED:
        types = ", ".join(["ptr noalias", *map(str, _entry_types(function)), "ptr noalias"])
        writer.declare(entry_name(function), f"i64 ({types}) nounwind {' '.join(_declared_attributes(function))}")
        return
    assert len(function.results) < 2, f"@{function.name} is external and gives {len(function.results)} values"
    result = str(register_type(_result_dtypes(function)[0])) if function.results else "void"
    types = ", ".join(str(_parameter_type(p.type)) for p in function.parameters)
    writer.declare(function.link_name or plain(function.name), f"{result} ({types})")


def results_struct(function: HirFunction) -> Struct:
    """The struct that an entry writes its results to."""
    return Struct("results", tuple((f"r{number}", type) for number, type in enumerate(function.results)))


def entry_name(function: HirFunction) -> str:
    return function.link_name or plain(function.name)


def _entry(module: NativeModule, function: HirFunction) -> None:
    fails = function.name in module.may_fail
    parameters: list[tuple[LlvmType, str]] = [(PTR, "record")]
    parameters += [(type, f"p{number}") for number, type in enumerate(_entry_types(function))]
    parameters.append((PTR, "results"))
    critical = function.constraints is not None and function.constraints.critical_path
    w = module.writer.function(entry_name(function), I64, parameters, "", "align 64" if critical else "")
    record, *own, results = w.parameters
    for number, p in enumerate(function.parameters):
        if isinstance(p.type, Pointer):
            w.parameter_notes[number + 1] = _pointer_notes(p.type, "noalias" in function.attributes)
    w.parameter_notes[0] = w.parameter_notes[len(own) + 1] = "noalias"
    arguments = [record] if fails else []
    for p, value in zip(function.parameters, own, strict=True):
        narrow = isinstance(p.type, Tile) and not is_float(p.type.dtype)
        arguments.append(arithmetic.cast(w, value, "i64", dtype_of(p)) if narrow else value)
    if module.recursive:
        faults.mark_stack(w, record, module.stack)
    failed, values = _called(w, module, function, arguments)
    struct = results_struct(function)
    good, after = w.label("good"), w.label("after")
    if fails:
        w.branch_if(failed, after, good, module.unlikely)
        w.start(good)
    for (name, _), dtype, cell in zip(struct.fields, _result_dtypes(function), values, strict=True):
        value = arithmetic.to_memory(w, w.load(register_type(dtype), cell), dtype)
        w.store(value, w.offset(results, constant(I64, offset_of(struct, name)), I8), 1)
    w.start(after)
    w.ret(w.convert("zext", failed, "i64"))


def _entry_types(function: HirFunction) -> list[LlvmType]:
    """Of the parameters, as entries take them."""
    types: list[LlvmType] = []
    for p in function.parameters:
        assert not (isinstance(p.type, Tile) and is_wide(p.type.dtype)), "128 bits come by address"
        whole = isinstance(p.type, Tile) and not is_float(p.type.dtype)
        types.append(I64 if whole else _parameter_type(p.type))
    return types


def _called_by_entry(frame: NativeFrame, function: HirFunction, arguments: list[LlvmValue]) -> tuple[LlvmValue, list[LlvmValue]]:
    """A call of an imported function: whether it failed, and where its results are, as memory holds them, if it didn't."""
    w, struct = frame.w, results_struct(function)
    assert frame.record is not None
    passed = [frame.record]
    for p, value, type in zip(function.parameters, arguments, _entry_types(function), strict=True):
        passed.append(arithmetic.cast(w, value, dtype_of(p), "i64") if type is I64 else value)
    cell = w.alloca(I8, max(1, size_of(struct)), align_of(struct))
    answer = w.value(I64, f"call i64 @{entry_name(function)}({', '.join(map(str, [*passed, cell]))})")
    cells = [w.offset(cell, constant(I64, offset_of(struct, name)), I8) for name, _ in struct.fields]
    return w.compare("ne", answer, constant(I64, 0)), cells


def _called(
    w: FunctionWriter, module: NativeModule, function: HirFunction, arguments: list[LlvmValue]
) -> tuple[LlvmValue, list[LlvmValue]]:
    """A call of a function of ours: whether it failed, and the cells that have its results if it didn't."""
    cells = [w.alloca(register_type(dtype)) for dtype in _result_dtypes(function)]
    inside = ", ".join(map(str, [*arguments, *cells]))
    notes = " alwaysinline" if function.name in module.taken_in else ""
    if function.name in module.may_fail:
        return w.value(I1, f"call i1 @{body_name(function)}({inside}){notes}"), cells
    w.line(f"call void @{body_name(function)}({inside}){notes}")
    return constant(I1, 0), cells


# ---- instructions ------------------------------------------------------------------------------------------------


def emit(frame: NativeFrame, op: Instruction) -> None:
    """One instruction."""
    w = frame.w
    match op:
        case Local() | Member() | Element() | Read() | Write() | ReadBytes() | MatchBytes() | Copy() | Clear():
            pointers.emit_pointer(frame, op)
        case Allocate() | HeapMark() | Release() | Address() | AtAddress():
            heap.emit_heap(frame, op)
        case Cycles():
            frame.define(op, scalar_bundle("i64", w.value(I64, "call i64 @llvm.readcyclecounter()")))
        case Checked():
            frame.define(op, scalar_bundle(dtype_of(op.result), integers.checked(frame, op)))
        case Saturating():
            frame.define(op, scalar_bundle(dtype_of(op.result), integers.saturating(frame, op)))
        case Narrow():
            frame.define(op, scalar_bundle(op.to, integers.narrow(frame, op)))
        case Quotient():
            frame.define(op, scalar_bundle(dtype_of(op.result), wide.quotient(frame, op)))
        case Cast() if is_wide(dtype_of(op.value)) and is_float(op.to):
            value = frame.scalar(op.value.name)
            frame.define(op, scalar_bundle(op.to, wide.to_double(w, value, arithmetic.is_unsigned(dtype_of(op.value)))))
        case Check():
            bad = w.binary("xor", frame.scalar(op.condition.name), w.true())
            faults.stop_if(frame, bad, op.site, [(dtype_of(v), frame.scalar(v.name)) for v in op.values], op.code)
        case For():
            structured.counted_loop(frame, op, frame.affine(op.low), frame.affine(op.high))
        case Return():
            for given, cell in zip(op.values, frame.results, strict=True):
                w.store(frame.scalar(given.name), cell)
            w.branch(frame.finish)
        case Call():
            _call(frame, op)
        case _:
            emit_plain(frame, op)


def _call(frame: NativeFrame, op: Call) -> None:
    w, module = frame.w, frame.module
    target = module.hir.functions[op.function]
    arguments = [frame.pointers[v.name] if isinstance(v.type, Pointer) else frame.scalar(v.name) for v in op.arguments]
    dtypes = _result_dtypes(target)
    if target.linkage is Linkage.EXTERNAL:
        notes = " nobuiltin" if "nobuiltin" in target.attributes else ""
        call = f"@{entry_name(target)}({', '.join(map(str, arguments))}){notes}"
        if dtypes:
            type = register_type(dtypes[0])
            frame.define(op, scalar_bundle(dtypes[0], w.value(type, f"call {type} {call}")))
        else:
            w.line(f"call void {call}")
        return
    cells: list[LlvmValue]
    if target.linkage is Linkage.IMPORTED:
        failed, cells = _called_by_entry(frame, target, arguments)
    else:
        if target.name in module.may_fail:
            assert frame.record is not None
            arguments = [frame.record, *arguments]
        if target.name in module.recursive and not isinstance(op, Attempt):
            faults.check_stack(frame, op.span)
        failed, cells = _called(w, module, target, arguments)
    if isinstance(op, Attempt):
        frame.define(op, scalar_bundle("i1", failed))
        return
    if target.name in module.may_fail:
        good = w.label("good")
        if module.callers is None:
            w.branch_if(failed, frame.failed, good, module.unlikely)
        else:
            caller = w.label("caller")
            w.branch_if(failed, caller, good, module.unlikely)
            w.start(caller)
            faults.note_caller(frame, op.span)
        w.start(good)
    if target.linkage is Linkage.IMPORTED:
        held = [w.load(memory_type(dtype), cell, align_of(Tile(dtype))) for dtype, cell in zip(dtypes, cells, strict=True)]
        values = [arithmetic.from_memory(w, value, dtype) for dtype, value in zip(dtypes, held, strict=True)]
    else:
        values = [w.load(register_type(dtype), cell) for dtype, cell in zip(dtypes, cells, strict=True)]
    frame.define(op, *[scalar_bundle(dtype, value) for dtype, value in zip(dtypes, values, strict=True)])
