"""What the annotations of a compute block say, as KernelMetadata. Checks what can be checked from the text alone: known names and
kinds, arguments, limits that hold on every device. Whether the body keeps a promise is analysis' business."""

from collections.abc import Container, Iterator

from compiler.diagnostics import Diagnostic, Label
from compiler.typed_ast.annotation_arguments import (
    BLOCK_ANNOTATIONS,
    LOOP_ANNOTATIONS,
    Evaluate,
    span_of_argument,
)
from compiler.typed_ast.constants import constant
from compiler.typed_ast.device_annotations import DeviceReader
from compiler.typed_ast.kernel import KERNEL_ALIASES, KernelMetadata, KernelType, StatedShape
from compiler.typed_ast.kernel_options import read_options
from compiler.typed_ast.levels import FLOATS, PRODUCTS
from compiler.typed_ast.nodes import (
    Annotation,
    Argument,
    Block,
    Call,
    Compute,
    Expression,
    ExpressionStatement,
    For,
    If,
    ListLiteral,
    Match,
    Name,
    Node,
    StringLiteral,
    While,
)
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import DType
from runtime.records import define, fields_of

MAX_THREADS = 1024
MAX_THREADS_Z = 64
PARTS = ("m", "n", "k")
"""Of a product of matrices: rows, columns and terms."""
VECTORS = (1, 2, 4, 8, 16, 32, 64)
"""Lanes that vectors may have."""
MAX_SHARED_BYTES = 227 * 1024


def kernel_metadata(
    compute: Compute, evaluate: Evaluate = constant, functions: Container[str] = ()
) -> tuple[KernelMetadata, tuple[Diagnostic, ...]]:
    """The metadata of a block, and what is wrong with its annotations. `evaluate` gives an expression's constant, or None; `functions` are
    those of the program."""
    reader = _Reader(evaluate, functions=functions)
    reader.read(compute.annotations)
    reader.check_loops(compute.body)
    reader.check_tile(compute)
    return reader.metadata, tuple(reader.found)


