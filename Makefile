# What a developer runs before a commit, in an environment with `pip install --editable '.[dev]'`; `.ci/run` does the same in a fresh one.
PYTHON ?= python3

.PHONY: check lint types layers test slow coverage faults frozen bench tables pages site

check: lint types layers test

lint:
	$(PYTHON) -m ruff check .

types:
	$(PYTHON) -m mypy

layers:
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

test:
	$(PYTHON) -m pytest -n auto

# The slow tier of the tests (see docs/testing.md), and new examples for tests that hypothesis writes; then the long runs: thousands of random nests, mutated programs and spoilt files of market data, every kernel in every layout and size, every program for every GPU.
slow:
	$(PYTHON) -m pytest -n auto -m slow
	$(PYTHON) -m pytest -n auto -m hypothesis --hypothesis-profile='any examples'
	ZYNTAX_TIER=1 $(PYTHON) -m pytest -n auto tests/kernels tests/schedule tests/language tests/lowering tests/placement tests/programs
	$(PYTHON) -m tests.random_nests 2000
	$(PYTHON) -m tests.random_nests 1000 --device emulator
	ZYNTAX_EXHAUSTIVE=1 $(PYTHON) -m pytest tests/kernels tests/backends/nvptx/test_program_matrix.py
	$(PYTHON) -m tests.random_cases 300 --seed 1000 --device emulator
	$(PYTHON) -m tests.mutations 10000
	$(PYTHON) -m tests.mutations 3000 --language quantdsl
	$(PYTHON) -m tests.mutations 1200 --language imagepipe
	$(PYTHON) -m tests.data_mutations 2000

# Which lines of the packages the commit tier runs: of each room, then of the files that it runs least. `TESTS=tests/hir` runs some tests only.
coverage:
	$(PYTHON) -m pytest -n auto --cov --cov-report=json:coverage.json $(TESTS)
	$(PYTHON) -m tests.tiers.coverage coverage.json

# What the compiler makes of a fixed list of programs: against the digests in the tree, or with BASE=COMMIT all stages against that commit.
frozen:
	$(PYTHON) -m tests.frozen $(if $(BASE),--base $(BASE))

# Plants each fault of tests/faults/rooms in a copy of the tree: the tests that it names must fail. `ROOM=engine` plants those of one room.
faults:
	$(PYTHON) -m tests.faults $(if $(ROOM),--room $(ROOM)) --jobs $(or $(JOBS),1)

bench:
	$(PYTHON) -m bench.cpu

# The parser tables that the wheel carries.
tables:
	$(PYTHON) -m grammars.loader

# Pages made from declarations, and what examples print, written anew.
pages:
	$(PYTHON) -m compiler.codes.page docs/errors.md
	$(PYTHON) -m compiler.hir.reference docs/hir-instructions.md
	$(PYTHON) -m zynml.stdlib.reference docs/library.md
	$(PYTHON) -m tests.language.features docs/features.md
	$(PYTHON) -m tests.docs.gallery docs/gallery.md
	$(PYTHON) -m tests.docs.examples

# The pages as a site, in out/site. A link that leads nowhere fails.
site:
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
