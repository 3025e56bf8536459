# Everything a person or CI runs. Needs Python 3.11 or newer, make and git; the rest goes into .venv.
#   PYTHON=python3.12 make test     another interpreter
#   make test ARGS='-k lane -x'     arguments for what the target runs

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check clients bench clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-16s%s\n", $$1, $$2 }'

demo: $(READY) ## Watch tasks reach a handler, fail, back off, retry and finish
	@$(BIN)/taskbell demo $(ARGS)

test: $(READY) ## Run every test but those of the foreign clients
	@$(BIN)/python -m pytest --ignore=tests/clients $(ARGS)

check: $(READY) ## Check format, lint, types, rings and tidiness
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/tidy

clients: $(READY) ## Run Google's own clients (Python, Node, Go, gcloud) against the server
	@$(BIN)/python -m pytest tests/clients $(ARGS)

bench: $(READY) ## Measure, and print conditions, medians and ratios
	@$(BIN)/python -m bench $(ARGS)

clean: ## Remove .venv, caches and build products
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The virtualenv, made again when what it should hold changes, or when its interpreter has gone.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Taskbell needs Python 3.11 or newer, and '$(PYTHON)' is not: name one with PYTHON=..., as in: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing into .venv (about a minute, once)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || { rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[server,test]'
	@touch $@
