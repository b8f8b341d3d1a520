"""Containers of fixed capacity in native functions: rings, tables, slabs and order books, and the choices that they give."""
