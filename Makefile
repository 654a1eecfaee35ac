# Two commands do everything on a machine with Python 3.11: `make demo` and `make test`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/ready
SMALL := --ignore=tests/cluster --ignore=tests/cli --ignore=tests/bench

.PHONY: demo test lint kernels clean

demo: $(READY)
	$(BIN)/nearcast demo

# Kernels are compiled once, on one core, while the other checks the sources; then both cores run tests.
test: $(READY)
	$(MAKE) -j2 lint kernels
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 --dist loadscope
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 --dist loadscope $(SMALL)

kernels: $(READY)
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m nearcast.cluster.warm

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	@echo "Installing into .venv (one to two minutes, once) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,dev]'
	@touch $(READY)

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
