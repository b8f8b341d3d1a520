"""`@kernel(kind)` is a promise: here it is compared with what the nest computes. Code 0403, with the axis or statement that breaks it
and the kind it is. Judged from the field where there is one, else from the facts of the loops; only what is certain is an error."""

from collections.abc import Iterator

from compiler.analysis.accesses import NestAccess, NestLoop
from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.analysis.recognise import FieldFacts, FieldKind, recognise
from compiler.diagnostics import Diagnostic
from compiler.hir.core import Binary, Cast, Select, Unary
from compiler.hir.instruction import Value
from compiler.hir.memory import GetSlot, Load
from compiler.hir.module import HirFunction
from compiler.lowering.kernel import LoweredKernel
from compiler.source import Span
from compiler.typed_ast.kernel import KernelType
from runtime.records import define

PROMISES = {
    KernelType.ELEMENTWISE: "each element from inputs at its own place",
    KernelType.MATMUL: "a sum over one index of products of two tensors",
    KernelType.BATCHED_MATMUL: "a matrix product for each element of a batch",
    KernelType.CONV2D: "a windowed sum of products",
    KernelType.CONV2D_DEPTHWISE: "a windowed sum of products for each channel",
    KernelType.ATTENTION: "softmax of scores times values",
    KernelType.FLASH_ATTENTION: "softmax of scores times values",
}

KIND_WORDS = {
    FieldKind.MAP: "elementwise",
    FieldKind.PERMUTE: "elementwise",
    FieldKind.REDUCTION: "a reduction",
    FieldKind.ARG_REDUCTION: "a search for an extreme",
    FieldKind.CONTRACTION: "a matmul",
    FieldKind.CONVOLUTION: "a conv2d",
    FieldKind.ROW_CHAIN: "a chain of row reductions",
    FieldKind.ATTENTION: "attention",
    FieldKind.SCAN: "a scan",
}


def check_promise(lowered: LoweredKernel, facts: NestFacts, field: HirFunction | None) -> tuple[Diagnostic, ...]:
    """Code 0403 of a lowered kernel; `field` is None where the lift was refused."""
    if lowered.kind not in PROMISES:
        return ()
    return tuple(_Promise(lowered, lowered.kind, facts, recognise(field) if field is not None else None).judge())


