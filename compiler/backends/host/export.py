"""`zyntax export`: functions of a program as a shared library, or an object, with a header of C's."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compiler.backends.host.exported_code import exported_object
from compiler.backends.host.exported_header import ExportedFunction, header, is_name, refused, require_types
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
from runtime.records import frozen

LINKERS = ("cc", "gcc", "clang")
"""What makes a shared library of an object, whichever is there first."""
EXPLAINED = "`zyntax explain PROGRAM` lists which functions are native"


@frozen
class ExportedProgram:
    """The object file, and the text of the header."""

    object: bytes
    header: str


def exported(checker: Checker, program: nodes.Program, sources: Sources, names: Sequence[str]) -> ExportedProgram:
    """Functions of a program by name (`f`, `Point::norm`), for C. `program` is typed, without errors. Raises ZyntaxError."""
    found = effects(checker, program, has_native_code)
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        _require(found, name)
    made = lowered(checker, found, wanted)
    for name in wanted:
        _require(found, name)
        require_types(found.functions[name], made.layouts)
    functions = [ExportedFunction(_c_name(found.functions[name]), made.symbols[name], found.functions[name]) for name in wanted]
    taken: set[str] = set()
    for function in functions:
        for symbol in (function.name, f"{function.name}_error"):
            if symbol in taken:
                message = f"two exported functions are called `{symbol}` in C"
                raise refused(message, function.own.function.span, "export them to a library each")
            taken.add(symbol)
    title = ", ".join(f"`{name}`" for name in wanted) + f" of {Path(program.path).name}"
    return ExportedProgram(exported_object(made.module, functions, made.layouts, sources), header(title, functions, made.layouts))


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


def write_exported(made: ExportedProgram, output: Path, heading: Path) -> None:
    """Writes the library, or the object where the output's name ends with `.o`, and the header. Raises ZyntaxError."""
    if output.suffix == ".o":
        _write(output, made.object)
    else:
        _link(made.object, output)
    _write(heading, made.header.encode())


def _link(code: bytes, output: Path) -> None:
    linker = next((path for name in LINKERS if (path := shutil.which(name))), None)
    if linker is None:
        message = f"no C compiler is here to link a library: none of {', '.join(LINKERS)} is on PATH"
        raise ZyntaxError(Diagnostic("0505", message, hint="install one, or write the object alone: `-o NAME.o`"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.o"
        file.write_bytes(code)
        words = [linker, "-shared", "-o", str(output.absolute()), str(file), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ZyntaxError(Diagnostic("0807", f"`{output}` can't be written: {said[0] if said else 'the linker failed'}"))


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ZyntaxError(Diagnostic("0807", f"`{path}` can't be written: {(error.strerror or str(error)).lower()}")) from None
