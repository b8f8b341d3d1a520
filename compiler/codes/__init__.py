"""Every error code once: title, explanation, a wrong and a right program. `zyntax explain` and docs/errors.md are made from it."""

from compiler.codes import devices, kernels, names, runtime, shapes, syntax, trading, warnings
from compiler.codes.entry import Code

FAMILIES: dict[str, tuple[Code, ...]] = {
    "Text and syntax": syntax.CODES,
    "Names and types": names.CODES,
    "Shapes and sizes": shapes.CODES,
    "Kernels": kernels.CODES,
    "Devices and limits": devices.CODES,
    "Warnings and notes": warnings.CODES,
    "Exact numbers, orders and risk (QuantDSL)": trading.CODES,
    "Run time": runtime.CODES,
}
"""Families in the order of their numbers."""

CODES: dict[str, Code] = {code.number: code for family in FAMILIES.values() for code in family}
"""All codes by their four digits."""


def digits_of(text: str) -> str:
    """The four digits that a user means by `ZYN0404`, `zyn404` or `404`."""
    digits = text.strip().upper().removeprefix("ZYN").strip()
    return digits.zfill(4) if digits.isdecimal() else digits
