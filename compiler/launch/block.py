"""A compute block as something that can be called: specialised by what of its values decides the kernel, and planned once for each layout
and size of them."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from attrs import Factory, field

from compiler.diagnostics import Diagnostic
from compiler.launch.cache import CALLS, KERNELS, Cache
from compiler.launch.cpu import CpuCall, on_host
from compiler.launch.kernels import BuiltKernel, KernelOptions, build
from compiler.launch.plan import planned
from compiler.launch.signature import call_key, signature_of
from compiler.launch.updates import require_updatable
from compiler.lowering.kernel import Signature
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import names_needing_values
from compiler.typed_ast.types import Type
from runtime.records import define

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
    _calls: Cache[Any, CpuCall] = Factory(partial(Cache, CALLS))

    @cached_property
    def constants(self) -> frozenset[str]:
        return names_needing_values(self.compute)

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
            kernel = self.kernel_of(given)
            require_updatable(kernel.updated, values, self.compute)
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
        return signature_of(self.compute, values, self.declared, self.functions, self.constants)

    def kernel_for(self, signature: Signature) -> BuiltKernel:
        kernel = self._built.get(signature)
        if kernel is None:
            kernel = self._built.keep(signature, build(self.compute, signature, self.options))
            if len(self._built) == 1:
                for warning in kernel.lowered.warnings:
                    self.warn(warning)
        return kernel
