# Three commands do everything on a machine with Python 3.11: `make demo`, `make serve` and `make test`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/ready
KERNELS := tests/columns tests/space tests/text tests/window
LIBRARY := tests/model tests/text tests/space tests/columns tests/window tests/engines tests/contract tests/broker
RIVALS := $(wildcard tests/bench/test_*rivals.py) tests/bench/test_peers.py
HOSTS := tests/spark/test_hosts.py tests/spark/test_kills.py

ENGINES := within similar topk nearest
MARKS ?= not spark and not slow
MINUTES ?= 10
WORKERS ?= 2

.PHONY: demo serve test docs fuzz test-tools test-versions test-oldest test-middle test-newest figures cluster-test serve-test peers release-check lint kernels plain clean

demo: $(READY)
	$(BIN)/nearcast demo

# The invented city, live: open the address that it prints.
serve: $(READY)
	$(BIN)/nearcast serve --demo --open

# Kernels are compiled first, so that tests do not each wait for them; meanwhile sources are checked, and the kernels that
# engines share run as plain Python. Bounds are checked. Four processes share two cores, since those that wait for Spark or
# a browser leave theirs idle. `make figures`, `peers` and `cluster-test` have what is left out.
test: $(READY)
	$(MAKE) -j3 lint kernels plain
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 4 --dist loadscope --no-loadscope-reorder $(RIVALS:%=--ignore=%) $(HOSTS:%=--ignore=%) -k 'not work_is_as_accepted'

# The tests of one package, in under a minute once its kernels are compiled: `make test-broker`, `make test-window`. For an
# engine, `make test-within`, its contract too, with two seeds. MARKS= runs tests that start Spark, or are slow, as well.
test-%: $(READY)
	NUMBA_BOUNDSCHECK=1 CONTRACT_KIND=$* $(BIN)/pytest -n 2 --dist worksteal -m '$(MARKS)' \
		$(or $(wildcard tests/$* tests/engines/$*),$(error there are no tests of $*)) \
		$(if $(filter $*,$(ENGINES)),tests/contract)

# Random rounds with new seeds, compared in four ways with bounds checked, until MINUTES are over or one fails. The failing
# one runs again by its name and seed: `make fuzz SEED=crowd-123`. ONLY=few,crowd chooses kinds of rounds.
fuzz: $(READY)
	cd tests && NUMBA_BOUNDSCHECK=1 ../$(BIN)/python -m fuzz --minutes $(MINUTES) --seed "$(SEED)" --only "$(ONLY)"

# What some tests would otherwise skip for: a browser and a Redis server, from the system's packages.
test-tools:
	command -v chromium && command -v redis-server || { \
		root=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends chromium redis-server; }

# Both ends of the ranges in pyproject.toml, and what lies between: the oldest of everything with Python 3.11, the pinned
# versions with 3.12, the newest with 3.13. `make test-versions` runs all three; KEEP= is an expression of `pytest -k`.
test-oldest: PINS := -c constraints-oldest.txt
test-oldest: OTHER := python3.11
test-middle: PINS := -c constraints.txt
test-middle: OTHER := python3.12
test-newest: OTHER := python3.13
test-oldest test-middle test-newest:
	$(OTHER) -m venv .venv-$@
	.venv-$@/bin/pip install --quiet --disable-pip-version-check $(PINS) -e . hypothesis pandas pytest pytest-xdist snowballstemmer
	.venv-$@/bin/pytest -n $(WORKERS) --dist loadscope -k '$(KEEP)' $(LIBRARY)
test-versions: test-oldest test-middle test-newest

# The docs as a site, in out/site: strict about links, and readable without a network.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "out/site/index.html"

# The wheel and the sdist, built and tried in a clean environment: the README's lines, the commands, the server's demo.
release-check: $(READY)
	$(BIN)/python tests/release_check.py

# The rivals of the benchmarks against the brute force, and the counts of work of every figure.
figures: $(READY)
	$(BIN)/pytest -n 2 --dist loadscope tests/bench

# Spark on several hosts of this machine that share no disk, in which processes are killed 20 times; as root, some ten
# minutes. Kernels are compiled first, which no run that is killed waits for.
cluster-test: $(READY) test-tools
	$(BIN)/python -m nearcast.spark.session.warm
	$(BIN)/pytest $(HOSTS)
	$(BIN)/python tests/spark/kill_and_compare.py --kills 20

# The server, killed 50 times at random moments under load, with 100 clients that resume; some eight minutes.
serve-test: $(READY)
	$(BIN)/python tests/server/kill_and_compare.py --kills 50 --clients 100

# What a user would pick instead, beside Nearcast, its answers first: PostGIS from the system's packages, the others with pip.
# Some ten minutes.
peers: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'
	ls /usr/share/postgresql/*/extension/postgis.control >/dev/null 2>&1 || { \
		root=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends postgresql postgresql-postgis; }
	$(BIN)/pytest tests/bench/test_peers.py
	$(BIN)/python -m bench.peers --kind within --subscriptions 100000 --batch 1000 --batches 3
	$(BIN)/python -m bench.peers --kind similar --batches 3
	$(BIN)/python -m bench.peers --kind topk --kind nearest_all --kind nearest_any --subscriptions 2000 --batches 3
	$(BIN)/python -m bench.pages

kernels: $(READY)
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m nearcast.spark.session.warm

plain: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 --dist loadscope $(KERNELS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	@echo "Installing into .venv (one to two minutes, once) ..."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[spark,serve,dev]'
	@touch $(READY)

clean:
	rm -rf .venv .venv-* out .pytest_cache .mypy_cache .ruff_cache .hypothesis
