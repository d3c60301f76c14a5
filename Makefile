# make gate: install and run the example gates.  make test: install and run the test suite.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
BIN := .venv/bin
ARGS ?=

.PHONY: gate test lint types format bench calibration docs clean

gate: .venv/installed
	$(BIN)/python -m pytest examples --stabgate-html=stabgate-report/report.html --stabgate-mlflow=log $(ARGS)

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed
	$(BIN)/python benchmarks/distance_speed.py

calibration: .venv/installed
	$(BIN)/python benchmarks/calibration.py

docs: .venv/installed
	$(BIN)/mkdocs build --strict

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "stabgate needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis stabgate-report site
