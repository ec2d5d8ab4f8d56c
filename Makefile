# The environment, the main job and the tests. `make demo` and `make test` need git, Python and a C compiler, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CPU_TORCH := https://download.pytorch.org/whl/cpu

.PHONY: demo test fuzz check clean

# torch first and from the constraints file: its default build on Linux brings gigabytes of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt torch || $(PIP) install -q -c constraints.txt --index-url $(CPU_TORCH) torch
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	touch $@

.venv: $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/baco-like tune examples/matmul.toml

test: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Two minutes of mutated files and protocol lines; --seconds for longer.
fuzz: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/reliability/fuzz.py --seconds 120

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) runs build *.egg-info
