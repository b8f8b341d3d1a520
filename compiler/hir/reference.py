"""The instructions as a page, made from their declarations: `python -m compiler.hir.reference docs/hir-instructions.md` writes it, a
test checks that it is up to date. What the forms mean is told in docs/hir.md."""

import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

from compiler.hir.control import Attempt, Call, For, If, While
from compiler.hir.instruction import Effect, Instruction, InstructionFamily, Role
from compiler.hir.instructions import INSTRUCTIONS
from compiler.hir.syntax import NamedField, syntax_of

FAMILIES: dict[InstructionFamily, tuple[str, str]] = {
    InstructionFamily.PLAIN: (
        "Plain arithmetic",
        "One number at a time; of tiles, element by element, along the union of the operands' axes.",
    ),
    InstructionFamily.MONOID: ("Reductions", "Whole axes combined."),
    InstructionFamily.AXIS: ("Axes and layout", "The same numbers, arranged otherwise."),
    InstructionFamily.MEMORY: ("Memory", "Loads, stores, mutable cells, scratch, and the checks before them."),
    InstructionFamily.CONTROL: ("Control flow", "Structured: regions, and values that loops carry."),
    InstructionFamily.LIBRARY: ("Library", "What has no loop nest."),
    InstructionFamily.HOST: ("Host functions", "Memory by address, and ints that stop at what they can't hold. Not in kernels."),
    InstructionFamily.INDEX: ("Where a thread stands", "Thread form."),
    InstructionFamily.SYNC: ("Order between threads", "Thread form."),
    InstructionFamily.SHARED: ("Shared memory", "Thread form."),
    InstructionFamily.ATOMIC: ("Atomics", "Thread form."),
    InstructionFamily.WARP: ("Warps", "Thread form: 32 lanes in step."),
    InstructionFamily.TENSOR_CORE: ("Tensor cores", "Thread form, of GPUs only."),
    InstructionFamily.ASYNC: ("Asynchronous copies", "Thread form, of GPUs only."),
    InstructionFamily.HOPPER: ("Hopper", "Thread form, of GPUs only: barriers in shared memory, bulk copies, wgmma."),
    InstructionFamily.RING: ("Rings", "Role form: bounded queues between those that copy and those that compute."),
}

EFFECTS = {
    Effect.READ: "reads memory",
    Effect.WRITE: "writes memory",
    Effect.SYNC: "orders threads",
    Effect.CONTROL: "control flow",
    Effect.FAULT: "may stop the kernel",
}

HEAD = """# HIR instructions

Every instruction that there is, made from the declarations in `compiler/hir` by
`python -m compiler.hir.reference docs/hir-instructions.md`. [hir.md](hir.md) tells what modules, types and forms are.

The line under a name is its text form: `%x` is a value, `[...]` are affine indices, `name=` an attribute, and what stands in
parentheses may be left out. An instruction without a note on effects only computes its results.
"""


def markdown() -> str:
    """The whole page."""
    classes: dict[type[Instruction], None] = dict.fromkeys(INSTRUCTIONS.values())
    out = [HEAD]
    for family, (title, note) in FAMILIES.items():
        members = [cls for cls in classes if cls.family is family]
        if members:
            out += [f"## {title}", "", note, ""]
            for cls in members:
                out += _entry(cls)
    return "\n".join(out).rstrip("\n") + "\n"


def _entry(cls: type[Instruction]) -> Iterator[str]:
    names = list(cls.operators) or [cls.mnemonic]
    yield f"### {', '.join(f'`{name}`' for name in names)}"
    yield ""
    if cls not in (Call, Attempt, For, If, While):  # whose text form is their own; the docstring shows it
        yield f"    {form(cls)}"
        yield ""
    text = " ".join((cls.__doc__ or "").split())
    effects = [words for effect, words in EFFECTS.items() if effect in cls.effects]
    yield text + (f" *({', '.join(effects)})*" if effects else "")
    yield ""
    if len(set(cls.operators.values())) > 1:
        yield "| operator | meaning |"
        yield "| --- | --- |"
        yield from (f"| `{name}` | {_cell(meaning)} |" for name, meaning in cls.operators.items())
        yield ""


def form(cls: type[Instruction]) -> str:
    """The text form in general: `reduce monoid %values... over=names`."""
    syntax = syntax_of(cls)
    parts = ["OPERATOR" if syntax.tabled else cls.mnemonic]
    parts += [word.name.rstrip("_") for word in syntax.words]
    operands = []
    for operand in syntax.operands:
        shown = f"%{operand.name.rstrip('_')}" + ("..." if operand.role is Role.OPERANDS else "") + ("[...]" if operand.index else "")
        operands.append(f"({shown})" if operand.role is Role.OPTIONAL else shown)
    parts += [", ".join(operands)] if operands else []
    parts += [f"({keyword}=%{keyword})" for keyword in syntax.keywords]
    parts += [_named(named) for named in syntax.named]
    parts += ["(flags...)"] if syntax.flags is not None else []
    parts += [f": {syntax.typed}"] if syntax.typed else []
    return " ".join(parts)


def _named(named: NamedField) -> str:
    text = f"{named.name}={named.kind}"
    return text if named.default is attrs.NOTHING else f"({text})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
