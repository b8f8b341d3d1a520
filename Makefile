# What a developer runs before a commit; `.ci/run` does the same in a fresh environment.
PYTHON ?= python3

.PHONY: check lint types layers test slow bench tables

check: lint types layers test

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy

layers:
	lint-imports

test:
	$(PYTHON) -m pytest

# The long runs: thousands of random nests and mutated programs.
slow:
	$(PYTHON) -m tests.random_nests 2000
	$(PYTHON) -m tests.mutations 10000

bench:
	$(PYTHON) -m bench.cpu

# The parser tables that the wheel carries.
tables:
	$(PYTHON) -m grammars.loader
