# `make demo` and `make test` need git, Python 3.10 or newer and a C compiler. They install into .venv, nothing else.
PYTHON ?= python3
VENV := .venv
DOCS_VENV := .venv-docs
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CPU_TORCH := https://download.pytorch.org/whl/cpu

.PHONY: demo test test-integrations benchmarks fuzz gpu check docs clean

# PyTorch first and from the constraints file: its default build on Linux brings gigabytes of CUDA libraries.
$(VENV)/.base: pyproject.toml constraints.txt
	@echo "Installing baco_like, PyTorch (its CPU build, 200 MB) and matplotlib into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -q -c constraints.txt torch || $(PIP) install -q -c constraints.txt --index-url $(CPU_TORCH) torch
	@$(PIP) install -q -c constraints.txt -e '.[plot]'
	@touch $@

$(VENV)/.installed: $(VENV)/.base
	@echo "Installing the test tools and the packages of all adapters into $(VENV); this takes some minutes ..."
	@$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

.venv: $(VENV)/.installed

demo: $(VENV)/.base
	$(BIN)/baco-like tune examples/matmul.toml

# Tests start hundreds of processes, each of which would compile the package again if Python wrote no compiled files.
TEST_ENV := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

test: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal

# The adapters, against the real packages.
test-integrations: $(VENV)/.installed
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 tests/integrations

# A short version of all benchmarks, in about ten minutes: says which claims it cannot confirm. DATA=DIR for those on public data.
benchmarks: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/confirm.py $(if $(DATA),--data $(DATA))

# Two minutes of mutated files and protocol lines; --seconds for longer.
fuzz: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/reliability/fuzz.py --seconds 120

# The CUDA bench on an NVIDIA GPU, in at most eight minutes. It uses the packages of $(PYTHON) and installs what is missing.
gpu:
	$(PYTHON) benchmarks/check_gpu.py

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, in site/. Its tools have an environment of their own, because they need no PyTorch.
$(DOCS_VENV)/.installed: docs/requirements.txt
	@echo "Installing MkDocs into $(DOCS_VENV) ..."
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check install -q -r docs/requirements.txt
	@touch $@

docs: $(DOCS_VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

clean:
	rm -rf $(VENV) $(DOCS_VENV) runs build site *.egg-info
