"""`zyntax explain file.qdsl:function`: what is known of one function before it runs, and the code that it becomes."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from compiler.analysis.host_costs import obstacle, worst_case
from compiler.analysis.ranges import Ranges
from compiler.backends.native.compile import compile_module
from compiler.backends.native.emit import entry_name
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.control import Attempt, Call, For, While
from compiler.hir.module import HirFunction, HirModule, Linkage, OptimizationLevel
from compiler.hir.text import print_function
from compiler.source import Source, Sources, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from quantdsl import nodes as quant
from quantdsl.critical.graph import CodeUnit, Key, call_graph
from quantdsl.critical.measure import GIGAHERTZ, Examination, Examined, examine, lines_of, target_of
from runtime.cpu import load

if TYPE_CHECKING:
    from quantdsl.check.checked import CheckedQuantProgram

LINES = 12
"""Lines of a program whose estimates are shown."""

_VECTOR = re.compile(r"<(\d+) x (i8|i16|i32|i64|float|double)>")


def explain(
    checked: "CheckedQuantProgram", name: str, strategy: str | None, source: Source, sources: Sources, level: OptimizationLevel
) -> str:
    """All there is to say of a function, signal or handler of a checked program; `on trade` and `trade` both name a handler. Raises
    ZyntaxError where there is none of that name."""
    codes = call_graph(checked)
    wanted = {f"`{name}`", f"`on {name.removeprefix('on').lstrip(' .')}`"}
    keys = {key for key, code in codes.items() if code.title in wanted and key[0] in ("", strategy or key[0])}
    if not keys:
        known = sorted({code.title.strip("`") for code in codes.values()})
        hint = did_you_mean(name, known) or f"it has {', '.join(f'`{one}`' for one in known)}"
        raise ZyntaxError(Diagnostic("0201", f"`{source.path}` has no function `{name}`", hint=hint))
    owners = sorted({key[0] for key in keys} - {""})
    if len(owners) > 1:
        message = f"`{name}` stands in {len(owners)} strategies: {', '.join(f'`{one}`' for one in owners)}"
        raise ZyntaxError(Diagnostic("0204", message, hint=f"say which: --strategy {owners[0]}"))
    module = _module(checked, codes, keys, owners[0] if owners else strategy, source)
    found = examine(checked, module, sources, level)
    made = [one for one in found.functions.values() if one.code is not None and one.code.key in keys]
    if not made:
        message = f"`{name}` is never called, and has parameters that only a call makes known"
        raise ZyntaxError(Diagnostic("0201", message, hint="call it from a test or a handler"))
    for one in made:
        if one.function.linkage is Linkage.INTERNAL and _has_entry(one.function):
            one.function.linkage = Linkage.EXPORTED  # so that its own code is there to be seen
    compiled = compile_module(module, level)
    texts = _functions_of(compiled.llvm), _labels_of(compiled.asm)
    return "\n".join(line for one in made for line in _report(one, codes, found, module, sources, *texts))


def _module(
    checked: "CheckedQuantProgram", codes: Mapping[Key, CodeUnit], keys: set[Key], strategy: str | None, source: Source
) -> HirModule:
    """The strategy's module, or one of the functions asked for; of all of a program, where only a call makes known what they take."""
    from quantdsl.elaborate import begin, elaborate
    from quantdsl.elaborate.strategies import elaborate_strategy

    if any(isinstance(statement, quant.Strategy) for statement in checked.program.statements):
        module, _ = elaborate_strategy(checked, strategy, source)
        spans = {codes[key].declaration.span for key in keys}
        if any(function.span in spans for function in module.functions.values()):
            return module
    asked = {codes[key].declaration.span for key in keys}
    made = begin(checked, exported=True)
    plain = [s for s in checked.program.statements if isinstance(s, nodes.Function) and id(s) in made.exported and s.span in asked]
    for statement in plain:
        made.instance(statement)
    return made.program.module if plain else elaborate(checked).module


def _has_entry(function: HirFunction) -> bool:
    return not any(str(p.type) in ("i128", "u128") for p in function.parameters)


def _report(
    one: Examined,
    codes: Mapping[Key, CodeUnit],
    found: Examination,
    module: HirModule,
    sources: Sources,
    ir: Mapping[str, str],
    assembly: Mapping[str, str],
) -> Iterator[str]:
    assert one.code is not None
    symbol = entry_name(one.function)
    declared = one.code.declaration
    named = declared.event_span if isinstance(declared, quant.Handler) else declared.name_span
    yield f"{one.code.title.strip('`')}    {_place(named, sources)}    compiled as {one.function.name}"
    if one.code.declaration.annotations:
        yield f"annotations  {' '.join(_written(a, sources) for a in one.code.declaration.annotations)}"
    yield from _calls(one, found, module)
    yield from _estimate(one, module, sources, _frame(assembly.get(symbol)))
    yield from _checks(one, sources)
    yield from _loops(one.function, sources)
    own = ir.get(symbol, "")
    widths = sorted({(int(count), of) for count, of in _VECTOR.findall(own)})
    yield f"vectors      {', '.join(f'{count} x {of}' for count, of in widths) if widths else 'none'}"
    yield ""
    yield from ("HIR", shortened(print_function(one.function)))
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
    """HIR with `struct<desk>` for each struct type, whose fields would fill pages."""
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


