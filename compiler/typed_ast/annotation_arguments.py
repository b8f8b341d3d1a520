"""Arguments of annotations: how many, of which names, numbers that are known now."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic, Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import KernelMetadata
from compiler.typed_ast.nodes import Annotation, Argument, Expression
from runtime.records import Factory, define, evolve

BLOCK_ANNOTATIONS = {
    "kernel": "@kernel(kind, ...)",
    "device": '@device("cpu" | "cuda" | "cuda:1" | "auto" | [...], fallback=)',
    "parallel": "@parallel(data, axis=0)",
    "workgroup": "@workgroup(x, y=1, z=1)",
    "grid": "@grid(x, y=1, z=1)",
    "shared": "@shared(bytes)",
    "tile": "@tile(m=, n=, k=)",
    "broadcast": "@broadcast(name, axis=)",
    "async": "@async",
    "tensor_cores": "@tensor_cores(on | off)",
    "pipeline": "@pipeline(stages=)",
    "warps": "@warps(n)",
    "registers": "@registers(n)",
    "cluster": "@cluster(n)",
    "precision": "@precision(acc=, products=, floats=)",
    "deterministic": "@deterministic",
    "atomics": "@atomics(relaxed)",
    "name": '@name("text")',
    "trace": "@trace",
    "shape": "@shape(A: [M, K])",
}
LOOP_ANNOTATIONS = {"unroll": "@unroll(n)", "vectorize": "@vectorize(n)", "parallel": "@parallel", "serial": "@serial"}

Evaluate = Callable[[Expression], object]


@define
class ArgumentReader:
    """Reads arguments, and gathers the metadata and what is wrong."""

    evaluate: Evaluate
    metadata: KernelMetadata = KernelMetadata()
    found: list[Diagnostic] = Factory(list)

    # ---- reporting ----

    def fault(self, code: str, message: str, span: Span, hint: str | None = None, others: tuple[Label, ...] = ()) -> None:
        self.found.append(Diagnostic(code, message, span, "", others, hint=hint))

    def later(self, what: str, span: Span, hint: str) -> None:
        self.fault("0109", f"{what} is valid, but not supported yet", span, hint)

    def set(self, **changes: object) -> None:
        self.metadata = evolve(self.metadata, **changes)  # type: ignore[arg-type]

    def hint(self, **changes: object) -> None:
        self.set(hints=evolve(self.metadata.hints, **changes))  # type: ignore[arg-type]

    # ---- arguments ----

    def wrong(self, value: Expression, what: str, wanted: str, hint: str | None = None) -> None:
        self.fault("0203", f"{what} is {wanted}", value.span, hint)

    def count(self, annotation: Annotation, message: str, span: Span | None = None) -> None:
        form = (BLOCK_ANNOTATIONS | LOOP_ANNOTATIONS)[annotation.name]
        self.fault("0204", f"`@{annotation.name}` {message}", span or annotation.span, f"its form is `{form}`")

    def no_arguments(self, annotation: Annotation) -> bool:
        if annotation.arguments:
            self.count(annotation, "takes no arguments")
        return not annotation.arguments

    def single(self, annotation: Annotation, name: str | None = None) -> Expression | None:
        """The only argument, which may be named `name`."""
        if len(annotation.arguments) != 1:
            self.count(annotation, f"takes 1 argument, but {len(annotation.arguments)} are given")
            return None
        argument = annotation.arguments[0]
        if argument.name not in (None, name):
            self.count(annotation, f"has no parameter `{argument.name}`", span_of_argument(argument))
            return None
        return argument.value

    def positive(self, value: Expression, what: str, least: int = 1) -> int | None:
        """An int that is known now, at least `least`."""
        known = self.evaluate(value)
        if type(known) is int:
            if known >= least:
                return known
            self.wrong(value, what, f"at least {least}, not {known}")
        elif known is not None:
            self.wrong(value, what, f"an int, not {in_words(known)}")
        else:
            self.later(f"{what} that is not known when the program is compiled", value.span, "write a number")
        return None


def span_of_argument(argument: Argument) -> Span:
    return argument.value.span if argument.span == NOWHERE else argument.span


def in_words(value: object) -> str:
    return f"{value!r}" if isinstance(value, float) else {bool: "a bool", str: "a string"}.get(type(value), "this")
