"""Packages of extras that aren't installed, as coded messages."""

from compiler.diagnostics import Diagnostic, Severity
from runtime.extras import PackageMissing


def package_missing(missing: PackageMissing) -> Diagnostic:
    """What needs it was asked for, and stops."""
    return Diagnostic("0506", str(missing), hint=missing.hint)


def pictures_left_out(missing: PackageMissing) -> Diagnostic:
    """A replay goes without its pictures: the report draws the same charts itself."""
    hint = f"{missing.hint}; report.html has the same charts"
    return Diagnostic("0506", f"the PNG files of the charts are left out: {missing}", hint=hint, severity=Severity.NOTE)
