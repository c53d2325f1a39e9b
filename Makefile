# Two commands on a bare Debian 12 with python3.11 and make: `make demo` and `make test`.
# All paths are relative, so a folder with a space in its name works too.

# Debian packages the tests need beyond Python, as PACKAGE or PACKAGE=COMMAND. With a command,
# having that command is enough; without one, dpkg is asked. Example: bubblewrap=bwrap
SYSTEM_PACKAGES = bubblewrap=bwrap chromium=chromium curl=curl iproute2 jq=jq libatomic1 nginx openssl=openssl postgresql=pg_virtualenv systemd=systemd-analyze

BIN = .venv/bin
PYTEST = $(BIN)/pytest -n 2
# Most tests wait for another program half of the time: four at a time keep two cores busy.
# The longest files first (tests/seconds.py), and whole: what a module shares is made once.
UNIT = $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder
# What a contributor runs after every edit: no server, browser, sandbox, cluster or PostgreSQL.
QUICK = tests/core tests/spec tests/promise tests/tables tests/storage tests/report tests/service \
	tests/test_checks.py tests/test_errors.py tests/test_layout.py tests/test_meter.py

# Hundreds of programs are started: where the environment forbids compiled modules to be kept, each of
# them, and each worker of pytest, would compile all of them again.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL = help
# One .venv: two set-ups at once (make -j demo test) would trip over each other.
.NOTPARALLEL:
.PHONY: help demo test quick lint types imports unit seconds docs audit verify fuzz wheel bench redteam integrations manifests format constraints sbom clean for-use for-work screenshots

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: for-use ## the story of meter demo, then the whole loop on real data
	@rm -rf out/story && mkdir -p out
	$(BIN)/meter demo out/story --yes
	$(BIN)/meter plan --steps 10 --signals 5 --tolerance 0.01 --delta 0.01
	$(BIN)/meter compare --steps 10 --tolerance 0.01 --delta 0.01 --signals 5
	@rm -rf out/demo && mkdir -p out/demo
	$(BIN)/python examples/digits.py out/demo

test: for-work ## everything CI checks: lint, imports; types, docs and unit side by side; with the time of each
	@MAKE="$(MAKE)" sh scripts/parts.sh lint imports -- types docs unit

quick: for-work ## an answer in about a minute: lint, imports, and the fast tests
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-logo
	$(PYTEST) -m "not verify and not slow" $(QUICK)

lint: for-work ## style and format (ruff)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: for-work ## static types (mypy)
	$(BIN)/mypy

imports: for-work ## the import rules between the package's parts
	$(BIN)/lint-imports --no-logo

unit: for-work ## the tests, without the slow proofs
	$(UNIT) -m "not verify"

seconds: for-work ## take the seconds of each file of tests, which are run in that order
	$(UNIT) -m "not verify" --junit-xml=out/unit.xml
	$(BIN)/python -m tests.seconds out/unit.xml

docs: for-work ## the documentation site, with the reference made from the code, into out/site
	@rm -rf out/docs && mkdir -p out && cp -R docs out/docs
	$(BIN)/python scripts/reference.py out/docs/reference
	$(BIN)/zensical build --strict

screenshots: for-work ## the pictures of pages in README and docs
	$(BIN)/python -m tests.e2e.screenshots

audit: for-work ## ask for advisories about what is pinned (pip-audit)
	@[ -e .cache/audit/made ] || { $(BIN)/python -m venv .cache/audit && \
		.cache/audit/bin/pip install --quiet pip-audit==2.10.1 && touch .cache/audit/made; }
	@$(BIN)/python scripts/audit.py .cache/audit/bin/pip-audit

verify: audit ## advisories, the slow proofs of the statistics, and a minute of fuzzing
	$(PYTEST) -m verify tests

wheel: for-use ## build dist/easeml_meter-VERSION-py3-none-any.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

fuzz: for-work ## feed changed files and requests to every parser and route, for SECONDS=60
	$(BIN)/python -m fuzz --seconds $(or $(SECONDS),60)

bench: for-work ## time the slow paths
	$(BIN)/python -m bench
	$(BIN)/python -m bench.server

redteam: for-work ## attack a server of its own: DATABASE=postgresql, or URL= and TOKEN= of another
	$(if $(filter postgresql,$(DATABASE)),pg_virtualenv) $(BIN)/python -m redteam $(WORDS)

integrations: for-use ## try the real tools, each in an environment of its own: TOOLS="mlflow wandb", or all
	@sh scripts/integrations.sh $(TOOLS)

manifests: ## have Kubernetes' schemas and promtool check the files of deploy
	@sh scripts/manifests.sh

format: for-work ## rewrite the code in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

constraints: ## refresh constraints.txt with today's versions
	@sh scripts/setup.sh constraints

sbom: for-work ## the bill of materials (CycloneDX), into out/sbom.json
	@[ -e .cache/sbom/made ] || { $(BIN)/python -m venv .cache/sbom && \
		.cache/sbom/bin/pip install --quiet cyclonedx-bom==7.5.0 && touch .cache/sbom/made; }
	@mkdir -p out
	.cache/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file out/sbom.json .venv

clean: ## remove .venv and everything else that was made
	rm -rf .venv build dist out .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name .git -prune -o -name __pycache__ -exec rm -rf {} +

# What a user installs, and what a developer does. Both return at once when nothing changed.
for-use:
	@sh scripts/setup.sh lab

for-work:
	@sh scripts/setup.sh test $(SYSTEM_PACKAGES)
