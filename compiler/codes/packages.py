"""Packages of extras that aren't installed, as coded messages."""

from compiler.diagnostics import Diagnostic
from runtime.extras import PackageMissing


def package_missing(missing: PackageMissing) -> Diagnostic:
    """What needs it was asked for, and stops."""
    return Diagnostic("0506", str(missing), hint=missing.hint)
