"""What analysis has to say about a lowered kernel before it is scheduled: all its errors at once."""

from compiler.analysis.dependence import NestFacts
from compiler.analysis.promise import check_promise
from compiler.analysis.races import check_parallel, check_races
from compiler.diagnostics import Diagnostic
from compiler.hir.module import HirFunction
from compiler.lowering.kernel import LoweredKernel, ResultArgument


def check_kernel(lowered: LoweredKernel, facts: NestFacts, field: HirFunction | None) -> tuple[Diagnostic, ...]:
    """Races and broken promises. A race says all there is to say: what the nest is instead isn't asked then."""
    races = check_races(lowered) or (check_parallel(facts) if field is None else ())
    return races or check_promise(lowered, facts, field)


def zeroed_memories(lowered: LoweredKernel) -> frozenset[str]:
    """Names of the function's memories that start at 0."""
    pairs = zip(lowered.function.parameters, lowered.plan.arguments, strict=True)
    return frozenset(p.name for p, a in pairs if isinstance(a, ResultArgument) and lowered.plan.results[a.index].zeroed)


def always_zeroed(lowered: LoweredKernel) -> frozenset[str]:
    """Those that do in every launch, whatever its sizes are."""
    pairs = zip(lowered.function.parameters, lowered.plan.arguments, strict=True)
    results = [(p.name, lowered.plan.results[a.index]) for p, a in pairs if isinstance(a, ResultArgument)]
    return frozenset(name for name, result in results if result.zeroed and not result.unless)
