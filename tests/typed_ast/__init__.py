"""Tests of the TypedAST and its checker."""
