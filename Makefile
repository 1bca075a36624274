# Every development task by one name; CI calls these. Each builds .venv itself if need be.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CHAOS := --jobs 2
CHAOS_SOME := term=40,kill=10,launcher_term=5,launcher_kill=5,slow=4,disk=4,unwritable=4,stop=2
CHAOS_ALL := term=200,kill=50,launcher_term=25,launcher_kill=25,slow=20,disk=20,unwritable=20,stop=10

.DEFAULT_GOAL := help
.PHONY: help install demo data test unit lint type conformance chaos chaos-full bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile | column -t -s:

install: $(READY) ## create .venv with everything the other targets need

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; (3, 10) <= v < (3, 14) or sys.exit( \
	    "tfdist-kit needs Python 3.10 to 3.13, and $(PYTHON) is %d.%d; give another one: make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## train one model on two workers with real digits
	@$(BIN)/tfdist run --config configs/demo.toml scripts/train_digits_keras.py

data: $(READY) ## fetch the ratings that scripts/train_recommender.py learns from
	@$(BIN)/python scripts/movielens.py

test: lint type unit ## everything that CI checks

unit: $(READY)
	$(BIN)/python -m pytest -n 3 --dist worksteal -q

lint: $(READY) ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(READY) ## types
	$(BIN)/mypy

conformance: $(READY) ## hold TensorFlow, with and without the kit, against its documents
	$(BIN)/tfdist conformance run --mutants --report build/conformance/stock
	$(BIN)/tfdist conformance run --subject adapter --report build/conformance/adapter
	$(BIN)/tfdist conformance report build/conformance/stock --beside build/conformance/adapter

chaos: $(READY) ## strike trainings at random moments; each must end as if nothing had happened
	@$(BIN)/python -m tests.chaos $(CHAOS) --counts $(CHAOS_SOME)

chaos-full: $(READY) ## the same in numbers, which takes an hour or two
	@$(BIN)/python -m tests.chaos $(CHAOS) --counts $(CHAOS_ALL)

bench: $(READY) ## measure, as ratios of pairs run in turn
	@$(BIN)/tfdist bench

docs: $(READY) ## build the documentation into site/; a warning is an error
	$(BIN)/mkdocs build --quiet --strict

clean: ## remove everything that the other targets made
	rm -rf .venv site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
