"""Minima and maxima of 16 bits with a constant, in 32 bits. From 12.8 to 13.3, NVIDIA's assembler makes a minimum and the comparison of
its result with the same constant (`min(x, 63) == 63`) one instruction, `VIMNMX.U16x2 R0, P0, P0, ..`, for chips of compute capability 9.0
and newer. That works on two halves of a register, and what it says of the upper one, which is empty, overwrites what it says of the
lower: the comparison is always true. In 32 bits the comparison is right."""

import re

_CONSTANT = re.compile(r"\bmov\.[bus]16\s+(%\w+), -?\d+;")
_LIMITED = re.compile(r"\b(min|max)\.([us])16\s+(%\w+), (%\w+), (-?\d+|%\w+);")

_IN_32_BITS = """{{
	.reg .b32 %a, %b;
	cvt.{sign}32.{sign}16 %a, {left};
	{right};
	{operator}.{sign}32 %a, %a, %b;
	cvt.u16.u32 {result}, %a;
	}}"""


def in_32_bits(ptx: str) -> str:
    """The PTX text without minima and maxima of 16 bits that have a constant on one side."""
    constants = set(_CONSTANT.findall(ptx))

    def widened(limited: re.Match[str]) -> str:
        operator, sign, result, left, right = limited.groups()
        if not right.startswith("%"):
            right = f"mov.b32 %b, {int(right) & 0xFFFF if sign == 'u' else right}"
        elif constants.isdisjoint((left, right)):
            return limited.group()
        else:
            right = f"cvt.{sign}32.{sign}16 %b, {right}"
        return _IN_32_BITS.format(operator=operator, sign=sign, result=result, left=left, right=right)

    return _LIMITED.sub(widened, ptx)
