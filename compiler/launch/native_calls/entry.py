"""The code that Python calls first, the same for all functions: it jumps to the code of the function's plans, or, where there is none, goes
the way through the program. It stays for as long as the process does: a function that the garbage collector has emptied can be called."""

from collections.abc import Mapping

from compiler.backends.llvm.types import I8, I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.launch.native_calls.kept import EMPTIED
from runtime.calls.answering import FIRST, SLOWLY
from runtime.calls.vectorcall import ENTRY, KEPT, SLOW


def entry_module(offsets: Mapping[str, int], attributes: tuple[str, ...]) -> ModuleWriter:
    """`offsets`: where the fields of a function lie."""
    module = ModuleWriter("calls", attributes)
    module.globals.append(f"@{EMPTIED} = external global i8")
    module.globals.append('@emptied = private constant [28 x i8] c"the function is gone by now\\00"')
    _first(module, offsets)
    _slowly(module, offsets)
    return module


def _function(module: ModuleWriter, name: str) -> FunctionWriter:
    return module.function(name, PTR, [(PTR, "self"), (PTR, "args"), (I64, "count"), (PTR, "keywords")])


def _field(w: FunctionWriter, offset: int) -> LlvmValue:
    return w.load(PTR, w.offset(w.parameters[0], constant(I64, offset), I8))


def _first(module: ModuleWriter, offsets: Mapping[str, int]) -> None:
    w = _function(module, FIRST)
    parameters = ", ".join(map(str, w.parameters))
    with w.when(w.compare("ne", _field(w, offsets[KEPT]), LlvmValue(PTR, "null"))):
        w.ret(w.value(PTR, f"tail call ptr {_field(w, offsets[ENTRY]).text}({parameters})"))
    w.ret(w.value(PTR, f"tail call ptr @{SLOWLY}({parameters})"))


def _slowly(module: ModuleWriter, offsets: Mapping[str, int]) -> None:
    w = _function(module, SLOWLY)
    _, given, count, keywords = w.parameters
    slow = _field(w, offsets[SLOW])
    with w.when(w.compare("eq", slow, LlvmValue(PTR, "null"))):
        module.declare("PyErr_SetString", "void (ptr, ptr)")
        w.call_void("PyErr_SetString", LlvmValue(PTR, f"@{EMPTIED}"), LlvmValue(PTR, "@emptied"))
        w.ret(LlvmValue(PTR, "null"))
    for name in ("Py_IncRef", "Py_DecRef"):
        module.declare(name, "void (ptr)")
    module.declare("PyObject_Vectorcall", "ptr (ptr, ptr, i64, ptr)")
    w.call_void("Py_IncRef", slow)
    value = w.call("PyObject_Vectorcall", PTR, slow, given, count, keywords)
    w.call_void("Py_DecRef", slow)
    w.ret(value)
