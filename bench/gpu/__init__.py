"""Textbook nests on a GPU against what people use there. `python -m bench.gpu` says how (see `__main__`)."""
