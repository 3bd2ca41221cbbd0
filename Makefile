# Every target can be repeated; nothing is done twice. PYTHON picks the interpreter of the virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXPERIMENT ?= experiments/partition_during_checkpoint.yaml
N      ?= 1
JOBS   ?= 1
RESULTS ?=

.PHONY: run test check gate bench proof kill gameday clean setup
.DEFAULT_GOAL := run

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,network,storage,frameworks,serving,schedule,dev]'
	@touch $@

run: $(STAMP)
	$(BIN)/chaos run $(EXPERIMENT)

test: $(STAMP)
	$(BIN)/python -m pytest

# Format, lint, types; then the recovery paths of the reference targets. What is proved of this build is not run again.
check: $(STAMP)
	@PATH="$(abspath $(BIN)):$$PATH" ci/check
	@$(MAKE) --no-print-directory gate

gate: $(STAMP)
	$(BIN)/python -m ci.gate

bench: $(STAMP)
	$(BIN)/python -m tests.bench

proof: $(STAMP)
	$(BIN)/python -m ci.proof -n $(N) --jobs $(JOBS) $(if $(RESULTS),--results $(RESULTS))

# SIGKILL to the harness at N random moments of a run: nothing may be left after two seconds.
kill: $(STAMP)
	$(BIN)/python -m ci.kill -n $(N)

# Twelve drawn experiments by a schedule, the game day killed twice: nothing runs twice, nothing is left, the report is complete.
gameday: $(STAMP)
	$(BIN)/python -m ci.gameday
	$(BIN)/python -m ci.gameday_kills

clean:
	rm -rf runs build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache test-output
	find chaos targets tests ci -name __pycache__ -type d -prune -exec rm -rf {} +
