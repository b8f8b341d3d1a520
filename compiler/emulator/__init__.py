"""Runs HIR in Python: nests, fields and tiles (`interpret`), threads of blocks (`threads`), and watches what threads do wrong
(`sanitize`). Functions are translated to Python's source first (`translate`)."""
