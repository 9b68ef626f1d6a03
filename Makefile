# Two commands set everything up on a machine with Python 3.11 and a C compiler: `make demo` and `make check`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
PYTEST_ARGS ?= --numprocesses auto --dist worksteal
BIN := $(VENV)/bin
# Stamps of what is installed, so that a second call starts at once. They follow pyproject.toml.
BASE := $(VENV)/.installed-base
TEST := $(VENV)/.installed-test
PROTOC := build/protoc/bin/python

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

.PHONY: help demo check lint types test gpu gpu-installed format bench ulp protos precompiled dist clean distclean

help:
	@echo "make demo      install into $(VENV) and run the demo"
	@echo "make check     install the test extra too; lint, types, tests (PYTEST_ARGS=... instead of one pytest process a core)"
	@echo "make lint, make types, make test, make format      one of these alone"
	@echo "make gpu       on a machine with a GPU: tests of kernels, the benchmarks, compute-sanitizer and the conformance suite, part by part (GPU_PYTHON=..., GPU_ARGS=...: docs/gpu.md)"
	@echo "make bench     all benchmarks (BENCH=name ... for some of them)"
	@echo "make ulp       accuracy of the vector math (ULP=--quick for a sample)"
	@echo "make protos    generate protos/*_pb2.py and .pyi again"
	@echo "make precompiled  object code of the generic kernels, which the wheel ships (LEVELS=... for some levels; takes minutes; \"tfjit warm\" is for this machine alone)"
	@echo "make dist      sdist and wheel in build/dist, the wheel with the precompiled kernels"
	@echo "make clean     remove what was built; make distclean also removes $(VENV)"

demo: $(BASE)
	$(BIN)/python -m tfjit demo

check: lint types test

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(TEST): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(BASE)

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(TEST)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# mypy follows neither package-dir nor the import hooks of an editable install and of tfjit/__init__.py: in the root of the tree it would read tfjit/ alone and
# succeed. So it runs in a folder of links laid out as the package is installed, and has to say that it read every module there.
types: $(TEST)
	@rm -rf build/types && mkdir -p build/types/tfjit
	@ln -s $(CURDIR)/tfjit/* $(CURDIR)/kernels $(CURDIR)/passes $(CURDIR)/protos build/types/tfjit/
	cd build/types && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml -p tfjit | tee ../types.log
	@modules=$$(cd build/types && find -L tfjit -name '*.py' -o -name '*.pyi' | sed 's/[.]pyi*$$//' | sort -u | wc -l); \
		grep -q "in $$modules source files" build/types.log || { echo "mypy did not read all of $$modules modules" >&2; exit 1; }

test: $(TEST)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# Everything that only hardware shows, part by part (docs/gpu.md). GPU_PYTHON=python3 takes that interpreter as it is and installs nothing, for a machine without a
# network. GPU_ARGS="--minutes 9" ends in time; a second call goes on.
GPU_PYTHON ?=
GPU_ARGS ?=

gpu: $(if $(GPU_PYTHON),,gpu-installed)
	$(or $(GPU_PYTHON),$(BIN)/python) -m tests.gpu_parts $(GPU_ARGS)

gpu-installed: $(TEST)
	$(BIN)/python -m pip install --quiet --editable '.[gpu,plot]'

bench: $(TEST)
	$(BIN)/python -m benchmarks $(BENCH)

ulp: $(BASE)
	$(BIN)/python -m tfjit.kernels.vmath.tools.ulp $(ULP)

# The versions are fixed: this generator's code loads on protobuf 5, 6 and 7.
$(PROTOC):
	$(PYTHON) -m venv build/protoc
	$(PROTOC) -m pip install --quiet grpcio-tools==1.68.1 mypy-protobuf==3.6.0 'setuptools<81'

protos: $(PROTOC)
	rm -rf build/protos && mkdir -p build/protos
	PATH=$(abspath build/protoc/bin):$$PATH $(PROTOC) -m grpc_tools.protoc -Itfjit/protos=protos \
		--python_out=build/protos --mypy_out=quiet:build/protos $(wildcard protos/*.proto)
	cp build/protos/tfjit/protos/*_pb2.py build/protos/tfjit/protos/*_pb2.pyi protos/

# Any x86-64 machine makes the archives of all levels. They are data of the wheel and no part of the source. LEVELS= makes none.
LEVELS ?= x86-64-v2 x86-64-v3 x86-64-v4

precompiled: $(BASE)
	$(if $(LEVELS),$(BIN)/python -m tfjit.kernels.precompile $(addprefix --level ,$(LEVELS)))

# The wheel is built from the sdist, so a file missing in the sdist is missed at once; only the archives come from here.
# build/lib would keep files that are gone.
dist: $(TEST) precompiled
	rm -rf build/dist build/lib build/wheel
	$(BIN)/python -m build --sdist --outdir build/dist .
	mkdir -p build/wheel && tar -xzf build/dist/*.tar.gz -C build/wheel --strip-components=1
	for level in $(LEVELS); do cp kernels/precompile/$$level.tfk build/wheel/kernels/precompile/; done
	$(BIN)/python -m build --wheel --outdir build/dist build/wheel

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
