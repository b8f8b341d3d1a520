"""Annotations: which there are, what they stand before, and what they take."""

from fractions import Fraction

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import fits
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import nearest
from compiler.typed_ast.types import ERROR, I64, STRING, Type
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import shown
from runtime.records import frozen

_CODE = ("function", "signal", "handler")
_WORDS = {nodes.Function: "function", quant.Signal: "signal", quant.Handler: "handler", quant.Strategy: "strategy"}


@frozen
class AnnotationRule:
    """`before`: what it stands before; `takes`: the type of its argument, None: none; `word` may stand behind that."""

    before: tuple[str, ...]
    takes: Type | None = None
    word: str | None = None


ANNOTATIONS = {
    "no_allocation": AnnotationRule(_CODE),
    "no_syscalls": AnnotationRule(_CODE),
    "critical_path": AnnotationRule(_CODE),
    "inline_always": AnnotationRule(("function", "signal")),
    "unsafe_unchecked": AnnotationRule(("function", "signal")),
    "target_latency": AnnotationRule(_CODE, qt.DURATION, "hard"),
    "target_latency_ns": AnnotationRule(_CODE, I64, "hard"),
    "cpu_affinity": AnnotationRule(("strategy",), I64),
    "vectorizable": AnnotationRule(("function",)),
    "gpu_compute": AnnotationRule(("function",)),
    "fast_math": AnnotationRule(("function", "signal")),
    "no_risk": AnnotationRule(("strategy",), STRING),
}
_CONTRADICTIONS = (("critical_path", "gpu_compute"), ("target_latency", "target_latency_ns"), ("critical_path", "unsafe_unchecked"))

LATENCIES = ("target_latency", "target_latency_ns")


def _above_zero(value: nodes.Expression) -> bool:
    match value:
        case nodes.IntLiteral(value=number):
            return number > 0
        case nodes.UnitNumber(text=text):
            return Fraction(text) > 0
        case _:
            return False


def check_annotations(checker: QuantChecker, node: nodes.Statement) -> None:
    """The annotations of one declaration or handler."""
    annotations: tuple[nodes.Annotation, ...] = getattr(node, "annotations", ())
    seen: dict[str, nodes.Annotation] = {}
    for annotation in annotations:
        known = ANNOTATIONS.get(annotation.name)
        if known is None:
            legal = f"annotations are {', '.join(f'`@{name}`' for name in ANNOTATIONS)}"
            near = nearest(annotation.name, ANNOTATIONS, 1)
            hint = f"did you mean `@{near[0]}`?" if near else legal
            checker.report("0401", f"unknown annotation `@{annotation.name}`", annotation.span, hint=hint)
            continue
        if annotation.name in seen:
            others = (Label(seen[annotation.name].span, "first written here"),)
            checker.report("0402", f"`@{annotation.name}` is repeated", annotation.span, others=others, hint="keep one of the two")
        seen.setdefault(annotation.name, annotation)
        word = _WORDS.get(type(node), "type")
        if word not in known.before:
            places = " or a ".join(known.before)
            checker.report(
                "0402", f"`@{annotation.name}` can't stand before a {word}", annotation.span, hint=f"it belongs before a {places}"
            )
        _argument(checker, annotation, known)
    for one, other in _CONTRADICTIONS:
        if one in seen and other in seen:
            others = (Label(seen[one].span, "written here"),)
            checker.report("0402", f"`@{other}` contradicts `@{one}`", seen[other].span, others=others, hint="keep one of the two")


def _argument(checker: QuantChecker, annotation: nodes.Annotation, known: AnnotationRule) -> None:
    arguments = list(annotation.arguments)
    match arguments[1:]:
        case [nodes.Argument(name=None, value=nodes.Name(name=word))] if known.word is not None and word == known.word:
            arguments.pop()
    if len(arguments) != (known.takes is not None):
        takes = "no argument" if known.takes is None else f"one argument, a `{shown(known.takes)}`"
        checker.report("0402", f"`@{annotation.name}` takes {takes}", annotation.span)
        return
    if known.takes is None:
        return
    value = arguments[0].value
    type_ = checker.infer(value, Scope(), known.takes)
    number = whole_constant(value, Scope())
    if not fits(type_, known.takes):
        checker.report("0402", f"`@{annotation.name}` takes a `{shown(known.takes)}`, and this is a `{shown(type_)}`", value.span)
    elif annotation.name in LATENCIES and type_ != ERROR and not _above_zero(value):
        text = "write it like `@target_latency(500ns)`" if known.takes == qt.DURATION else "write it like `@target_latency_ns(500)`"
        checker.report("0402", f"`@{annotation.name}` takes a duration above 0, written as one number", value.span, hint=text)
    elif known.takes == I64 and (number is None or number < 0):
        checker.report("0402", f"`@{annotation.name}` takes a number from 0", value.span)
    elif isinstance(value, nodes.Unary) or (isinstance(value, nodes.StringLiteral) and not value.value.strip()):
        checker.report("0402", f"the argument of `@{annotation.name}` says nothing", value.span)
