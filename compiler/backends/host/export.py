"""`zyntax export`: functions of a program as a shared library, or an object, with a header of C's."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.backends.host.exported_code import exported_code
from compiler.backends.host.exported_header import ExportedFunction, ExportedKernel, header, is_name, refused, require_types
from compiler.backends.host.native_code import lowered
from compiler.backends.native.compile import ALLOWED
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_effects import FunctionEffects, ProgramEffects
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.suggest import nearest
from runtime.cpu import load
from runtime.records import frozen

LINKERS = ("cc", "gcc", "clang")
"""What makes a shared library of an object, whichever is there first; for another architecture its cross compilers."""
EXPLAINED = "`zyntax explain PROGRAM` lists which functions are native"


@frozen
class ExportedProgram:
    """The object file, the text of the header, the architecture of the code, and the libraries that it needs besides C's."""

    object: bytes
    header: str
    triple: str
    libraries: tuple[str, ...] = ()


KernelOf = Callable[[FunctionEffects, str], ExportedKernel | None]
"""The kernel of a function, by the name that C gives to it, where it is one compute block. Raises ZyntaxError."""


def exported(
    checker: Checker, program: nodes.Program, sources: Sources, names: Sequence[str], target: load.CodeTarget, kernel_of: KernelOf
) -> ExportedProgram:
    """Functions of a program by name (`f`, `Point::norm`), for C. `program` is typed, without errors. Raises ZyntaxError."""
    found = effects(checker, program, has_native_code)
    wanted = list(dict.fromkeys(names))
    kernels: dict[str, ExportedKernel] = {}
    for name in wanted:
        own = found.functions.get(name)
        kernel = None if own is None else kernel_of(own, _c_name(own))
        if kernel is None:
            _require(found, name)
        else:
            kernels[name] = kernel
    native = [name for name in wanted if name not in kernels]
    made = lowered(checker, found, native)
    for name in native:
        _require(found, name)
        require_types(found.functions[name], made.layouts)
    functions = {name: ExportedFunction(_c_name(found.functions[name]), made.symbols[name], found.functions[name]) for name in native}
    both: dict[str, ExportedFunction | ExportedKernel] = {**functions, **kernels}
    taken: set[str] = set()
    for function in (both[name] for name in wanted):
        for symbol in (function.name, f"{function.name}_error"):
            if symbol in taken:
                message = f"two exported functions are called `{symbol}` in C"
                raise refused(message, function.own.function.span, "export them to a library each")
            taken.add(symbol)
    title = ", ".join(f"`{name}`" for name in wanted) + f" of {Path(program.path).name}"
    modules = [exported_code(made.module, [*functions.values()], made.layouts, sources, target)] if functions else []
    modules += [module for kernel in kernels.values() for module in kernel.modules]
    internal = [symbol for kernel in kernels.values() for symbol in kernel.internal]
    code = load.link(modules, target, internal)
    return ExportedProgram(code, header(title, [both[name] for name in wanted], made.layouts), target.triple, _libraries(code))


def _libraries(code: bytes) -> tuple[str, ...]:
    return ("gomp",) if TEAM in load.needed(code) else ()


def _require(found: ProgramEffects, name: str) -> None:
    own = found.functions.get(name)
    if own is None:
        close = nearest(name, found.functions)
        hint = f"did you mean {', '.join(f'`{one}`' for one in close)}?" if close else EXPLAINED
        raise ZyntaxError(Diagnostic("0201", f"the program has no function `{name}` that could be exported", hint=hint))
    if changes_receiver(own.function):
        raise refused(f"`{name}` can't be exported: it changes what it is called on", own.function.span, "give back the changed value")
    if not own.is_static:
        reason = own.reasons[0]
        raise refused(f"`{name}` can't be exported: {reason.words}", reason.span, EXPLAINED)


def _c_name(own: FunctionEffects) -> str:
    name = own.name.replace("::", "_")
    if not is_name(name) or name in (*ALLOWED, "snprintf", "main"):
        raise refused(f"`{own.name}` can't be exported: C can't have a function of that name", own.function.span, "rename it")
    return name


TEAM = "GOMP_parallel"
"""What begins a team of threads."""


def write_exported(made: ExportedProgram, output: Path, heading: Path) -> None:
    """Writes the library, or the object where the output's name ends with `.o`, and the header. Raises ZyntaxError."""
    if output.suffix == ".o":
        _write(output, made.object)
    else:
        _link(made, output)
    _write(heading, made.header.encode())


def _linkers(triple: str) -> tuple[str, ...]:
    """What links code of an architecture."""
    architecture = triple.partition("-")[0]
    return LINKERS if load.is_of_this_architecture(triple) else (f"{architecture}-linux-gnu-gcc", f"{architecture}-linux-gnu-cc")


def _link(made: ExportedProgram, output: Path) -> None:
    linkers = _linkers(made.triple)
    linker = next((path for name in linkers if (path := shutil.which(name))), None)
    if linker is None:
        message = f"no C compiler is here to link a library: none of {', '.join(linkers)} is on PATH"
        raise ZyntaxError(Diagnostic("0505", message, hint="install one, or write the object alone: `-o NAME.o`"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.o"
        file.write_bytes(made.object)
        words = [linker, "-shared", "-o", str(output.absolute()), str(file), *(f"-l{name}" for name in made.libraries), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ZyntaxError(Diagnostic("0807", f"`{output}` can't be written: {said[0] if said else 'the linker failed'}"))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ZyntaxError(Diagnostic("0807", f"`{path}` can't be written: {(error.strerror or str(error)).lower()}")) from None
