"""Divisions and roots of f32 without calls. ptxas puts a branch to a function of its own around each `div.rn`, `rcp.rn` and `sqrt.rn`, and
where a kernel has such a call it waits for each product of a warpgroup before the next. So in kernels with warpgroups they are
written out in f64: an approximation of the reciprocal (or of the reciprocal root), two steps of Newton's and a correction by the
remainder give a quotient, or root, that is off by less than two units of f64 and exact where f64 has it, which rounds to f32 as the
exact one does (Figueroa, When is double rounding innocuous?, 1995). Zeros, infinities and NaN are those of the approximation."""

import re

_OPERAND = r"(%\w+|0[fF][0-9a-fA-F]{8})"
_CALLED = re.compile(rf"\b(?:(div)\.rn\.f32\s+(%\w+),\s*{_OPERAND},|(rcp|sqrt)\.rn\.f32\s+(%\w+),)\s*{_OPERAND};")

_QUOTIENT = """{{
	.reg .f64 %a, %b, %n, %y, %e, %q, %r, %s, %t;
	.reg .pred %p;
	cvt.f64.f32 %a, {over};
	cvt.f64.f32 %b, {under};
	neg.f64 %n, %b;
	rcp.approx.ftz.f64 %y, %b;
	mul.rn.f64 %s, %a, %y;
	fma.rn.f64 %e, %n, %y, 0d3FF0000000000000;
	fma.rn.f64 %y, %y, %e, %y;
	fma.rn.f64 %e, %n, %y, 0d3FF0000000000000;
	fma.rn.f64 %y, %y, %e, %y;
	mul.rn.f64 %q, %a, %y;
	fma.rn.f64 %r, %n, %q, %a;
	fma.rn.f64 %q, %r, %y, %q;
	abs.f64 %t, %s;
	setp.gt.f64 %p, %t, 0d0000000000000000;
	setp.lt.and.f64 %p, %t, 0d7FF0000000000000, %p;
	selp.f64 %q, %q, %s, %p;
	cvt.rn.f32.f64 {to}, %q;
	}}"""

_ROOT = """{{
	.reg .f64 %a, %h, %n, %y, %e, %q, %r, %s;
	.reg .pred %p;
	cvt.f64.f32 %a, {of};
	mul.rn.f64 %h, %a, 0d3FE0000000000000;
	rsqrt.approx.ftz.f64 %y, %a;
	mul.rn.f64 %s, %a, %y;
	mul.rn.f64 %e, %h, %y;
	neg.f64 %e, %e;
	fma.rn.f64 %e, %e, %y, 0d3FE0000000000000;
	fma.rn.f64 %y, %y, %e, %y;
	mul.rn.f64 %e, %h, %y;
	neg.f64 %e, %e;
	fma.rn.f64 %e, %e, %y, 0d3FE0000000000000;
	fma.rn.f64 %y, %y, %e, %y;
	mul.rn.f64 %q, %a, %y;
	neg.f64 %n, %q;
	fma.rn.f64 %r, %n, %q, %a;
	mul.rn.f64 %y, %y, 0d3FE0000000000000;
	fma.rn.f64 %q, %r, %y, %q;
	setp.gt.f64 %p, %s, 0d0000000000000000;
	setp.lt.and.f64 %p, %s, 0d7FF0000000000000, %p;
	selp.f64 %q, %q, %s, %p;
	setp.eq.f64 %p, %h, %a;
	setp.ge.and.f64 %p, %a, 0d0000000000000000, %p;
	selp.f64 %q, %a, %q, %p;
	cvt.rn.f32.f64 {to}, %q;
	}}"""
"""Half of a number is the number itself for zeros and infinities, whose roots they are unless below."""


def without_calls(ptx: str) -> str:
    """PTX whose divisions and roots of f32 call nothing."""
    return _CALLED.sub(_written, ptx)


def _written(match: "re.Match[str]") -> str:
    division, quotient, over, other, result, last = match.groups()
    if division:
        return _QUOTIENT.format(to=quotient, over=over, under=last)
    if other == "rcp":
        return _QUOTIENT.format(to=result, over="0f3F800000", under=last)
    return _ROOT.format(to=result, of=last)