def _calls(one: Examined, found: Examination, module: HirModule) -> Iterator[str]:
    """Who calls whom, from here on, each function's own calls once."""
    yield "calls"
    seen: set[str] = set()

    def below(name: str, depth: int) -> Iterator[str]:
        called = dict.fromkeys(
            (op.function, isinstance(op, Attempt)) for top in module.functions[name].body.body for op in top.walk() if isinstance(op, Call)
        )
        for callee, caught in called:
            target, known = module.functions[callee], found.functions.get(callee)
            title = known.code.title.strip("`") if known is not None and known.code is not None else callee
            of = {Linkage.IMPORTED: "  (the engine's)", Linkage.EXTERNAL: "  (outside)"}.get(target.linkage, "")
            again = "  (as above)" if callee in seen and not target.is_elsewhere else ""
            yield f"  {'  ' * depth}{title}{of}{'  (failures are caught)' if caught else ''}{again}"
            if callee not in seen and not target.is_elsewhere:
                seen.add(callee)
                yield from below(callee, depth + 1)

    yield from dict.fromkeys(below(one.function.name, 0)) or ["  nothing"]


def _frame(assembly: str | None) -> int | None:
    """Bytes that a function's code takes of the stack, in what it begins with; None for other processors than x86-64."""
    if assembly is None or not load.target(None, None, None, 3).triple.startswith("x86_64"):
        return None
    moved = re.search(r"\bsubq\s+\$(\d+), %rsp", assembly)
    return 8 * len(re.findall(r"\bpushq\b", assembly)) + (int(moved[1]) if moved is not None else 0)


def _estimate(one: Examined, module: HirModule, sources: Sources, frame: int | None) -> Iterator[str]:
    cost = one.cost or worst_case(module, one.function.name)
    if cost is None:
        why = one.obstacle or obstacle(module, one.function.name)
        assert why is not None
        yield f"estimate     none: {why.words}, {_place(why.span, sources)}"
        return
    nanoseconds = cost.cycles / GIGAHERTZ
    line = (
        f"estimate     {cost.instructions:,} instructions, {cost.cycles:,.0f} cycles, {nanoseconds:,.0f} ns at {GIGAHERTZ:g} GHz at worst"
    )
    target = target_of(one.code) if one.code is not None else None
    yield line + (f"; its target is {target[0]:,.0f} ns" if target is not None else "")
    if one.stack is not None:
        yield f"stack        {one.stack:,} bytes of variables" + (f", {frame:,} in the code's own frame" if frame is not None else "")
    for found in lines_of(cost, sources)[:LINES]:
        if found.cycles >= 0.5:
            source = sources.get(found.path)
            text = source.line(found.number).strip() if source is not None and found.number else ""
            where = f"{found.path}:{found.number}" if found.number else found.path
            yield f"  {found.cycles:8,.0f} cycles  {where}  {text}"


def _checks(one: Examined, sources: Sources) -> Iterator[str]:
    kept = [proof for proof in one.checks if proof.kept]
    away = [proof for proof in one.checks if not proof.kept]
    yield f"checks       {len(kept)} kept, {len(away)} proved away, {len(one.given_up)} given up by @unsafe_unchecked"
    for word, proofs in (("kept", kept), ("proved", away), ("given up", one.given_up)):
        for proof in proofs:
            meaning = _MEANINGS.get(proof.instruction, proof.instruction)
            yield f"  {word:8}  {_place(proof.span, sources)}  {meaning}  {_text(proof.span, sources)}"


_MEANINGS = {"checked": "fits", "element": "index", "narrow": "cast", "quotient": "division"}


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
    found = re.finditer(r"^define [^@\n]*@\"?([\w.$]+)\"?\(.*?^\}\n", ir, re.MULTILINE | re.DOTALL)
    return {match[1]: match[0] for match in found}


def _labels_of(assembly: str) -> dict[str, str]:
    """The lines of each function, without directives for debuggers and unwinders."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in assembly.splitlines():
        label = re.match(r"([A-Za-z_][\w.$]*):", line)
        if label is not None and not line.startswith(".L"):
            current = found.setdefault(label[1], [])
        if line.startswith(".Lfunc_end"):
            current = []
        elif not re.match(r"\s*\.(cfi|p2align|file|loc|size|type)", line) and not line.lstrip().startswith("#"):
            current.append(line)
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}
