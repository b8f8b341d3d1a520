"""Host functions compiled for this machine: `compile_module(module)["f"].run(arguments)`.

What the final code calls is known: `calls` lists the names of all outside functions, and `compile_module` refuses those not allowed."""

import re
import time
from collections.abc import Iterable, Sequence
from functools import cached_property

from compiler.backends.native.emit import emit_module, entry_name, results_struct
from compiler.backends.native.facts import ModuleFacts, NativeEntry, NativeParameter
from compiler.backends.native.frame import STACK, body_name
from compiler.backends.native.heap import CALLS, has_heap
from compiler.backends.native.link import HostFunction, Linked, RunOutcome, link_modules
from compiler.backends.native.record import FaultPoint
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.layout import align_of, in_memory, offset_of, size_of
from compiler.hir.module import HirFunction, HirModule, Linkage, OptimizationLevel
from compiler.hir.types import HirType, Pointer, Tile
from compiler.source import Span
from runtime.cpu import detect, load

MEMORY_CALLS = frozenset({"memcpy", "memmove", "memset", "bzero"})
"""What LLVM may make of copies, loops that copy, and clearing; they neither allocate nor enter the kernel."""

MATHS = frozenset(
    f"{name}{suffix}"
    for name in (
        *("exp", "exp2", "log", "log2", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "fmod"),
        *("atan2", "cbrt", "floor", "ceil", "rint", "trunc", "roundeven", "sqrt", "fma"),
    )
    for suffix in ("", "f")
)
"""Functions of C's <math.h> that only compute."""

ALLOWED = MEMORY_CALLS | MATHS

__all__ = ["ALLOWED", "HostFunction", "HostModule", "Linked", "RunOutcome", "compile_module", "link_modules", "outside_calls"]


class HostModule:
    """The compiled functions of a module by name. Texts and code are made when first asked for."""

    def __init__(
        self, module: HirModule, compiled: load.CompiledModule, points: Sequence[FaultPoint], callers: Sequence[Span | None] = ()
    ) -> None:
        self.module, self.points, self.callers = module, tuple(points), tuple(callers)
        self._compiled = compiled

    @property
    def llvm_unoptimised(self) -> str:
        """The IR as emitted."""
        return self._compiled.text

    @property
    def llvm(self) -> str:
        """The IR after optimisation."""
        return self._compiled.optimised

    @property
    def asm(self) -> str:
        return self._compiled.assembly

    @cached_property
    def object(self) -> bytes:
        self._require_allowed()
        return self._compiled.object

    def _require_allowed(self) -> None:
        """Critical paths call no outside function but those that only compute, whatever else the module may call. That they don't was
        proved before; here the final code is looked through once more."""
        functions = self.module.functions.values()
        outside = {entry_name(f) for f in functions if f.linkage is Linkage.EXTERNAL and "effects.none" not in f.attributes}
        critical = [f for f in functions if f.constraints is not None and f.constraints.critical_path]
        if outside and critical:
            symbols = [symbol for f in critical for symbol in (entry_name(f), body_name(f))]
            if strange := reached_calls(self.llvm, symbols) & outside:
                names = ", ".join(f"@{f.name}" for f in critical)
                raise ZyntaxError(Diagnostic("0901", f"the code of {names} calls {', '.join(sorted(strange))}"))

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each stage so far: emit, parse, optimise, generate, link."""
        return self._compiled.timings

    @property
    def calls(self) -> frozenset[str]:
        """Outside functions that the final IR calls; intrinsics that stay instructions aren't among them."""
        return outside_calls(self.llvm) - {entry_name(f) for f in self.module.functions.values() if f.linkage is Linkage.IMPORTED}

    @cached_property
    def facts(self) -> ModuleFacts:
        """What is to be known besides the code."""
        functions = self.module.functions.values()
        exports, imports = ({f.name: entry_of(f) for f in functions if f.linkage is kind} for kind in (Linkage.EXPORTED, Linkage.IMPORTED))
        declared = frozenset(entry_name(f) for f in functions if f.linkage is Linkage.EXTERNAL)
        sites = {f.name: f.sites for f in functions if f.sites}
        heap = CALLS if has_heap(self.module) else frozenset()
        return ModuleFacts(self.module.name, exports, imports, ALLOWED | heap | declared, self.points, sites, declared, self.callers)

    @cached_property
    def linked(self) -> Linked:
        """The module in this process, by itself."""
        return link_modules([self])

    def __getitem__(self, name: str) -> HostFunction:
        return self.linked[name]


