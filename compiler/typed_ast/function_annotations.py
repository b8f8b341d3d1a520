"""Annotations of functions: what each takes, and what it asks of the function behind it."""

from collections.abc import Iterator, Mapping

from compiler.diagnostics import Diagnostic, Label, Severity
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.constants import duration
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.inlinable import inlinable_functions
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.rules.parts import parts_of
from compiler.typed_ast.scope import UserFunction
from compiler.typed_ast.signatures import parameter_types
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import UNKNOWN, CharType, EnumType, OptionType, ResultType, Scalar, StringType, StructType, TupleType, Type
from compiler.typed_ast.units import NANOSECONDS
from compiler.typed_ast.walk import walk

REMEMBERS = ("cache", "memoize")
"""The results of such a function are kept, by the values of its arguments."""
ENDING = ("inline_always", "gpu_compute")
"""What only functions promise that don't come back to themselves: they become part of those that call them, or compute as a kernel does."""
VECTORIZABLE, CRITICAL = "vectorizable", "critical_path"
LATENCIES = ("target_latency", "target_latency_ns")
"""How long a function may take, which is held against an estimate."""
PROVED_OF_CODE = (VECTORIZABLE, CRITICAL, *LATENCIES)
"""What only the code that a function becomes can tell."""
NATIVE = ("jit", "no_allocation", VECTORIZABLE, *ENDING)
"""What only native functions promise: their code is compiled, and makes nothing on a heap."""
WITHOUT_HEAP = ("no_allocation", CRITICAL, "gpu_compute")
"""Those of functions that make nothing on a heap."""
_ACCEPTED = (*REMEMBERS, "inline", "deprecated", CRITICAL, *LATENCIES, *NATIVE)
PIPELINE = "pipeline"
"""What the declaration `pipeline p() { }` is marked with."""
_LATER: Mapping[str, tuple[str, str]] = {
    "with": ("`@with`", "call the function without it"),
}
_FORMS = {
    "cache": "@cache(ttl=1h)",
    "deprecated": '@deprecated("what to use instead")',
    "target_latency": "@target_latency(500ns)` or `@target_latency(500ns, hard)",
    "target_latency_ns": "@target_latency_ns(500)` or `@target_latency_ns(500, hard)",
}


def promises_of_code(program: nodes.Program) -> frozenset[str]:
    """The annotations in the program of which only code can tell whether they hold."""
    functions = (node for node in walk(program) if isinstance(node, nodes.Function))
    return frozenset(a.name for function in functions for a in function.annotations if a.name in PROVED_OF_CODE)


def check_annotation(checker: Checker, function: UserFunction, annotation: nodes.Annotation) -> None:
    """Hints are accepted, promises are proved, and those that nothing would prove are refused."""
    name = annotation.name
    if name in _LATER:
        what, hint = _LATER[name]
        checker.later(what, annotation.span, hint)
    elif name not in (*_ACCEPTED, PIPELINE):
        known = [*_ACCEPTED, *_LATER]
        hint = did_you_mean(f"@{name}", [f"@{k}" for k in known]) or "functions take " + ", ".join(f"`@{k}`" for k in _ACCEPTED)
        checker.report("0401", f"there is no annotation `@{name}` of functions", annotation.span, hint=hint)
    elif not _is_well_formed(annotation):
        checker.report("0204", f"this is written `{_FORMS.get(name, f'@{name}')}`", annotation.span)
    elif name in REMEMBERS:
        _require_keys(checker, function, annotation)


def _is_well_formed(annotation: nodes.Annotation) -> bool:
    match annotation.name, annotation.arguments:
        case "deprecated", (nodes.Argument(name=None, value=nodes.StringLiteral()),):
            return True
        case "cache", (nodes.Argument(name=None | "ttl", value=value),):
            return _nanoseconds(value) is not None
        case "target_latency" | "target_latency_ns" as name, (nodes.Argument(name=None, value=value), *rest):
            number = duration(value) if name == "target_latency" else value.value if isinstance(value, nodes.IntLiteral) else None
            hard = all(isinstance(word.value, nodes.Name) and word.value.name == "hard" for word in rest)
            return number is not None and number > 0 and len(rest) < 2 and hard
        case _, arguments:
            return not arguments and annotation.name not in ("deprecated", *LATENCIES)


def lifetime(annotation: nodes.Annotation) -> int | None:
    """For how many nanoseconds a result is kept; None: as long as the program runs."""
    return _nanoseconds(annotation.arguments[0].value) if annotation.arguments else None


def _nanoseconds(value: nodes.Expression) -> int | None:
    """Of a duration, or of a whole number of seconds."""
    return value.value * NANOSECONDS["s"] if isinstance(value, nodes.IntLiteral) else duration(value)


