"""What is known of a native function before it runs, and the code that it becomes: `zyntax explain PROGRAM:FUNCTION`."""

import re
from collections.abc import Iterator, Mapping, Sequence

from compiler.analysis.host_costs import obstacle, worst_case
from compiler.analysis.ranges import Ranges
from compiler.backends.native.compile import compile_module
from compiler.backends.native.emit import entry_name
from compiler.hir.control import Attempt, Call, For, While
from compiler.hir.module import HirFunction, HirModule, Linkage, OptimizationLevel
from compiler.hir.text import print_function
from compiler.passes.examine import GIGAHERTZ, Examination, Examined, lines_of, target_of
from compiler.source import Sources, Span
from compiler.typed_ast import nodes
from runtime.cpu import load

LINES = 12
"""Lines of a program whose estimates are shown."""

_VECTOR = re.compile(r"<(\d+) x (i8|i16|i32|i64|float|double)>")


def report_on(reported: Sequence[Examined], examination: Examination, module: HirModule, sources: Sources, level: OptimizationLevel) -> str:
    """All there is to say of some functions of a module that was examined."""
    for examined in reported:
        if examined.function.linkage is Linkage.INTERNAL and _has_entry(examined.function):
            examined.function.linkage = Linkage.EXPORTED  # so that its own code is there to be seen
    compiled = compile_module(module, level)
    texts = _functions_of(compiled.llvm), _labels_of(compiled.asm)
    return "\n".join(line for examined in reported for line in _report(examined, examination, module, sources, *texts))


def _has_entry(function: HirFunction) -> bool:
    return not any(str(p.type) in ("i128", "u128") for p in function.parameters)


def _report(
    examined: Examined,
    examination: Examination,
    module: HirModule,
    sources: Sources,
    ir: Mapping[str, str],
    assembly: Mapping[str, str],
) -> Iterator[str]:
    assert examined.code is not None
    symbol = entry_name(examined.function)
    yield f"{examined.code.title.strip('`')}    {_place(examined.code.name_span, sources)}    compiled as {examined.function.name}"
    if examined.code.declaration.annotations:
        yield f"annotations  {' '.join(_written(a, sources) for a in examined.code.declaration.annotations)}"
    yield from _calls(examined, examination, module)
    yield from _estimate(examined, module, sources, _frame(assembly.get(symbol)))
    yield from _checks(examined, sources)
    yield from _loops(examined.function, sources)
    own = ir.get(symbol, "")
    widths = sorted({(int(count), of) for count, of in _VECTOR.findall(own)})
    yield f"vectors      {', '.join(f'{count} x {of}' for count, of in widths) if widths else 'none'}"
    yield ""
    yield from ("HIR", shortened(print_function(examined.function)))
    yield from ("LLVM IR", own or "all of it stands in the functions that call it\n")
    yield from ("assembly", assembly.get(symbol, "all of it stands in the functions that call it\n"))


def _written(annotation: nodes.Annotation, sources: Sources) -> str:
    source = sources.get(annotation.span.path)
    return source.text[annotation.span.start : annotation.span.end] if source is not None else f"@{annotation.name}"


def _place(span: Span | None, sources: Sources) -> str:
    source = sources.get(span.path) if span is not None else None
    if span is None:
        return "made by the compiler"
    return span.path if source is None else f"{span.path}:{source.line_and_column(span.start)[0]}"


def shortened(text: str) -> str:
    """HIR with `struct<engine_state>` for each struct type, whose fields would fill pages."""
    parts: list[str] = []
    depth, start = 0, 0
    for match in re.finditer(r"struct<([^;<>]*);|<|>", text):
        if match[1] is not None:
            if depth == 0:
                parts.append(f"{text[start : match.start()]}struct<{match[1]}>")
            depth += 1
        elif depth:
            depth += 1 if match[0] == "<" else -1
            if depth == 0:
                start = match.end()
    return "".join(parts) + text[start:]


def _calls(examined: Examined, examination: Examination, module: HirModule) -> Iterator[str]:
    """Who calls whom, from here on, each function's own calls once."""
    yield "calls"
    seen: set[str] = set()

    def below(name: str, depth: int) -> Iterator[str]:
        called = dict.fromkeys(
            (op.function, isinstance(op, Attempt)) for top in module.functions[name].body.body for op in top.walk() if isinstance(op, Call)
        )
        for callee, caught in called:
            target, known = module.functions[callee], examination.functions.get(callee)
            title = known.code.title.strip("`") if known is not None and known.code is not None else callee
            of = {Linkage.IMPORTED: "  (the engine's)", Linkage.EXTERNAL: "  (outside)"}.get(target.linkage, "")
            again = "  (as above)" if callee in seen and not target.is_elsewhere else ""
            yield f"  {'  ' * depth}{title}{of}{'  (failures are caught)' if caught else ''}{again}"
            if callee not in seen and not target.is_elsewhere:
                seen.add(callee)
                yield from below(callee, depth + 1)

    yield from dict.fromkeys(below(examined.function.name, 0)) or ["  nothing"]


