"""Atomic changes of memory, as assembly: LLVM's own `atomicrmw` loses order and scope on this target. What the hardware doesn't
have is made of compare-and-swap, in a loop."""

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.arithmetic import from_memory, to_memory
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import LlvmType, memory_type, register_type, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import element_address, mask_of
from compiler.backends.nvptx.frame import NvptxFrame, memory_kind
from compiler.hir.gpu import Atomic
from compiler.hir.memory import mem_of
from compiler.hir.types import is_float
from compiler.machines.gpu import Feature

_SCOPES = {"block": "cta", "device": "gpu", "system": "sys"}
_INTEGER = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64", "index": "s64"}
_KEEPS_WITH_ZERO = {"add", "sub", "or", "xor"}
"""With 0 these change nothing: they are a read that sees what other threads have done, and cheaper as one."""
_WITHOUT_ANSWER = ("relaxed", "release")
"""Orders in which memory can be changed without a word of what was there."""
_BITS = {"and", "or", "xor", "exchange"}


def atomic(frame: NvptxFrame, op: Atomic) -> None:
    w, dtype = frame.w, mem_of(op.mem).dtype
    if memory_type(dtype).bits < 16:
        raise frame.lacks(f"atomics on {dtype}", "use 32-bit elements")
    if op.order == "seq_cst":
        # one order of all such operations: a fence of that kind before an operation that isn't moved
        w.assembly(f"fence.sc.{_SCOPES[op.scope]};", [], "", [])
    mask = mask_of(frame, op.index, {})
    if mask is None:
        frame.define(op, scalar_bundle(dtype, _change(frame, op, dtype)))
        return
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(mask, inside, after)
    w.start(inside)
    old = _change(frame, op, dtype)
    end = w.block
    w.start(after)
    frame.define(op, scalar_bundle(dtype, w.phi(old.type, [(old, end), (constant(old.type, 0), before)])))


def _prefix(op: Atomic) -> str:
    order = "acq_rel" if op.order == "seq_cst" else op.order
    return f"atom.{order}.{_SCOPES[op.scope]}.{memory_kind(mem_of(op.mem))}"


def _native(frame: NvptxFrame, operation: str, dtype: str) -> str | None:
    """The instruction's operation and type, None where there is none."""
    bits = memory_type(dtype).bits
    if operation == "exchange":
        return f"exch.b{bits}" if bits >= 32 else None
    if is_float(dtype):
        if operation != "add":
            return None
        if dtype == "f16":
            return "add.noftz.f16"
        if dtype == "bf16":
            return "add.noftz.bf16" if frame.has(Feature.BFLOAT_ATOMICS) else None
        return f"add.{dtype}" if dtype in ("f32", "f64") else None
    if bits < 32:
        return None
    match operation:
        case "add":
            return f"add.{'s32' if dtype == 'i32' else f'u{bits}'}"
        case "min" | "max":
            return f"{operation}.{_INTEGER[dtype]}"
        case "and" | "or" | "xor":
            return f"{operation}.b{bits}"
        case "inc" | "dec":
            return f"{operation}.u32"
        case _:
            return None


def _change(frame: NvptxFrame, op: Atomic, dtype: str) -> LlvmValue:
    w = frame.w
    address = element_address(frame, op.mem, op.index)
    value, operation = frame.values[op.value.name].scalar, op.operation
    if operation == "sub":
        value, operation = arithmetic.unary(w, "neg", dtype, value), "add"
    register = memory_type(dtype)
    if operation in _KEEPS_WITH_ZERO and value.number == 0 and not is_float(dtype) and op.order in ("relaxed", "acquire"):
        kind = {32: "r", 64: "l"}.get(register.bits)
        if kind is not None:
            text = f"ld.{op.order}.{_SCOPES[op.scope]}.{memory_kind(mem_of(op.mem))}.b{register.bits} $0, [$1];"
            return from_memory(w, w.assembly(text, [register], "l", [address])[0], dtype)
    native = _native(frame, operation, dtype)
    if native is not None:
        kind = {16: "h", 32: "r", 64: "l"}[register.bits] if not register.is_float else {32: "f", 64: "d"}[register.bits]
        held = to_memory(w, value, dtype)
        if operation == "exchange" and register.is_float:
            kind, held, register = ("r" if register.bits == 32 else "l"), w.convert("bitcast", held, f"i{register.bits}"), _word(dtype)
        if operation != "exchange" and op.order in _WITHOUT_ANSWER and memory_kind(mem_of(op.mem)) == "global" and not _is_read(frame, op):
            w.assembly(f"red{_prefix(op).removeprefix('atom')}.{native} [$0], $1;", [], f"l,{kind}", [address, held])
            return constant(register_type(dtype), 0)
        (old,) = w.assembly(f"{_prefix(op)}.{native} $0, [$1], $2;", [register], f"l,{kind}", [address, held])
        return from_memory(w, _from_word(frame, old, dtype), dtype)
    if operation == "cas" and not is_float(dtype):
        assert op.compare is not None
        return _swap(frame, op, address, frame.values[op.compare.name].scalar, value)
    return _loop(frame, op, address, operation, value, dtype)


def _is_read(frame: NvptxFrame, op: Atomic) -> bool:
    """Whether something wants what the element held before: else nobody waits for the memory's answer."""
    every = (inner for top in frame.function.body.body for inner in top.walk())
    return any(op.result in inner.operand_values or op.result.name in inner.symbols for inner in every)


def _word(dtype: str) -> LlvmType:
    return vector(f"i{memory_type(dtype).bits}")


def _from_word(frame: NvptxFrame, word: LlvmValue, dtype: str) -> LlvmValue:
    element = memory_type(dtype).element
    return frame.w.convert("bitcast", word, element) if word.type.element != element else word


def _swap(frame: NvptxFrame, op: Atomic, address: LlvmValue, expected: LlvmValue, value: LlvmValue) -> LlvmValue:
    bits = expected.type.bits
    kind = {16: "h", 32: "r", 64: "l"}[bits]
    text = f"{_prefix(op)}.cas.b{bits} $0, [$1], $2, $3;"
    return frame.w.assembly(text, [expected.type], f"l,{kind},{kind}", [address, expected, value])[0]


def _loop(frame: NvptxFrame, op: Atomic, address: LlvmValue, operation: str, value: LlvmValue, dtype: str) -> LlvmValue:
    """Compute the new value from what was there, and swap; again where another thread came between."""
    w = frame.w
    word = vector(f"i{memory_type(dtype).bits}")
    start = w.value(word, f"load volatile {word}, {address}, align {word.bytes}")
    attempt, done = w.label("attempt"), w.label("done")
    w.start(w.label("swap"))
    before = w.block
    w.start(attempt)
    got = w.label("got")
    expected = w.phi(word, [(start, before), (f"%{got}.word", got)])
    old = from_memory(w, _from_word(frame, expected, dtype), dtype)
    if operation == "cas":
        assert op.compare is not None
        same = arithmetic.compare(w, "eq", dtype, old, frame.values[op.compare.name].scalar)
        new = w.select(same, value, old)
    elif operation == "exchange":
        new = value
    else:
        new = arithmetic.binary(w, operation, dtype, old, value)
    bits = to_memory(w, new, dtype)
    seen = _swap(frame, op, address, expected, w.convert("bitcast", bits, word.element) if bits.type.is_float else bits)
    w.start(got)
    w.line(f"%{got}.word = freeze {seen}")
    w.branch_if(w.compare("eq", seen, expected), done, attempt)
    w.start(done)
    assert register_type(dtype) == old.type
    return old