def _require_keys(checker: Checker, function: UserFunction, annotation: nodes.Annotation) -> None:
    if changes_receiver(function.node):
        message = f"`{function.name}` changes what it is called on, which a result that is kept would not"
        checker.report("0402", message, annotation.span)
    for parameter, found in zip(function.node.parameters, parameter_types(checker, function), strict=True):
        if not _is_key(checker, found):
            message = f"results can't be kept by the values of `{parameter.name}`, which may change: it is {checker.show(found)}"
            hint = "take numbers, texts, and tuples, structs and enums of those"
            checker.report("0203", message, parameter.span, "", (Label(annotation.span, "asked for here"),), hint=hint)


def _is_key(checker: Checker, type_: Type, around: frozenset[Type] = frozenset()) -> bool:
    """Whether a value of the type stays what it is; one whose type isn't known is looked at when it comes."""
    if isinstance(type_, Scalar | StringType | CharType) or is_silent(type_):
        return True
    if isinstance(type_, StructType | EnumType | OptionType | ResultType | TupleType):
        inside = around | {type_}
        return all(part in inside or _is_key(checker, part, inside) for part in parts_of(checker, type_) or ())
    return False


# ---- of the typed program --------------------------------------------------------------------------------------------


def kept_promises(checker: Checker, program: nodes.Program) -> Iterator[Diagnostic]:
    """Errors for functions that can't be native and say that they are. `program` has its types, and no errors."""
    declared = (node for node in walk(program) if isinstance(node, nodes.Function) and not node.type_parameters)
    asked = [node for node in declared if any(a.name in NATIVE for a in node.annotations)]
    if not asked:
        return
    functions = effects(checker, program, has_native_code).functions
    generic = {name.partition("<")[0] for name in functions if "<" in name}
    asked = [node for node in asked if node.name not in generic]  # of which only the copies are called
    found = {id(own.function): own for own in functions.values()}
    straight = inlinable_functions(program, lambda written: UNKNOWN if written is None else checker.resolver.resolve(written))
    for node in asked:
        annotation = max((a for a in node.annotations if a.name in NATIVE), key=lambda a: a.name in WITHOUT_HEAP)
        own = found.get(id(node))
        ending = next((a for a in node.annotations if a.name in ENDING), None)
        if ending is not None and own is not None and (call := _call_of_itself(own, functions)) is not None:
            others = (Label(ending.span, "promised here"),)
            hint = "a loop comes back without a call"
            yield Diagnostic("0713", f"`{node.name}` comes back to itself: `@{ending.name}` rules that out", call, "", others, hint=hint)
            continue
        if node.name in straight and all(a.name == "inline_always" for a in node.annotations if a.name in NATIVE):
            continue
        reasons = own.reasons if own is not None else []
        if own is None or reasons:
            words, span = (reasons[0].words, reasons[0].span) if reasons else ("it is declared inside of another", node.name_span)
            others = (Label(annotation.span, "promised here"),)
            hint = "`zyntax explain` lists all that keeps functions from being native"
            yield Diagnostic("0420", f"`{node.name}` can't be native: {words}", span, "", others, hint=hint)
        elif own.makes is not None and annotation.name in WITHOUT_HEAP:
            others = (Label(annotation.span, "promised here"),)
            hint = "take a tensor to write to as a `mut` parameter, or write `@jit`"
            yield Diagnostic("0420", f"`{node.name}` makes a tensor on the heap", own.makes, "", others, hint=hint)


def _call_of_itself(own: FunctionEffects, functions: Mapping[str, FunctionEffects]) -> Span | None:
    """The first call by which a function comes back to itself, by however many steps; None: none does."""

    def leads_back(name: str, seen: set[str]) -> bool:
        if name == own.name:
            return True
        return any(leads_back(call, seen | {call}) for call in functions[name].calls if call not in seen)

    return next((span for name, span in own.calls.items() if leads_back(name, {name})), None)


def deprecated_uses(program: nodes.Program) -> Iterator[Diagnostic]:
    """A warning for each call of a function that is deprecated. `program` has its types, and the names of what calls go to."""
    old: dict[str, tuple[nodes.Function, str]] = {}
    for node in walk(program):
        if isinstance(node, nodes.Function):
            for annotation in node.annotations:
                match annotation:
                    case nodes.Annotation(name="deprecated", arguments=(nodes.Argument(value=nodes.StringLiteral(value=text)),)):
                        old[node.name] = (node, text)
    for node in walk(program) if old else ():
        if isinstance(node, nodes.Call) and node.callee.rpartition("::")[2] in old:
            function, text = old[node.callee.rpartition("::")[2]]
            others = (Label(function.name_span, "declared here"),)
            yield Diagnostic(
                "0621", f"`{function.name}` is deprecated: {text}", node.function.span, "", others, severity=Severity.WARNING
            )
