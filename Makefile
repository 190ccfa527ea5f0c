# Everything one does here. Each target prepares .venv by itself, from nothing but Python >= 3.11;
# the targets that run Apache Kafka itself also ask for Java >= 17 and Maven, and say so if they lack.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FAST := tests/unit tests/property
SOURCES := src tests tools $(wildcard benchmarks)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint fast bench docs pages lock fmt soak fixtures messages clean
.PHONY: kafka-needs audit-deps

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## prepare .venv (every other target does this by itself)

$(READY): requirements/dev.txt requirements/uv.txt pyproject.toml tools/setup.sh
	@tools/setup.sh $(VENV)
	@touch $@

demo: $(READY) ## see what sexton does, in about a minute
	@$(BIN)/sexton demo

test: kafka-needs lint ## everything, as CI runs it: lint, types, layers and all tests (soak excepted)
	$(BIN)/pytest tests -m "not soak" -n 2 --dist loadgroup

check: lint fast ## what one runs all day: format, lint, types, layers, fast tests

lint: $(READY)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo

fast: $(READY)
	$(BIN)/pytest $(wildcard $(FAST)) -n 2

bench: $(READY) kafka-needs ## measure against Kafka's own code and other clients
	$(BIN)/python -m benchmarks

pages: $(READY)
	@$(BIN)/python -m tools.make_cli_reference
	@$(BIN)/python tools/make_file_map.py
	@$(BIN)/python tools/make_licences.py
	@$(BIN)/python -m tools.make_python_reference
	@$(BIN)/python -m tools.make_config_reference
	@$(BIN)/python -m tools.make_diagrams
	@$(BIN)/python -m benchmarks.page

docs: pages ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "docs: open site/index.html; to search it: $(BIN)/python -m http.server -d site"

fmt: pages ## format the code, mend what ruff can mend, write generated pages again
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

soak: $(READY) kafka-needs ## long searches for rare failures, with new random cases every time
	HYPOTHESIS_PROFILE=explore $(BIN)/pytest tests -m soak -n 2 --dist loadgroup

fixtures: $(READY) kafka-needs ## have Apache Kafka write the segments under tests/ again
	$(BIN)/python -m tools.make_fixtures

messages: $(READY) kafka-needs ## write the message classes again from the schemas in Kafka's jars
	$(BIN)/python -m tools.generate_messages

audit-deps: $(READY) ## is a weakness known in what the lock pins?
	@$(BIN)/python tools/audit_dependencies.py

lock: $(READY) ## choose the newest versions of everything we install, with their hashes
	@tools/lock.sh $(BIN)/uv

clean: ## remove everything that can be made again
	rm -rf $(VENV) site build dist sexton-demo.html .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

kafka-needs:
	@tools/kafka_needs.sh
