# All that is done with this project. Needs make and Python 3.11 to 3.14; everything else goes into .venv.

.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# What a run needs, and that with everything for test and check. Each stamp has the path of this folder in it: installed
# scripts hold absolute paths, so a folder that was moved is set up anew.
RUN_STAMP := $(VENV)/.installed-run
STAMP := $(VENV)/.installed
ifneq ($(shell cat $(RUN_STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(RUN_STAMP)
endif
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif
# PYTHON=... names the interpreter for .venv, which is made anew if it has another version.
ifneq ($(PYTHON),)
ifneq ($(shell PYTHON='$(PYTHON)' sh tools/find_python.sh 2>/dev/null),$(BIN)/python)
.PHONY: $(RUN_STAMP) $(STAMP)
endif
endif

.PHONY: help setup run test quick check check-format check-lint check-types check-imports check-generated \
	bench interop interop-smoke fuzz-kernel docs wheel clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

setup: $(STAMP) ## install everything into .venv; PYTHON=... names the Python to use

$(RUN_STAMP) $(STAMP): pyproject.toml hatch_build.py $(wildcard src/ottla/records/_kernel*.[ch])
	@python=$$(PYTHON='$(PYTHON)' sh tools/find_python.sh) && "$$python" tools/set_up.py $(if $(filter $@,$(STAMP)),all,run)

run: $(RUN_STAMP) ## run the whole pipeline on generated traffic and check its results; SECONDS=20 is short, FOREVER=1 runs until Ctrl-C
	@$(BIN)/python -m ottla.pipeline.demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FOREVER),--forever)

test: $(STAMP) ## run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

quick: $(STAMP) ## run the tests that start no processes
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m 'not process and not slow and not spark' $(ARGS)

check: check-format check-lint check-types check-imports check-generated ## check format, lint, types, import rules, generated files

check-format: $(STAMP)
	$(BIN)/ruff format --check .

check-lint: $(STAMP)
	$(BIN)/ruff check .

# The second finds calls that macOS does not have.
check-types: $(STAMP)
	$(BIN)/mypy --strict src
	$(BIN)/mypy --strict --platform darwin --cache-dir .mypy_cache/darwin src

check-imports: $(STAMP)
	$(BIN)/lint-imports

check-generated: $(STAMP)
	@set -e; for generator in tools/generate_*.py; do \
		echo "$(BIN)/python $$generator --check"; "$(BIN)/python" "$$generator" --check; \
	done

docs: $(STAMP) ## write the generated files again
	@set -e; for generator in tools/generate_*.py; do echo "$$generator"; "$(BIN)/python" "$$generator"; done

bench: $(STAMP) ## benchmark Ottla beside Apache Kafka and other clients, where installed
	$(BIN)/python -m bench $(ARGS)

# Each judge is skipped where its tool is missing, so the tools that are missing are named first; with none of them
# there would be nothing left to run.
interop: $(STAMP) ## test with Kafka clients of other languages; names the tools that are missing
	@found=; missing=; for tool in mvn npm go; do \
		if command -v $$tool >/dev/null 2>&1; then found="$$found $$tool"; else missing="$$missing $$tool"; fi; \
	done; \
	if [ -n "$$missing" ]; then echo "not installed, its tests are skipped:$$missing" >&2; fi; \
	if [ "$$(id -u)" != 0 ]; then echo "not root, tests in network namespaces are skipped" >&2; fi; \
	if [ -z "$$found" ]; then echo "none of mvn, npm, go is installed: nothing to run" >&2; exit 1; fi
	$(BIN)/python -m pytest interop $(ARGS)

interop-smoke: $(STAMP) ## the ten-minute part of make interop; needs Maven
	@command -v mvn >/dev/null 2>&1 || { echo "mvn is not installed: apt install maven" >&2; exit 1; }
	$(BIN)/python -m pytest interop -m smoke $(ARGS)

# SEED=... repeats a run; ROUNDS=... makes it longer.
fuzz-kernel: $(STAMP) ## fuzz the C kernel under sanitizers; needs gcc
	@mkdir -p build
	$(CC) -g -O1 -std=c11 -fsanitize=address,undefined -fno-sanitize-recover=all \
		-Isrc/ottla/records tests/records/kernel_fuzz.c -o build/kernel_fuzz
	build/kernel_fuzz $(or $(ROUNDS),1000000) $(or $(SEED),$(shell date +%s))
	$(CC) -g -O1 -std=c11 -fsanitize=address,undefined -fno-sanitize-recover=all -fPIC -shared \
		-I"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')" \
		src/ottla/records/_kernel.c -o build/_kernel.abi3.so
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		$(BIN)/python tests/records/kernel_objects_fuzz.py build/_kernel.abi3.so \
		$$(( $(or $(ROUNDS),1000000) / 20 )) $(or $(SEED),$(shell date +%s))

wheel: $(STAMP) ## build dist/*.whl
	$(BIN)/python -m build --wheel

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist bench/build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools bench interop -name __pycache__ -type d -prune -exec rm -rf {} +
