"""Typed functions of scalars, structs and what is made of them, as host functions: what native code runs beside kernels."""
