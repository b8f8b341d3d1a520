"""Tier 0: programs run as Python code objects, at once and everywhere."""

from compiler.backends.host.program import HostProgram, HostRuntime, compile_program
from compiler.backends.host.values import Bounds

__all__ = ["Bounds", "HostProgram", "HostRuntime", "compile_program"]