def entry_of(function: HirFunction) -> NativeEntry:
    """A function as seen from outside its module."""
    struct = results_struct(function)
    parameters = tuple(_parameter(p.name, p.type) for p in function.parameters)
    results = tuple((t.dtype, offset_of(struct, name)) for name, t in struct.fields if isinstance(t, Tile))
    return NativeEntry(function.name, entry_name(function), parameters, results, size_of(struct))


def _parameter(name: str, type: HirType) -> NativeParameter:
    if isinstance(type, Pointer):
        return NativeParameter(name, "ptr", size_of(type.pointee) if in_memory(type.pointee) else 0, align_of(type.pointee))
    assert isinstance(type, Tile)
    return NativeParameter(name, type.dtype)


def compile_module(
    module: HirModule,
    level: OptimizationLevel = OptimizationLevel.OLATENCY,
    allowed: frozenset[str] | None = None,
    tells_callers: bool = False,
    stack: int = STACK,
    target: load.CodeTarget | None = None,
) -> HostModule:
    """Compile for a machine; None: this one. `allowed`: the outside functions that the code may call; None: no check. A call of another
    is an internal fault, for what the program may call was proved before (`analysis/effects.py`). `tells_callers`: records tell the places
    of calls on the way to a failure, and are longer; `stack`: bytes that functions which call themselves may take."""
    started = time.perf_counter()
    target = target or load.target(None, None, None, 0 if level is OptimizationLevel.O0 else 3)
    inline = level not in (OptimizationLevel.O0, OptimizationLevel.OS)
    callers: list[Span | None] | None = [] if tells_callers else None
    writer, points = emit_module(module, attributes(target, level), inline, callers, stack)
    compiled = load.CompiledModule(writer.text(), target, level.value, {"emit": time.perf_counter() - started})
    host_module = HostModule(module, compiled, points, callers or ())
    if allowed is not None and (strange := host_module.calls - allowed):
        raise ZyntaxError(Diagnostic("0901", f"the code of {module.name} calls {', '.join(sorted(strange))}"))
    return host_module


def attributes(target: load.CodeTarget, level: OptimizationLevel) -> tuple[str, ...]:
    texts = [f"target-cpu={target.cpu}", f"target-features={target.features}"]
    width = detect.vector_bits(target.features)
    if width:
        texts.append(f"prefer-vector-width={min(width, 256) if level is OptimizationLevel.OLATENCY else width}")
    if level is OptimizationLevel.OS:
        texts.append("optsize")
    return tuple(texts)


_CALL = re.compile(r"\bcall\b[^@\n]*@([\w.$]+)\(")
_DEFINED = re.compile(r"^define [^@\n]*@([\w.$]+)\(", re.MULTILINE)
_BODY = re.compile(r"^define [^@\n]*@([\w.$]+)\(.*?^\}", re.MULTILINE | re.DOTALL)
_INTRINSIC = {"llvm.memcpy": "memcpy", "llvm.memmove": "memmove", "llvm.memset": "memset"}


def outside_calls(ir: str) -> frozenset[str]:
    """Names that IR calls and doesn't define. Intrinsics that may become calls of the C library are given by its names."""
    defined = set(_DEFINED.findall(ir))
    names: set[str] = set()
    for name in _CALL.findall(ir):
        if not name.startswith("llvm."):
            names.add(name)
        elif ".".join(name.split(".")[:2]) in _INTRINSIC:
            names.add(_INTRINSIC[".".join(name.split(".")[:2])])
    return frozenset(names - defined)


def reached_calls(ir: str, names: Iterable[str]) -> frozenset[str]:
    """Names that these functions of a module call in its IR, or those that they call."""
    bodies = {match[1]: match[0] for match in _BODY.finditer(ir)}
    reached: set[str] = set()
    waiting = [name for name in names if name in bodies]
    while waiting:
        more = set(_CALL.findall(bodies[waiting.pop()])) - reached
        reached |= more
        waiting += [name for name in more if name in bodies]
    return frozenset(reached)