def same(a: object, b: object) -> bool:
    """Whether two trees say the same, wherever they stand."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Node) and type(a) is type(b):
        names = [f.name for f in fields_of(type(a)) if f.name not in ("span", "type", "operator_span")]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    return a == b


@define
class _Reader(DeviceReader):
    functions: Container[str] = ()

    # ---- annotations ----

    def read(self, annotations: tuple[Annotation, ...]) -> None:
        first: dict[str, Annotation] = {}
        for annotation in annotations:
            key = _key(annotation)
            before = first.get(key)
            if before is not None:
                if not same(before, annotation):
                    self.fault(
                        "0402",
                        f"`@{annotation.name}` is given twice with different values",
                        annotation.span,
                        "keep one of them",
                        (Label(before.span, "first given here"),),
                    )
                continue
            first[key] = annotation
            self.block_annotation(annotation)
        grid = first.get("grid")
        if grid is not None and self.metadata.kernel_type is not KernelType.CUSTOM:
            hint = "leave it out: the number of blocks follows from the sizes; `@workgroup` sets how many threads one has"
            self.fault("0402", "`@grid` belongs to `custom` kernels", grid.span, hint)
        if (atomics := first.get("atomics")) is not None:
            self.relaxed(atomics)
        self.several_devices(first.get("device"), first.get("parallel"))

    def block_annotation(self, annotation: Annotation) -> None:
        name, span = annotation.name, annotation.span
        match name:
            case "kernel":
                self.kernel(annotation)
            case "device":
                self.device(annotation)
            case "workgroup" | "grid":
                self.extents(annotation)
            case "shared":
                self.shared(annotation)
            case "tile":
                self.tile(annotation)
            case "broadcast":
                self.broadcast(annotation)
            case "async":
                if self.no_arguments(annotation):
                    self.set(is_async=True)
            case "shape":
                self.shape(annotation)
            case "tensor_cores":
                self.tensor_cores(annotation)
            case "unroll" | "vectorize" | "warps" | "registers" | "cluster" | "pipeline":
                self.number(annotation)
            case "precision":
                self.precision(annotation)
            case "atomics":
                value = self.single(annotation)
                if isinstance(value, Name) and value.name == "relaxed":
                    self.hint(relaxed=True)
                elif value is not None:
                    self.wrong(value, "the argument of `@atomics`", "`relaxed`")
            case "deterministic" | "trace":
                if self.no_arguments(annotation):
                    self.hint(deterministic=True) if name == "deterministic" else self.set(trace=True)
            case "name":
                text = self.single(annotation)
                if isinstance(text, StringLiteral):
                    self.set(name=text.value)
                elif text is not None:
                    self.wrong(text, "the name of a kernel", "a string", 'write `@name("k")`')
            case "parallel" if annotation.arguments:
                self.parallel(annotation)
            case "parallel" | "serial":
                hint = "write `@parallel(data)`" if name == "parallel" and self.listed else "move it to the line before the loop"
                self.fault("0402", f"`@{name}` stands before a `for`, not at the block", span, hint)
            case _:
                known = [*dict.fromkeys((*BLOCK_ANNOTATIONS, *LOOP_ANNOTATIONS))]
                hint = did_you_mean(f"@{name}", [f"@{k}" for k in known]) or "there are " + ", ".join(f"`@{k}`" for k in known)
                self.fault("0401", f"there is no annotation `@{name}`", span, hint)

    def relaxed(self, atomics: Annotation) -> None:
        """Whether what the block says besides leaves `@atomics(relaxed)` a meaning."""
        if self.metadata.kernel_type is KernelType.CUSTOM:
            hint = "leave it out: the atomics that a `custom` kernel calls come in any order"
            self.fault("0402", "`@atomics` doesn't belong to `custom` kernels", atomics.span, hint)
            return
        hints = self.metadata.hints
        if hints.relaxed and (hints.deterministic or hints.floats == "strict"):
            contrary = "@deterministic" if hints.deterministic else "@precision(floats=strict)"
            message = f"`@atomics(relaxed)` contradicts `{contrary}`: its sums differ from run to run"
            self.fault("0402", message, atomics.span, "keep one of them")

    # ---- one annotation each ----

    def kernel(self, annotation: Annotation) -> None:
        if not annotation.arguments:
            self.count(annotation, "names no kind")
            return
        head, *rest = annotation.arguments
        value = head.value
        options: tuple[Argument, ...] = tuple(rest)
        if isinstance(value, Call):
            options = (*value.arguments, *rest)
            value = value.function
        if head.name is not None or not isinstance(value, Name):
            self.fault("0401", "the kind of a kernel is a name", value.span, f"kinds are {_kinds()}")
            return
        kind = KERNEL_ALIASES.get(value.name) or next((k for k in KernelType if k.value == value.name), None)
        if kind is None:
            names = [*(k.value for k in KernelType), *KERNEL_ALIASES]
            hint = did_you_mean(value.name, names)
            kinds = f"kinds are {_kinds()}"
            self.fault("0401", f"there is no kernel kind `{value.name}`", value.span, f"{hint} {kinds}" if hint else kinds)
            return
        read, faults = read_options(kind, options, self.evaluate, annotation.span, self.functions)
        self.found += faults
        self.set(kernel_type=kind, options=read)

    def extents(self, annotation: Annotation) -> None:
        sizes: dict[str, int] = {"x": 1, "y": 1, "z": 1}
        given: set[str] = set()
        names = iter("xyz")
        if not annotation.arguments:
            self.count(annotation, "lacks the argument `x`")
            return
        for argument in annotation.arguments:
            axis = argument.name or next(names, "")
            if not axis:
                self.count(annotation, f"takes at most 3 arguments, but {len(annotation.arguments)} are given", span_of_argument(argument))
                return
            if axis not in sizes:
                self.count(annotation, f"has no parameter `{axis}`", span_of_argument(argument))
                return
            if axis in given:
                self.count(annotation, f"has `{axis}` twice", span_of_argument(argument))
                return
            given.add(axis)
            value = self.positive(argument.value, f"`{axis}` of `@{annotation.name}`")
            if value is None:
                return
            sizes[axis] = value
        x, y, z = sizes["x"], sizes["y"], sizes["z"]
        if annotation.name == "grid":
            self.set(grid_size=(x, y, z))
        elif self.threads_fit(annotation, x, y, z):
            self.set(workgroup_size=(x, y, z))

    def threads_fit(self, annotation: Annotation, x: int, y: int, z: int) -> bool:
        fits = workgroup_that_fits(x, y, z)
        if fits == (x, y, z):
            return True
        hint = f"`@workgroup({', '.join(map(str, _trimmed(fits)))})` fits"
        shown = " x ".join(map(str, _trimmed((x, y, z))))
        if x * y * z > MAX_THREADS:
            product = f"{shown} = {x * y * z} threads" if len(_trimmed((x, y, z))) > 1 else f"{x} threads"
            self.fault("0502", f"a workgroup of {product} is over the limit of {MAX_THREADS}", annotation.span, hint)
        else:
            self.fault("0502", f"z = {z} is over the limit of {MAX_THREADS_Z} threads along z", annotation.span, hint)
        return False

    def shared(self, annotation: Annotation) -> None:
        value = self.single(annotation, "bytes")
        size = None if value is None else self.positive(value, "the size of shared memory")
        if size is None:
            return
        if size > MAX_SHARED_BYTES:
            self.fault(
                "0503",
                f"{size} bytes of shared memory are over the limit of {MAX_SHARED_BYTES} bytes (227 KiB) of the largest device (sm_90)",
                annotation.span,
                f"`@shared({MAX_SHARED_BYTES})` is the most there is",
            )
            return
        self.set(shared_memory_bytes=size)

    def tile(self, annotation: Annotation) -> None:
        if not annotation.arguments:
            self.count(annotation, "names no axis")
        entries: dict[str, int] = {}
        for argument in annotation.arguments:
            if argument.name is None:
                self.count(annotation, "takes named arguments only", span_of_argument(argument))
                return
            value = self.positive(argument.value, f"`{argument.name}` of `@tile`")
            if value is not None:
                entries[argument.name] = value
        self.hint(tile=tuple(entries.items()))

    def check_tile(self, compute: Compute) -> None:
        """Tiles are named by loops of the block, or by the parts of a product."""
        loops = dict.fromkeys(name for loop in _loops(compute.body) for clause in loop.clauses for name in clause.names)
        arguments = [argument for annotation in compute.annotations if annotation.name == "tile" for argument in annotation.arguments]
        for argument in arguments:
            if argument.name is not None and argument.name not in (*loops, *PARTS):
                known = ", ".join(f"`{name}`" for name in loops)
                hint = f"its loops are {known}; `m`, `n` and `k` are rows, columns and terms of a product"
                self.fault("0204", f"`@tile` names `{argument.name}`, which is no loop of the block", span_of_argument(argument), hint)

    def broadcast(self, annotation: Annotation) -> None:
        names = [a.value for a in annotation.arguments if a.name is None]
        axes = [a.value for a in annotation.arguments if a.name == "axis"]
        strange = next((a for a in annotation.arguments if a.name not in (None, "axis")), None)
        if strange is not None:
            self.count(annotation, f"has no parameter `{strange.name}`", span_of_argument(strange))
            return
        if len(names) != 1 or len(axes) != 1:
            self.count(annotation, "takes an input and its `axis`")
            return
        if not isinstance(names[0], Name):
            self.wrong(names[0], "the first argument of `@broadcast`", "the name of an input")
            return
        axis = self.evaluate(axes[0])
        if type(axis) is int:
            axis = (axis,)
        if isinstance(axis, list):
            axis = tuple(axis)
        if not isinstance(axis, tuple) or not all(type(a) is int for a in axis):
            self.wrong(axes[0], "`axis` of `@broadcast`", "an int or a tuple of ints")
            return
        self.set(broadcast=(*self.metadata.broadcast, (names[0].name, axis)))

    def shape(self, annotation: Annotation) -> None:
        stated: list[StatedShape] = []
        for argument in annotation.arguments:
            if argument.name is None or not isinstance(argument.value, ListLiteral):
                self.count(annotation, "takes the extents of inputs", span_of_argument(argument))
                return
            stated.append(StatedShape(argument.name, argument.value.elements, span_of_argument(argument)))
        if not stated:
            self.count(annotation, "names no input")
        self.set(shapes=tuple(stated))

    def tensor_cores(self, annotation: Annotation) -> None:
        if not annotation.arguments:
            self.hint(use_tensor_cores=True)
            return
        value = self.single(annotation)
        known = self.evaluate(value) if value is not None else None
        if isinstance(value, Name) and value.name in ("on", "off"):
            self.hint(use_tensor_cores=value.name == "on")
        elif isinstance(known, bool):
            self.hint(use_tensor_cores=known)
        elif value is not None:
            self.wrong(value, "the argument of `@tensor_cores`", "`on` or `off`")

    def number(self, annotation: Annotation) -> None:
        value = self.single(annotation, "stages" if annotation.name == "pipeline" else "n")
        size = None if value is None else self.positive(value, f"the argument of `@{annotation.name}`")
        if size is None:
            return
        match annotation.name:
            case "unroll":
                self.hint(unroll_factor=size)
            case "vectorize":
                self.hint(vector_width=size)
            case "pipeline":
                self.hint(pipeline_stages=size)
            case "warps":
                self.hint(warps=size)
            case "cluster":
                self.hint(cluster=size)
            case "registers":
                self.set(max_registers=size)

    def precision(self, annotation: Annotation) -> None:
        given: dict[str, Expression] = {}
        for argument in annotation.arguments:
            name = argument.name or "acc"
            if name not in ("acc", "products", "floats"):
                self.count(annotation, f"has no parameter `{name}`", span_of_argument(argument))
                return
            if name in given:
                self.count(annotation, f"is given `{name}` twice", span_of_argument(argument))
                return
            given[name] = argument.value
        if not given:
            self.count(annotation, "takes `acc`, `products` or `floats`")
            return
        words = {"acc": tuple(d.value for d in DType if d is not DType.BOOL), "products": PRODUCTS, "floats": FLOATS}
        for name, value in sorted(given.items(), key=lambda one: one[0], reverse=True):
            if not isinstance(value, Name) or value.name not in words[name]:
                wanted = "a number type, such as f32" if name == "acc" else " or ".join(f"`{word}`" for word in words[name])
                self.wrong(value, f"`{name}` of `@precision`", wanted)
            elif name == "floats" and value.name == "strict" and self.metadata.hints.products == "tf32":
                message = "`products=tf32` rounds factors, and `floats=strict` allows nothing that isn't written"
                self.fault("0402", message, annotation.span, "leave one of them out")
            else:
                self.hint(**{"accumulator" if name == "acc" else name: value.name})

    # ---- loops ----

    def check_loops(self, body: Block) -> None:
        """Annotations before a `for` are those for loops, each once."""
        for loop in _loops(body):
            first: dict[str, Annotation] = {}
            for annotation in loop.annotations:
                self.loop_annotation(annotation)
                before = first.setdefault(annotation.name, annotation)
                if before is not annotation and not same(before, annotation):
                    self.fault(
                        "0402",
                        f"`@{annotation.name}` is given twice with different values",
                        annotation.span,
                        "keep one of them",
                        (Label(before.span, "first given here"),),
                    )
            if "parallel" in first and "serial" in first:
                self.fault(
                    "0402",
                    "`@parallel` and `@serial` contradict each other",
                    first["serial"].span,
                    "keep one of them",
                    (Label(first["parallel"].span, "the other is here"),),
                )

    def loop_annotation(self, annotation: Annotation) -> None:
        name = annotation.name
        if name in ("unroll", "vectorize"):
            value = self.single(annotation, "n") if annotation.arguments else None
            size = None if value is None else self.positive(value, f"the argument of `@{name}`")
            if value is not None and size is not None and name == "vectorize" and size not in VECTORS:
                self.wrong(value, "the argument of `@vectorize`", f"1, 2, 4, 8, 16, 32 or 64, not {size}")
        elif name in ("parallel", "serial"):
            self.no_arguments(annotation)
        elif name in BLOCK_ANNOTATIONS:
            self.fault("0402", f"`@{name}` belongs to the block, not to a loop inside", annotation.span, "move it to the top of the block")
        else:
            known = [f"@{k}" for k in LOOP_ANNOTATIONS]
            hint = did_you_mean(f"@{name}", known) or "before a `for` stand " + ", ".join(f"`{k}`" for k in known)
            self.fault("0401", f"there is no annotation `@{name}`", annotation.span, hint)


def workgroup_that_fits(x: int, y: int, z: int) -> tuple[int, int, int]:
    """The sizes, the largest halved until the limits hold."""
    sizes = [x, y, min(z, MAX_THREADS_Z)]
    while sizes[0] * sizes[1] * sizes[2] > MAX_THREADS:
        largest = max(range(3), key=lambda i: sizes[i])
        sizes[largest] = (sizes[largest] + 1) // 2
    return sizes[0], sizes[1], sizes[2]


def _trimmed(sizes: tuple[int, int, int]) -> tuple[int, ...]:
    return sizes if sizes[2] > 1 else sizes[:2] if sizes[1] > 1 else sizes[:1]


def _key(annotation: Annotation) -> str:
    if annotation.name == "broadcast":
        head = next((a.value for a in annotation.arguments if a.name is None), None)
        return f"broadcast {head.name}" if isinstance(head, Name) else "broadcast"
    return annotation.name


def _kinds() -> str:
    return ", ".join(f"`{k.value}`" for k in KernelType)


def _loops(block: Block) -> Iterator[For]:
    """All loops in a block, outermost first."""
    for statement in block.statements:
        match statement:
            case For():
                yield statement
                yield from _loops(statement.body)
            case While():
                yield from _loops(statement.body)
            case ExpressionStatement(value=If(then=then, otherwise=otherwise)):
                yield from _loops(then)
                if otherwise is not None:
                    yield from _loops(otherwise)
            case ExpressionStatement(value=Block() as inner):
                yield from _loops(inner)
            case ExpressionStatement(value=Match(arms=arms)):
                for arm in arms:
                    if isinstance(arm.body, Block):
                        yield from _loops(arm.body)
