"""What annotations ask of the code that a program becomes: its HIR gets their marks, loses the checks that can't fail (and those that
`@unsafe_unchecked` gives up), and the longest way through each critical path is counted against `@target_latency` (0716)."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from compiler.analysis.code_promises import CodeUnit, Key
from compiler.analysis.host_costs import Cost, Obstacle, obstacle, stack_bytes, worst_case
from compiler.analysis.vectorizable import broken_promises
from compiler.diagnostics import Diagnostic, Diagnostics, Label, Severity
from compiler.hir.core import Binary, dtype_of
from compiler.hir.module import HirExecutionConstraints, HirFunction, HirModule, OptimizationLevel
from compiler.hir.types import is_float
from compiler.passes.prove_checks import Proof, prove_checks
from compiler.passes.unchecked import leave_checks_out
from compiler.source import Sources, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.units import NANOSECONDS
from runtime.records import Factory, define, evolve, frozen

GIGAHERTZ = 3.0
"""Cycles in a nanosecond that estimates assume: what servers run at for long."""


_NOWHERE = Span("written by the compiler", 0, 0)
"""Where code comes from that the compiler writes for every program."""


@frozen
class CostedLine:
    """A line of the program, and the cycles that it takes at worst. `number` 0: of the library."""

    path: str
    number: int
    span: Span
    cycles: float


@define
class Examined:
    """One function of the program's HIR. `code` is its declaration, None for what the compiler wrote itself; `checks` those that
    the function had, `given_up` those that `@unsafe_unchecked` left out. `cost` and `stack` are of critical paths only; None also where
    a loop has no bound or a function comes back to itself, which `obstacle` tells."""

    function: HirFunction
    code: CodeUnit | None
    checks: Sequence[Proof] = ()
    given_up: Sequence[Proof] = ()
    cost: Cost | None = None
    obstacle: Obstacle | None = None
    stack: int | None = None
    lines: Sequence[CostedLine] = ()

    @property
    def nanoseconds(self) -> float | None:
        return None if self.cost is None else self.cost.cycles / GIGAHERTZ


@define
class Examination:
    """All functions of a module, and what is wrong with them."""

    functions: dict[str, Examined] = Factory(dict)
    diagnostics: Diagnostics = Factory(Diagnostics)


def by_span(graph: Mapping[Key, CodeUnit], module: HirModule) -> dict[str, CodeUnit]:
    """The declarations of a module's functions, by the names of these, of a language where each is made of a text of its own."""
    codes = {code.declaration.span: code for code in graph.values()}
    return {f.name: codes[f.span] for f in module.functions.values() if f.span in codes}


def examine(codes: Mapping[str, CodeUnit], module: HirModule, sources: Sources, level: OptimizationLevel) -> Examination:
    """Change the HIR in place as annotations say, and measure it. `codes`: what its functions were declared as, by their names in HIR."""
    examination = Examination()
    for function in module.functions.values():
        if function.is_elsewhere:
            continue
        examined = examination.functions[function.name] = Examined(function, codes.get(function.name))
        if examined.code is not None:
            _mark(function, examined.code)
            if examined.code.annotation("fast_math") is not None:
                _free_floats(function)
        if examined.code is not None and examined.code.annotation("vectorizable") is not None:
            promise = examined.code.annotation("vectorizable")
            assert promise is not None
            examination.diagnostics.extend(broken_promises(function, examined.code.title, promise.span))
        examined.checks = prove_checks(function)
        if examined.code is not None and examined.code.annotation("unsafe_unchecked") is not None and level is not OptimizationLevel.O0:
            left = leave_checks_out(function)
            examined.given_up = [proof for proof in left if not proof.kept]
            examined.checks = [*(proof for proof in examined.checks if not proof.kept), *(proof for proof in left if proof.kept)]
    for examined in examination.functions.values():
        if examined.code is not None and examined.code.annotation("critical_path", "target_latency", "target_latency_ns") is not None:
            examined.cost, examined.stack = worst_case(module, examined.function.name), stack_bytes(module, examined.function.name)
            if examined.cost is not None:
                examined.lines = lines_of(examined.cost, sources)
            else:
                examined.obstacle = obstacle(module, examined.function.name)
            examination.diagnostics.extend(_over_target(examined, sources))
    return examination