def _frame(assembly: str | None) -> int | None:
    """Bytes that a function's code takes of the stack, in what it begins with; None for other processors than x86-64."""
    if assembly is None or not load.target(None, None, None, 3).triple.startswith("x86_64"):
        return None
    moved = re.search(r"\bsubq\s+\$(\d+), %rsp", assembly)
    return 8 * len(re.findall(r"\bpushq\b", assembly)) + (int(moved[1]) if moved is not None else 0)


def _estimate(examined: Examined, module: HirModule, sources: Sources, frame: int | None) -> Iterator[str]:
    cost = examined.cost or worst_case(module, examined.function.name)
    if cost is None:
        why = examined.obstacle or obstacle(module, examined.function.name)
        assert why is not None
        yield f"estimate     none: {why.words}, {_place(why.span, sources)}"
        return
    nanoseconds = cost.cycles / GIGAHERTZ
    line = (
        f"estimate     {cost.instructions:,} instructions, {cost.cycles:,.0f} cycles, {nanoseconds:,.0f} ns at {GIGAHERTZ:g} GHz at worst"
    )
    target = target_of(examined.code) if examined.code is not None else None
    yield line + (f"; its target is {target[0]:,.0f} ns" if target is not None else "")
    if examined.stack is not None:
        yield f"stack        {examined.stack:,} bytes of variables" + (f", {frame:,} in the code's own frame" if frame is not None else "")
    for estimated in lines_of(cost, sources)[:LINES]:
        if estimated.cycles >= 0.5:
            source = sources.get(estimated.path)
            text = source.line(estimated.number).strip() if source is not None and estimated.number else ""
            where = f"{estimated.path}:{estimated.number}" if estimated.number else estimated.path
            yield f"  {estimated.cycles:8,.0f} cycles  {where}  {text}"


def _checks(examined: Examined, sources: Sources) -> Iterator[str]:
    remaining = [proof for proof in examined.checks if proof.kept]
    away = [proof for proof in examined.checks if not proof.kept]
    yield f"checks       {len(remaining)} kept, {len(away)} proved away, {len(examined.given_up)} given up by @unsafe_unchecked"
    for word, proofs in (("kept", remaining), ("proved", away), ("given up", examined.given_up)):
        for proof in proofs:
            meaning = _MEANINGS.get(proof.instruction, proof.instruction)
            yield f"  {word:8}  {_place(proof.span, sources)}  {meaning}  {_text(proof.span, sources)}"


_MEANINGS = {"checked": "fits", "check": "condition", "element": "index", "narrow": "cast", "quotient": "division"}


def _text(span: Span | None, sources: Sources) -> str:
    source = sources.get(span.path) if span is not None else None
    if source is None or span is None:
        return ""
    written = " ".join(source.text[span.start : span.end].split())
    return written if len(written) <= 60 else written[:57] + "..."


def _loops(function: HirFunction, sources: Sources) -> Iterator[str]:
    ranges = Ranges(function)
    for op in (op for top in function.body.body for op in top.walk()):
        if isinstance(op, For | While):
            turns = ranges.turns(op) if isinstance(op, For) else ranges.rounds(op)
            bound = "no bound" if turns is None else f"at most {turns} turn{'s' * (turns != 1)}"
            yield f"loop         {_place(op.span, sources)}  {bound}"


# ---- texts of LLVM -------------------------------------------------------------------------------------------------------


def _functions_of(ir: str) -> dict[str, str]:
    """The text of each function of a module."""
    matches = re.finditer(r"^define [^@\n]*@\"?([\w.$]+)\"?\(.*?^\}\n", ir, re.MULTILINE | re.DOTALL)
    return {match[1]: match[0] for match in matches}


def _labels_of(assembly: str) -> dict[str, str]:
    """The lines of each function, without directives for debuggers and unwinders."""
    blocks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in assembly.splitlines():
        label = re.match(r"([A-Za-z_][\w.$]*):", line)
        if label is not None and not line.startswith(".L"):
            current = blocks.setdefault(label[1], [])
        if line.startswith(".Lfunc_end"):
            current = []
        elif not re.match(r"\s*\.(cfi|p2align|file|loc|size|type)", line) and not line.lstrip().startswith("#"):
            current.append(line)
    return {name: "\n".join(lines) + "\n" for name, lines in blocks.items()}
