# Every target is one step or a list of steps; `make help` prints this file's own comments.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Python that makes the venv: 3.11 or newer. The system's own comes first: distributions build
# theirs with optimisation, version managers rarely do, and runs of Pulumi take twice as long.
SYSTEM_PYTHON ?= /usr/bin/python3.11
ifndef PYTHON
PYTHON := $(shell for name in '$(SYSTEM_PYTHON)' python3.11 python3; do \
	if "$$name" -c '' 2>/dev/null; then command -v "$$name"; break; fi; done)
endif
define NO_PYTHON
python3 was not found on PATH
why: the steps behind these targets are written in Python
do: install Python 3.11, on Debian: apt-get install python3 python3-venv
endef
ifeq ($(strip $(PYTHON)),)
$(error $(NO_PYTHON))
endif
STACK ?= project-a
CASES ?= ../shared/cases
BACKEND ?=
DURATION_S ?= 600
SEED ?=
PYTEST_ARGS ?=

TOOLCHAIN := $(PYTHON) -m toolchain
VENV := .abox/venv/bin
# Steps that need Pulumi and the checkout's variables run under this.
WITH_ENV := eval "$$($(TOOLCHAIN) env --path "$$PATH")" &&

.PHONY: help
help: ## list the targets
	@sed -n -E 's/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

##@ Sandboxes

.PHONY: up
up: stack-known ready images vm-host ## from a fresh machine to a sandbox that is proven closed: STACK=project-a
	@$(WITH_ENV) $(TOOLCHAIN) up '$(STACK)'
	@$(WITH_ENV) abox check '$(STACK)'

.PHONY: down
down: ready ## take the sandbox away, nothing of it stays on the host: STACK=project-a
	@$(WITH_ENV) $(TOOLCHAIN) down '$(STACK)'

.PHONY: env
env: ## print the variables for plain Pulumi: eval "$(make -s env)"
	@$(TOOLCHAIN) env --path "$$PATH"

.PHONY: doctor
doctor: venv pulumi ## what this host can and can't do, each with the remedy
	@$(WITH_ENV) abox doctor

.PHONY: clean
clean: ## remove .abox; refuses while sandboxes stand (FORCE=1 destroys them first)
	@$(WITH_ENV) $(TOOLCHAIN) clean $(if $(FORCE),--force)

##@ Steps

.PHONY: ready
ready: packages venv pulumi engine

.PHONY: stack-known
stack-known:
	@$(TOOLCHAIN) stack '$(STACK)'

.PHONY: packages
packages: ## install Debian packages that are missing
	@$(TOOLCHAIN) packages

.PHONY: venv
venv: packages ## make .abox/venv from the locked requirements
	@$(TOOLCHAIN) venv

.PHONY: pulumi
pulumi: venv ## provide Pulumi's CLI, language host and plugins
	@$(TOOLCHAIN) pulumi

.PHONY: toolchain
toolchain: packages venv pulumi ## packages, venv and Pulumi

.PHONY: engine
engine: packages ## start dockerd if no Docker engine answers
	@$(TOOLCHAIN) engine

.PHONY: engine-stop
engine-stop: ## stop the dockerd that abox started, unless containers run
	@$(TOOLCHAIN) engine --stop

.PHONY: images
images: venv engine ## build the images that are missing
	@$(VENV)/python -m images.build

.PHONY: vm-host
vm-host: venv
	@$(VENV)/python -m toolchain vm --stack '$(STACK)'

.PHONY: vm
vm: venv ## provide what virtual machines need: packages, image, libvirt
	@$(VENV)/python -m toolchain vm

.PHONY: vm-stop
vm-stop: ## stop the libvirtd that abox started, unless domains run
	@$(TOOLCHAIN) vm --stop

.PHONY: lock
lock: dev ## pin the requirements anew, with hashes
	@for name in runtime dev $(filter-out runtime dev,$(basename $(notdir $(wildcard requirements/*.in)))); do \
		echo "lock       requirements/$$name.txt"; \
		$(VENV)/uv pip compile --quiet --generate-hashes --no-annotate --no-header \
			--python-version 3.11 requirements/$$name.in -o requirements/$$name.txt; \
	done

##@ Tests

.PHONY: dev
dev: packages
	@$(TOOLCHAIN) packages --test
	@$(TOOLCHAIN) venv --dev

.PHONY: test
test: lint types test-unit test-policy test-integration test-e2e ## everything, on a fresh machine too

.PHONY: test-quick
test-quick: dev ## what needs no Docker: under 30 s
	@$(VENV)/python -m pytest -q -n 2 tests/unit tests/policy -m 'not integration and not e2e' $(PYTEST_ARGS)

.PHONY: test-unit
test-unit: dev
	@$(VENV)/python -m pytest -q -n 2 tests/unit $(PYTEST_ARGS)

.PHONY: test-policy
test-policy: dev
	@$(VENV)/python -m pytest -q tests/policy $(PYTEST_ARGS)

.PHONY: test-integration
test-integration: dev pulumi images vm ## with real Docker, nftables, Envoy and Unbound
	@$(WITH_ENV) $(VENV)/python -m pytest -q -n 2 --dist loadfile tests/integration $(PYTEST_ARGS)

.PHONY: test-e2e
test-e2e: dev pulumi images vm ## whole stacks, under names of their own
	@$(WITH_ENV) $(VENV)/python -m pytest -q -n 2 --dist loadfile -m 'not alone' tests/e2e $(PYTEST_ARGS)
	@$(WITH_ENV) $(VENV)/python -m pytest -q -m alone tests/e2e $(PYTEST_ARGS) || [ $$? = 5 ]

.PHONY: cases
cases: dev pulumi images vm ## run a folder of case files: CASES=../shared/cases BACKEND=container|vm
	@$(WITH_ENV) $(VENV)/python -m tests.cases '$(CASES)' $(if $(BACKEND),--backend '$(BACKEND)')

.PHONY: attack
attack: dev pulumi images ## attack a sandbox at random from inside, count outside: DURATION_S=600 SEED=
	@$(WITH_ENV) $(VENV)/python -m tests.attack --seconds '$(DURATION_S)' $(if $(SEED),--seed '$(SEED)')

.PHONY: bench
bench: dev pulumi images vm ## measure the figures of the README, peers beside them
	@$(WITH_ENV) $(VENV)/python -m bench

.PHONY: lint
lint: dev ## format and lint
	@$(VENV)/ruff format --check --quiet . || { $(VENV)/ruff format --diff . 2>&1 | tail -n 60; exit 1; }
	@$(VENV)/ruff check --quiet .

.PHONY: types
types: dev ## mypy, strict
	@$(VENV)/mypy --no-error-summary .

.PHONY: fix
fix: dev ## format, and repair what lint can repair
	@$(VENV)/ruff format --quiet . && $(VENV)/ruff check --quiet --fix .
