"""The engine, built once for all tests of a process, and compiled once for each level."""

from functools import cache

from compiler.backends.native.compile import HostModule, compile_module
from compiler.hir.module import HirModule, OptimizationLevel
from quantdsl.engine.build import engine_module


@cache
def whole_engine() -> HirModule:
    return engine_module()


@cache
def compiled_engine(level: OptimizationLevel) -> HostModule:
    return compile_module(whole_engine(), level)
