"""The state of one walk over a body: where instructions go, what names mean, what is known of indices, and what was seen (reads and
writes, errors). `compute` walks until types and sizes are settled, and once more to emit."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from compiler.diagnostics import Diagnostic, Diagnostics, Label
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.instruction import Region, Value
from compiler.hir.module import FaultSite
from compiler.hir.types import Mem
from compiler.lowering.bindings import Bindings
from compiler.lowering.enclosing import Enclosing
from compiler.lowering.flows import Flows, Key
from compiler.lowering.kernel import Equation, Signature
from compiler.lowering.numbers import Number, Operand
from compiler.lowering.ranges import NumberRange
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import DType
from runtime.records import Factory, define, field, frozen


class Fault(Exception):
    """An error that ends the statement it is found in; the walk goes on with the next one."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def fault(
    code: str,
    message: str,
    span: Span | None,
    label: str = "",
    hint: str | None = None,
    others: tuple[Label, ...] = (),
    notes: tuple[str, ...] = (),
) -> Fault:
    return Fault(Diagnostic(code, message, span, label, others, notes, hint))


def silent() -> Fault:
    """An error whose cause was reported already."""
    return fault("", "", None)


@define(eq=False)
class Memory:
    """A tensor that the body indexes. `role`: input, captured, result, shared, workspace, tile,
    array. `flat`: one index runs over all elements of
    `shape`. `open`: a result whose rank its first index decides. `called`: what the program calls it, where that isn't its name in HIR."""

    name: str
    value: Value
    dtype: DType
    dims: tuple[Affine, ...]
    role: str
    writable: bool = False
    flat: bool = False
    shape: tuple[Affine, ...] = ()
    span: Span | None = None
    open: bool = False
    called: str = ""
    flow: Key | None = None
    """Of what is written without a type: under what the types that reach its elements are noted."""

    @property
    def in_words(self) -> str:
        return self.called or self.name

    def settle_rank(self, rank: int) -> None:
        self.dims = self.shape = tuple(Affine.of(f"{self.name}.{axis}") for axis in range(rank))
        assert isinstance(self.value.type, Mem)
        self.value.type = Mem(self.value.type.dtype, self.dims)
        self.open = False


@frozen(eq=False)
class Access:
    """One read or write, with what surrounds it: `ranges` of the enclosing loops, `guards` (forms at least 0), and `path`, the
    branches and unbounded loops it stands in."""

    memory: str
    index: tuple[Affine, ...]
    ranges: tuple[NumberRange, ...]
    guards: tuple[Affine, ...]
    path: tuple[tuple[int, int], ...]
    span: Span
    index_spans: tuple[Span, ...]
    words: str
    is_write: bool = False
    accumulates: bool = False
    number: Number | None = None
    opaque: frozenset[str] = frozenset()
    upper: Mapping[str, Affine] = field(factory=dict)
    """Names that a `min` or `clamp` bounds by sizes."""


@define(eq=False)
class Body:
    """`final` False: a walk that only finds out. `names`, `here`: what names mean and what is known where the walk stands; `flows`: the
    types of variables."""

    signature: Signature
    kernel: KernelMetadata
    owner: FunctionBuilder
    build: Builder
    final: bool
    names: Bindings = Factory(Bindings)
    here: Enclosing = Factory(Enclosing)
    flows: Flows = Factory(Flows)
    in_function: Callable[[Affine], Affine] = lambda form: form
    """A form over the launch's facts in the symbols of the function."""

    # What the kernel's kind does with `yield`, and with loops around it.
    on_yield: "Callable[[Body, nodes.Yield], None] | None" = None
    on_for: "Callable[[Body, nodes.For], bool] | None" = None
    marks: dict[Span, dict[str, object]] = Factory(dict)
    """What annotations say of the loops of clauses."""

    # What was seen.
    memories: dict[str, Memory] = Factory(dict)
    workspaces: list[tuple[Value, DType, tuple[Affine, ...]]] = Factory(list)
    results: tuple[str, ...] = ()
    cleared: frozenset[str] = frozenset()
    """Variables of several elements that begin as 0, since an element may be read that nothing has written."""
    result_write: Span | None = None
    """The first write to a result."""
    reduced: dict[int, Operand] = Factory(dict)
    """The values of `reduce` over whole tensors, by their nodes."""
    accesses: list[Access] = Factory(list)
    factors: set[str] = Factory(set)
    """Names of the launch that multiply or divide what varies in an index, a bound or a comparison (`Number.factors`)."""
    equations: list[Equation] = Factory(list)
    sites: list[FaultSite] = Factory(list)
    diagnostics: Diagnostics = Factory(Diagnostics)

    # Functions that are written out in place.
    inlining: list[tuple[str, Span]] = Factory(list)
    calls: int = 0
    _constructs: int = 0

    @property
    def kind(self) -> KernelType | None:
        return self.kernel.kernel_type

    def is_of_launch(self, name: str) -> bool:
        """Whether a name in a form is a size or an int that the launch knows."""
        return self.here.is_size(name) and name.partition(".")[0] not in self.results

    def construct(self) -> int:
        """A number for a branch or an unbounded loop."""
        self._constructs += 1
        return self._constructs

    # ---- where instructions go ----

    @contextmanager
    def at(self, build: Builder) -> Iterator[None]:
        """Emit through another builder for a while."""
        before, self.build = self.build, build
        build.span = before.span
        try:
            yield
        finally:
            self.build = before

    @contextmanager
    def spanned(self, span: Span) -> Iterator[None]:
        before, self.build.span = self.build.span, span
        build = self.build
        try:
            yield
        finally:
            build.span = before

    def fresh_region(self) -> tuple[Region, Builder]:
        region = Region()
        return region, self.build.child(region)

    # ---- what was seen ----

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.add(diagnostic)

    def site(self, site: FaultSite) -> int:
        if site in self.sites:
            return self.sites.index(site)
        self.sites.append(site)
        return len(self.sites) - 1
