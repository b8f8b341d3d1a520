"""The state of lowering one body: where instructions go, what names mean, what is known of indices, and what was seen
(reads, writes, sizes, errors). One `Body` is one walk over the tree; `compute` walks until types and sizes are settled."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import Factory, field

from compiler.diagnostics import Diagnostic, Diagnostics, Label
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.instruction import Region, Value
from compiler.hir.module import FaultSite
from compiler.hir.prover import Inequalities
from compiler.lowering.kernel import Signature
from compiler.lowering.numbers import Number, Operand
from compiler.lowering.ranges import Range
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import DType
from runtime.records import define, frozen


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
class Variable:
    """A `var`: its slot, and the type that flowed in. `fixed`: the type was written or came from a typed value."""

    name: str
    key: tuple[Any, ...]
    slot: Value
    dtype: DType
    weak: bool
    origin: DType | None
    fixed: bool
    span: Span
    depth: int


@frozen
class Binding:
    """What a name means: an operand, a variable, or (for messages) how it was bound."""

    value: Operand | Variable
    span: Span
    how: str


@define(eq=False)
class Memory:
    """A tensor that the body indexes. `role`: input, captured, result, shared,
    workspace. `flat`: one index runs over all elements of `shape`."""

    name: str
    value: Value
    dtype: DType
    dims: tuple[Affine, ...]
    role: str
    writable: bool = False
    flat: bool = False
    shape: tuple[Affine, ...] = ()
    span: Span | None = None


@frozen(eq=False)
class Access:
    """One read or write, with what surrounds it: `ranges` of the enclosing loops, `guards` (forms at least 0), and `path`, the
    branches and unbounded loops it stands in."""

    memory: str
    index: tuple[Affine, ...]
    ranges: tuple[Range, ...]
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
    """`final` False: a walk that only finds out. Names of sizes that aren't solved yet stand for themselves."""

    signature: Signature
    kernel: KernelMetadata
    owner: FunctionBuilder
    build: Builder
    final: bool
    diagnostics: Diagnostics = Factory(Diagnostics)
    scopes: list[dict[str, Binding]] = Factory(lambda: [{}])
    memories: dict[str, Memory] = Factory(dict)
    facts: Inequalities = Factory(Inequalities)
    ranges: list[Range] = Factory(list)
    loops: list[tuple[str, Range]] = Factory(list)
    guards: list[Affine] = Factory(list)
    path: list[tuple[int, int]] = Factory(list)
    sizes: dict[str, Affine] = Factory(dict)
    size_candidates: frozenset[str] = frozenset()
    sizes_wanted: dict[str, Span] = Factory(dict)
    opaque: set[str] = Factory(set)
    flows: dict[tuple[Any, ...], tuple[DType, bool, DType | None]] = Factory(dict)
    new_flows: dict[tuple[Any, ...], tuple[DType, bool, DType | None]] = Factory(dict)
    accesses: list[Access] = Factory(list)
    sites: list[FaultSite] = Factory(list)
    equations: list[Any] = Factory(list)
    workspaces: list[tuple[Value, DType, tuple[Affine, ...]]] = Factory(list)
    widen: DType | None = None
    inlining: list[tuple[str, Span]] = Factory(list)
    counter: int = 0
    calls: int = 0
    on_yield: Callable[["Body", nodes.Yield], None] | None = None
    on_for: Callable[["Body", nodes.For], bool] | None = None
    run_block: Callable[["Body", nodes.Block], Operand] | None = None
    results: tuple[str, ...] = ()
    written_through: dict[str, str] = Factory(dict)
    shared_names: dict[str, Span] = Factory(dict)
    barriers: list[Span] = Factory(list)
    extra: dict[str, Any] = Factory(dict)
    used: set[str] = field(factory=set)
    extent: nodes.Expression | None = None
    """The extent, of a loop or of a result, that is being evaluated."""

    @property
    def kind(self) -> KernelType | None:
        return self.kernel.kernel_type

    # ---- names ----

    def lookup(self, name: str) -> Binding | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def bind(self, name: str, value: Operand | Variable, span: Span, how: str) -> None:
        self.scopes[-1][name] = Binding(value, span, how)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def sizing(self, extent: nodes.Expression) -> Iterator[None]:
        """While an extent is evaluated."""
        before, self.extent = self.extent, extent
        try:
            yield
        finally:
            self.extent = before

    @contextmanager
    def widening(self, dtype: DType | None) -> Iterator[None]:
        """While what is evaluated goes into a sum of this type (None: into none)."""
        before, self.widen = self.widen, dtype
        try:
            yield
        finally:
            self.widen = before

    # ---- places ----

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

    @contextmanager
    def branch(self, number: int, branch: int, guards: tuple[Affine, ...] = ()) -> Iterator[None]:
        """Inside branch `branch` of the construct `number`, where `guards` hold."""
        mark, kept = self.facts.mark(), len(self.guards)
        self.path.append((number, branch))
        self.assume(guards)
        try:
            yield
        finally:
            self.path.pop()
            self.facts.forget(mark)
            del self.guards[kept:]

    def assume(self, guards: tuple[Affine, ...]) -> None:
        for guard in guards:
            self.guards.append(guard)
            self.facts.at_least_zero(guard)

    def construct(self) -> int:
        self.counter += 1
        return self.counter

    def enter_range(self, one: Range) -> None:
        self.ranges.append(one)
        self.facts.at_least_zero(*one.inequalities)

    # ---- findings ----

    def report(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.add(diagnostic)

    def site(self, site: FaultSite) -> int:
        if site in self.sites:
            return self.sites.index(site)
        self.sites.append(site)
        return len(self.sites) - 1

    def size(self, name: str, span: Span) -> Number | None:
        """The size of that name, when it is one."""
        from compiler.lowering.numbers import affine

        if name in self.sizes:
            self.used.add(name)
            return affine(self.sizes[name])
        if name in self.size_candidates:
            self.sizes_wanted.setdefault(name, span)
            return affine(Affine.of(name))
        return None

    def is_size(self, name: str) -> bool:
        """Whether a name in a form is a size or fact of the launch, rather than something that varies in the body."""
        return name not in self.opaque and all(name != one.name for one in self.ranges)
