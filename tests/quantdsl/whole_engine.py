"""The engine, built once for all tests of a process, and compiled once for each level by whichever process of a run needs it first."""

from functools import cache

from compiler.backends.native.link import ObjectModule
from compiler.hir.module import HirModule, OptimizationLevel
from quantdsl.engine.build import engine_module
from quantdsl.run import open as opening
from runtime.cache.store import store


@cache
def whole_engine() -> HirModule:
    return engine_module()


@cache
def compiled_engine(level: OptimizationLevel) -> ObjectModule:
    key = opening.kept.key("engine", level.value)
    return opening.kept.found(store(), key) or opening._kept(store(), key, whole_engine(), level.value, {})
