"""A compute block as something that can be called: specialised by what of its values decides the kernel, and planned once for each layout
and size of them."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.launch.cache import CALLS, KERNELS, Cache
from compiler.launch.cpu import CpuCall, on_host
from compiler.launch.kernels import BuiltKernel, KernelOptions, built, lower
from compiler.launch.numbered import VERSIONS, numbered, numbers_of
from compiler.launch.plan import planned
from compiler.launch.signature import as_tensor, call_key, signature_of
from compiler.launch.updates import require_updatable
from compiler.lowering.kernel import LoweredKernel, NeedsNumbers, NumbersWanted, Signature
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import names_needing_values
from compiler.typed_ast.types import Type
from runtime.records import Factory, define, field
from runtime.uncollected import uncollected

COLLISION = "0404"

Warn = Callable[[Diagnostic], None]


def _kernels(known: Mapping[Signature, BuiltKernel]) -> Cache[Signature, BuiltKernel]:
    return Cache(KERNELS, known.items())


@define(eq=False)
class ComputeBlock:
    """One `compute` expression of a program, callable with the values of its inputs and captured names. It runs on the CPU, and has the
    kernels that every device's launches are made of. `built`: those that are there already."""

    compute: nodes.Compute
    functions: Mapping[str, nodes.Function]
    declared: Mapping[str, Type]
    """Types of names as the checker knows them: where dim names come from."""
    options: KernelOptions
    warn: Warn
    _built: Cache[Signature, BuiltKernel] = field(factory=dict, converter=_kernels)
    _lowered: Cache[Signature, LoweredKernel | NeedsNumbers] = Factory(partial(Cache, KERNELS))
    """Blocks before they are analysed, which a launch's numbers may replace."""
    _versions: dict[Signature, set[Signature]] = Factory(dict)
    """By signatures that have kernels without numbers."""
    _calls: Cache[Any, CpuCall] = Factory(partial(Cache, CALLS))

    @cached_property
    def constants(self) -> frozenset[str]:
        return names_needing_values(self.compute)

    @cached_property
    def updated(self) -> frozenset[str]:
        """The inputs that it updates."""
        return frozenset(entry.name for entry in self.compute.inputs if entry.mutable)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Compiles if this is a new signature, and runs. Raises ZyntaxError."""
        given = {name: on_host(value) for name, value in values.items()}
        return self.call_for(given, values)(given, values, self.options.threads)

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any]:
        """The call for another thread: compiled, its sizes checked. Raises ZyntaxError."""
        given = {name: on_host(value) for name, value in values.items()}
        call = self.call_for(given, values)
        call.native.prepare()
        return lambda: call(given, values, self.options.threads)

    def call_for(self, given: Mapping[str, Any], values: Mapping[str, Any]) -> CpuCall:
        """The planned call for these values, `given` as they lie on the host. Raises ZyntaxError."""
        key = self.call_key(given)
        call = self._calls.get(key)
        if call is None:
            with uncollected():
                kernel = self.kernel_of(given)
                require_updatable(kernel.updated, values, self.compute)
                self.tell(kernel.unheeded(self.compute))
                call = self._calls.keep(key, CpuCall.of(planned(kernel, given), self.compute))
        return call

    def call_key(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """What of these values decides the plan of a call, where none is a list or an array."""
        constants = self.constants
        return tuple([call_key(value, name in constants) for name, value in values.items()])

    def kernel_of(self, values: Mapping[str, Any]) -> BuiltKernel:
        """The kernel for these inputs. Raises ZyntaxError."""
        return self.kernel_for(self.signature(values))

    def signature(self, values: Mapping[str, Any]) -> Signature:
        """What of these inputs decides the kernel. Raises ZyntaxError."""
        signature = self.general_signature(values)
        known: dict[str, int] | None = None
        while (wanted := self._wanted(signature)).names:
            known = numbers_of({name: as_tensor(value) for name, value in values.items()}) if known is None else known
            with_numbers = numbered(signature, wanted, known)
            if not self._is_new_version(signature, with_numbers):
                break
            signature = with_numbers
        return signature if known is None else self._without_collisions(signature, known)

    def _without_collisions(self, signature: Signature, known: Mapping[str, int]) -> Signature:
        """The signature with numbers; with those of all sizes where iterations write one element for others (`out[n * s + k]`)."""
        try:
            self.kernel_for(signature)
        except ZyntaxError as error:
            rules = self._lowered[signature].wanted.sizes
            if rules and any(diagnostic.code == COLLISION for diagnostic in error.diagnostics):
                return numbered(signature, NumbersWanted([rule.name for rule in rules], rules), known)
        return signature

    def general_signature(self, values: Mapping[str, Any]) -> Signature:
        """The same without numbers of the launch. Raises ZyntaxError."""
        return signature_of(self.compute, values, self.declared, self.functions, self.constants)

    def _wanted(self, signature: Signature) -> NumbersWanted:
        """The numbers with which a launch of this signature has another kernel. Raises ZyntaxError."""
        if signature in self._built:
            return self._built[signature].lowered.wanted
        if signature not in self._lowered:
            try:
                self._lowered[signature] = lower(self.compute, signature, self.options)
            except NeedsNumbers as needs:
                self._lowered[signature] = needs
        return self._lowered[signature].wanted

    def _is_new_version(self, signature: Signature, with_numbers: Signature) -> bool:
        """Whether a launch takes the kernel with numbers: always where there is no other one, else for few numbers."""
        if isinstance(self._lowered.get(signature), NeedsNumbers):
            return True
        versions = self._versions.setdefault(signature, set())
        if len(versions) < VERSIONS:
            versions.add(with_numbers)
        return with_numbers in versions

    def tell(self, warnings: Iterable[Diagnostic]) -> None:
        for warning in warnings:
            self.warn(warning)

    def kernel_for(self, signature: Signature) -> BuiltKernel:
        """Raises ZyntaxError."""
        kernel = self._built.get(signature)
        if kernel is None:
            self._wanted(signature)
            lowered = self._lowered[signature]
            if isinstance(lowered, NeedsNumbers):
                raise lowered
            kernel = self._built.keep(signature, built(lowered, self.compute, self.options))
            if len(self._built) == 1:
                self.tell(kernel.lowered.warnings)
        return kernel
