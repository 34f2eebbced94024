# Needs git, make and Python 3.11 or newer; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
MINUTES ?= 10
SEED ?=
ONLY ?=
CLIENTS := .clients
BENCH := .bench
PEERS := .peers
QUICK ?=

include clients/versions.mk
include bench/peers/versions.mk

# What a new command can break.
COMMAND_TESTS := tests/project/test_docs.py tests/project/test_lists.py tests/project/test_architecture.py \
  tests/project/test_answer_types.py tests/project/test_startup.py tests/store/test_sql.py \
  tests/server/test_exchanges.py tests/server/test_client.py tests/agents/test_guard.py \
  tests/workflow/test_trust.py tests/cli/test_usage.py tests/cli/test_help.py tests/world/test_g_looking.py \
  tests/server/test_routes.py tests/proof/test_borders.py

.PHONY: help demo night pictures test test-commands proof check fix docs bench bench-peers report clients clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

demo: $(VENV)/runtime ## Show the main job end to end in a throw-away repository, kept in .demo for the browser.
	@$(BIN)/python scripts/demo.py $(BIN)/tugcode .demo

night: $(VENV)/development ## Make a repository after a night of work, keep it in .night, and open its page.
	@test -e .night/shop || $(BIN)/python scripts/night.py .night/shop
	@$(BIN)/tugcode -C .night/shop open

pictures: $(VENV)/development ## Take the pictures of docs/use/deck.md anew; needs Chromium.
	@$(BIN)/python scripts/pictures.py

test: $(VENV)/development ## Run all tests but the proofs.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not proof" --cov --cov-report=term

test-commands: $(VENV)/development ## Run what a new command can break; some minutes.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "" $(COMMAND_TESTS)

proof: $(VENV)/development ## Run the proofs for MINUTES (10; 0: a short round); ONLY=chaos chooses, SEED=1 repeats.
	@TUG_MINUTES=$(MINUTES) TUG_SEED=$(SEED) \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m proof -k "$(ONLY)" \
	  -o faulthandler_timeout=$$((900 + 60 * $(MINUTES))) -o faulthandler_exit_on_timeout=true

check: $(VENV)/development ## Check format, lint and types.
	@$(BIN)/ruff format --check --cache-dir .cache/ruff .
	@$(BIN)/ruff check --cache-dir .cache/ruff .
	@$(BIN)/mypy

fix: $(VENV)/development ## Format, and repair what the linter can.
	@$(BIN)/ruff format --cache-dir .cache/ruff .
	@$(BIN)/ruff check --fix --cache-dir .cache/ruff .
	@$(BIN)/ruff format --cache-dir .cache/ruff .

docs: $(VENV)/development ## Write the generated pages of docs/ and tugplug/, and the types of answers, anew.
	@$(BIN)/python scripts/answers.py
	@$(BIN)/python scripts/lists.py
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python scripts/plugin.py
	@TUG_EXCHANGES=missing $(BIN)/python -m pytest --quiet -m proof tests/server/test_exchanges.py

bench: $(VENV)/development $(BENCH)/installed ## Measure an installed, compiled package against its budgets; QUICK=1 for less.
	@$(BIN)/python bench/run.py $(if $(QUICK),--quick); status=$$?; $(MAKE) --no-print-directory report; exit $$status

report: $(VENV)/runtime $(BENCH)/installed ## Write docs/internals/performance.md anew from bench/results.
	@$(BIN)/python bench/report.py
	@$(BENCH)/bin/python bench/plots.py

bench-peers: $(VENV)/runtime $(PEERS)/installed ## Measure beside other tools, which it installs; QUICK=1 for less.
	@PYTHONPATH=bench $(BIN)/python -m peers --self-test
	@PYTHONPATH=bench $(BIN)/python -m peers $(if $(QUICK),--quick); status=$$?; $(MAKE) --no-print-directory report; exit $$status

clients: $(VENV)/development $(CLIENTS)/installed ## Try plugin and MCP server with the real agent clients; needs npm.
	@$(CLIENTS)/python/bin/python -m pip install --quiet --disable-pip-version-check .
	@$(BIN)/python -m pytest -o pythonpath=clients --import-mode=prepend clients -vv

clean: ## Remove everything that was built.
	rm -rf $(VENV) $(CLIENTS) $(BENCH) $(PEERS) .cache .hypothesis .night .demo

$(VENV)/runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tugtool needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/development: $(VENV)/runtime requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	@touch $@

# The pooler that a proof needs, without root: Debian's package, unpacked. No wheel carries it.
$(VENV)/pgbouncer: $(VENV)/runtime
	@command -v apt-get dpkg-deb >/dev/null || \
	  { echo "pgbouncer is unpacked from Debian's package; elsewhere, install it yourself" >&2; exit 1; }
	@rm -rf $@.parts && mkdir $@.parts
	@cd $@.parts && apt-get download --quiet --quiet pgbouncer libevent-2.1-7 libc-ares2 2>said || \
	  { cat said >&2; exit 1; }
	@for each in $@.parts/*.deb; do dpkg-deb --extract $$each $@.parts; done
	@rm $@.parts/*.deb && mv $@.parts $@

$(BENCH)/installed: bench/requirements.txt
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --requirement bench/requirements.txt
	@touch $@

$(CLIENTS)/installed: clients/versions.mk
	@command -v npm >/dev/null || { echo "The clients come from npm, which is not installed here" >&2; exit 1; }
	@rm -rf $(CLIENTS) && mkdir $(CLIENTS)
	@npm install --prefix $(CLIENTS) --silent --no-package-lock --no-audit --no-fund $(CLAUDE_CODE) $(CODEX) $(GEMINI) $(OPENCODE)
	@npm install --prefix $(CLIENTS)/inspector --silent --no-package-lock --no-audit --no-fund $(INSPECTOR)
	@# Its install script puts the program in place; npm may be set not to run such scripts.
	@$(CLIENTS)/node_modules/.bin/claude --version >/dev/null 2>&1 || \
	  node $(CLIENTS)/node_modules/@anthropic-ai/claude-code/install.cjs
	@$(PYTHON) -m venv $(CLIENTS)/python
	@$(CLIENTS)/python/bin/python -m pip install --quiet --disable-pip-version-check $(SKILLS_REF)
	@touch $@

# What cannot be installed is told in the tables, and tried again the next time. Without pip in
# it, an interpreter starts as fast for them as for us.
$(PEERS)/installed: bench/peers/versions.mk | $(VENV)/runtime
	@rm -rf $(PEERS) && mkdir $(PEERS)
	@for each in $(PEERS_NPM); do \
	  npm install --prefix $(PEERS) --silent --no-package-lock --no-audit --no-fund $$each 2>$(PEERS)/said || \
	    echo "$$each: npm install $$each: $$(tail -n 1 $(PEERS)/said)" >>$(PEERS)/failed; done
	@$(PYTHON) -m venv --without-pip $(PEERS)/python
	@for each in $(PEERS_PYPI); do \
	  $(BIN)/python -m pip --python $(PEERS)/python/bin/python install --quiet --disable-pip-version-check $$each 2>$(PEERS)/said || \
	    echo "$$each: pip install $$each: $$(tail -n 1 $(PEERS)/said)" >>$(PEERS)/failed; done
	@test -e $(PEERS)/failed || touch $@