def _mark(function: HirFunction, code: CodeUnit) -> None:
    critical, inline = code.annotation("critical_path") is not None, code.annotation("inline_always") is not None
    if critical or inline:
        given = function.constraints or HirExecutionConstraints()
        function.constraints = evolve(given, critical_path=critical, inline_always=inline, no_alloc=critical)


def _free_floats(function: HirFunction) -> None:
    """`@fast_math`: sums of floats in any order, products joined with them."""
    for op in (op for top in function.body.body for op in top.walk()):
        if isinstance(op, Binary) and is_float(dtype_of(op.left)):
            op.flags = ("reassoc", "contract")


def lines_of(cost: Cost, sources: Sources) -> list[CostedLine]:
    """The cycles of each line, most first."""
    totals: dict[tuple[str, int], CostedLine] = {}
    for span, cycles in cost.lines.items():
        span = span or _NOWHERE
        source = sources.get(span.path)
        number = 0 if source is None else source.line_and_column(span.start)[0]
        before = totals.get((span.path, number))
        if before is None:
            totals[span.path, number] = CostedLine(span.path, number, span, cycles)
        else:
            wider = span if span.end - span.start > before.span.end - before.span.start else before.span
            totals[span.path, number] = CostedLine(span.path, number, wider, before.cycles + cycles)
    return sorted(totals.values(), key=lambda line: -line.cycles)


def target_of(code: CodeUnit) -> tuple[float, bool, nodes.Annotation] | None:
    """Nanoseconds of `@target_latency`, whether it is hard, and the annotation; None without one that is a plain number."""
    annotation = code.annotation("target_latency", "target_latency_ns")
    if annotation is None:
        return None
    value, *rest = [argument.value for argument in annotation.arguments]
    match value:
        case nodes.IntLiteral(value=number):
            return float(number), bool(rest), annotation
        case nodes.UnitNumber(text=text, unit=unit):
            return float(Fraction(text) * NANOSECONDS[unit]), bool(rest), annotation
        case _:
            return None


def unmeasured(code: CodeUnit) -> Diagnostic | None:
    """What is wrong with a function that no code is made of: a hard target holds nothing there."""
    target = target_of(code)
    if target is None or not target[1]:
        return None
    message = f"{code.title} has a hard target and no estimate: it is never called, so that no code is made of it"
    return _no_estimate(target, message, (), (), "call it from a handler or a `test`, or take the annotation away")


def _no_estimate(
    target: tuple[float, bool, nodes.Annotation], message: str, others: tuple[Label, ...], notes: tuple[str, ...], hint: str
) -> Diagnostic:
    nanoseconds, _, annotation = target
    return Diagnostic("0716", message, annotation.span, f"its target is {nanoseconds:,.0f} ns", others, notes, hint)


def _over_target(examined: Examined, sources: Sources) -> Iterator[Diagnostic]:
    assert examined.code is not None
    target = target_of(examined.code)
    if target is None:
        return
    if examined.nanoseconds is None or examined.cost is None:
        if target[1] and examined.obstacle is not None:
            words, span = examined.obstacle.words, examined.obstacle.span
            shown = span is not None and sources.get(span.path) is not None
            others = (Label(span, words),) if shown and span is not None else ()
            notes = () if shown else (f"{words}, in {span.path if span is not None else _NOWHERE.path}",)
            hint = "give the loop a bound, as in `0..min(n, 64)` or `while c max 64`, and call nothing that comes back to itself"
            yield _no_estimate(target, f"{examined.code.title} has a hard target and no estimate", others, notes, hint)
        return
    if examined.nanoseconds <= target[0]:
        return
    nanoseconds, hard, annotation = target
    costliest = [line for line in examined.lines[:5] if line.cycles >= 1]
    yield Diagnostic(
        "0716",
        f"{examined.code.title} takes {examined.cost.cycles:,.0f} cycles at worst, {examined.nanoseconds:,.0f} ns at {GIGAHERTZ:g} GHz",
        annotation.span,
        f"its target is {nanoseconds:,.0f} ns",
        others=tuple(Label(line.span, f"{line.cycles:,.0f} cycles") for line in costliest if line.number),
        notes=tuple(f"{line.cycles:,.0f} cycles in {line.path}" for line in costliest if not line.number),
        hint="an estimate of the longest way; `zyntax explain` shows all lines, a run measures what it takes",
        severity=Severity.ERROR if hard else Severity.WARNING,
    )