@define(eq=False)
class _Promise:
    lowered: LoweredKernel
    kind: KernelType
    facts: NestFacts
    field: FieldFacts | None

    def judge(self) -> Iterator[Diagnostic]:
        match self.kind:
            case KernelType.ELEMENTWISE:
                fault = self.elementwise()
            case KernelType.MATMUL | KernelType.BATCHED_MATMUL:
                fault = self.matmul()
            case KernelType.CONV2D | KernelType.CONV2D_DEPTHWISE:
                fault = self.convolution()
            case _:
                fault = self.attention()
        if fault is not None:
            yield fault

    # ---- the kinds ----

    def elementwise(self) -> Diagnostic | None:
        """Broken by a loop that reads an input along an axis that the write doesn't have."""
        for loop in self.facts.nest.loops:
            writes = [a for a in self.facts.nest.accesses if a.is_store and loop in a.loops]
            inside = bool(writes) and all(_names(a, loop) for a in writes)
            reads = [a for a in self.facts.nest.accesses if not a.is_store and loop in a.loops and _names(a, loop)]
            folded = self.facts.of(loop.op).kind in (LoopKind.REDUCTION, LoopKind.SCAN)
            if not inside and (reads or folded) and self.facts.of(loop.op).kind is not LoopKind.PARALLEL:
                folds = self.facts.of(loop.op).folds
                joined = f"its iterations are joined by {_words(folds[0].monoid)}" if folds else "its iterations depend on each other"
                return self.broken(loop, f"`{loop}` is in no index of the write: {joined}")
        return None

    def matmul(self) -> Diagnostic | None:
        if self.field is None:
            return None if self.sums_of_products() else self.broken(self.any_loop(), "no loop sums up products of two tensors")
        products = self.field.products
        if self.field.kind in (FieldKind.ATTENTION, FieldKind.CONVOLUTION):
            window = next((w for p in products for w in p.windows), None)
            if window is not None:
                return self.broken(self.loop(window.summed), f"`{window.kept}` and `{window.summed}` index one axis together")
            return self.broken(self.loop(products[-1].k[0]), "two products are joined by a softmax")
        if not products:
            return self.broken(*self.no_product())
        product = products[0]
        if len(product.k) > 1:
            return self.broken(self.loop(product.k[1]), f"it sums over {_listed(product.k)}, a matmul over one index")
        if self.kind is KernelType.MATMUL and product.batch:
            return self.broken(self.loop(product.batch[0]), f"`{product.batch[0]}` indexes both tensors and is kept", "batched_matmul")
        if self.kind is KernelType.BATCHED_MATMUL and not product.batch and len(product.m) + len(product.n) < 3:
            return self.broken(self.loop(product.k[0]), "no index is a batch: none is in both tensors and in the result", "matmul")
        return None

    def convolution(self) -> Diagnostic | None:
        if self.field is None:
            return None if self.sums_of_products() else self.broken(self.any_loop(), "no loop sums up products of two tensors")
        products = [p for p in self.field.products if p.windows]
        if not products:
            if self.field.products:
                axis = self.field.products[0].k[0]
                return self.broken(self.loop(axis), f"`{axis}` is summed over, but shares no index with an axis of the result")
            return self.broken(*self.no_product())
        product = products[0]
        channels = [n for n in product.batch if not any(n in (w.kept, w.summed) for w in product.windows)]
        if self.kind is KernelType.CONV2D_DEPTHWISE and not channels:
            return self.broken(self.loop(product.k[0]), "no channel is in the input, the weights and the result", "conv2d")
        return None

    def attention(self) -> Diagnostic | None:
        if self.field is None:
            enough = self.sums_of_products() and self.uses("exp", "exp2")
            return None if enough else self.broken(self.any_loop(), "there is no product of two tensors under an exponential")
        if self.field.attention is not None:
            return None
        if len(self.field.products) < 2:
            if not self.field.products:
                return self.broken(*self.no_product())
            return self.broken(self.loop(self.field.products[0].k[0]), "there is one sum of products, attention has two")
        return self.broken(self.loop(self.field.products[-1].k[0]), "no softmax joins the two sums of products")

    # ---- what is there ----

    def no_product(self) -> tuple[NestLoop | None, str]:
        assert self.field is not None
        if self.field.reductions:
            op = self.field.reductions[0]
            return self.loop(op.over[0]), f"`{op.over[0]}` is joined by {_words(op.monoid)}, but not over products of two tensors"
        return self.any_loop(), "no loop sums up products of two tensors"

    def sums_of_products(self) -> bool:
        """Somewhere a product of two reads is added to what a loop carries or to memory."""
        for loop in self.facts.nest.loops:
            for op in loop.op.walk():
                if isinstance(op, Binary) and op.operator == "add" and any(_is_product(v) for v in (op.left, op.right)):
                    return True
        return False

    def uses(self, *operators: str) -> bool:
        return any(isinstance(op, Unary) and op.operator in operators for loop in self.facts.nest.loops for op in loop.op.walk())

    def loop(self, axis: str) -> NestLoop | None:
        return next((loop for loop in self.facts.nest.loops if loop.axis == axis), None) or self.any_loop()

    def any_loop(self) -> NestLoop | None:
        return self.facts.nest.loops[-1] if self.facts.nest.loops else None

    def broken(self, loop: NestLoop | None, why: str, kind: str | None = None) -> Diagnostic:
        actual = f"a {kind}" if kind else self.actual()
        hint = f"write `@kernel({kind})`, or leave the kind out: it is inferred" if kind else "leave the kind out: it is inferred"
        return Diagnostic(
            "0403",
            f"`@kernel({self.kind.value})` promises {PROMISES[self.kind]}" + (f", and this is {actual}" if actual else ""),
            self.span(loop),
            why,
            hint=hint,
        )

    def actual(self) -> str:
        """The kind it is, in words; nothing where that isn't known."""
        if self.field is None:
            return ""
        if self.field.kind is FieldKind.CONTRACTION and self.field.products[0].batch:
            return "a batched_matmul"
        return KIND_WORDS[self.field.kind]

    def span(self, loop: NestLoop | None) -> Span | None:
        if loop is not None and loop.op.span is not None:
            return loop.op.span
        return next((a.op.span for a in self.facts.nest.accesses if a.is_store), None)


def _names(access: NestAccess, loop: NestLoop) -> bool:
    return any(loop.axis in form.names for form in access.index)


def _is_product(value: Value) -> bool:
    match value.source:
        case Binary(operator="mul", left=left, right=right):
            return _is_read(left) and _is_read(right)
        case Cast(value=inner):
            return _is_product(inner)
        case _:
            return False


def _is_read(value: Value) -> bool:
    match value.source:
        case Load() | GetSlot() | Select():
            return True
        case Cast(value=inner) | Unary(value=inner):
            return _is_read(inner)
        case Binary(left=left, right=right):
            return _is_read(left) or _is_read(right)
        case _:
            return False


def _words(monoid: str) -> str:
    names = {"add": "a sum", "mul": "a product", "min": "a minimum", "max": "a maximum", "argmin": "a minimum", "argmax": "a maximum"}
    return names.get(monoid, f"`{monoid}`")


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(f"`{name}`" for name in names)
