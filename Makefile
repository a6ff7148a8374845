# Every target does its own set-up (labs/setup says what it installs and why).
# Extra arguments go through ARGS: make demo ARGS=--loopback

CARGO ?= cargo
PYTHON ?= python3
# What a program can be built without (docs/installation.md): tests have all but OpenTelemetry, packages have all.
TESTED = --features dhow/postgres,dhow/top
PACKAGED = --features otlp,postgres,top
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: help demo test lint bench profile interop packages wheel book test-full kill custody million crashes mutants instructions case labs clean

help:            ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo:            ## real files cross a link that is mostly down, through a node that is killed (under a minute after the build)
	@labs/setup demo
	$(CARGO) build --profile demo --locked -p dhow
	@$(PYTHON) -m labs.demo $(ARGS)

test: lint       ## all that must hold: formatting, clippy, the rooms, unit and whole-program tests
	$(CARGO) test --workspace --locked $(TESTED)
	$(CARGO) test --profile mutants --locked -p dhow-sim --features mutants --test '*'
	@$(PYTHON) -m tests.run $(ARGS)

test-full: test  ## also what takes a machine of its own: the packages on a bare Debian that systemd boots, the book made of docs/, Prometheus, OpenTelemetry (root; some minutes more)
	@labs/setup package
	@labs/setup book
	$(CARGO) build --locked -p dhow $(PACKAGED)
	@$(PYTHON) -m tests.run package book book_made monitoring telemetry $(ARGS)

lint:            ## formatting, clippy (of the planted mistakes too), no_std, the table of allowed dependencies
	@labs/setup test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked $(TESTED) --features dhow-sim/mutants -- -D warnings
	@$(PYTHON) -m tests.run house

bench:           ## bundles/s and Mbit/s by size, beside a yardstick and raw TCP in the same run (25 minutes; ARGS=--quick: 3)
	@labs/setup bench
	$(CARGO) build --release --locked -p dhow -p dhow-stream -p dhow-yardstick
	@$(PYTHON) -m labs.bench $(ARGS)

profile:         ## where a daemon's processor time goes, by perf (ARGS='relay --size 10kB')
	$(CARGO) build --profile symbols --locked -p dhow
	$(CARGO) build --release --locked -p dhow-stream
	@$(PYTHON) -m labs.profile $(ARGS)

interop:         ## builds the peers (about 20 minutes the first time) and prints peer x direction x size
	@labs/setup interop
	$(CARGO) build --release --locked -p dhow
	@$(PYTHON) -m labs.interop $(ARGS)

packages:        ## Debian packages of the program and of its symbols, in target/packages
	@labs/setup package
	$(CARGO) build --profile symbols --locked -p dhow $(PACKAGED)
	@$(PYTHON) -m packaging.deb $(ARGS)

wheel:           ## a Python wheel of the program and the package dhow, in target/packages (maturin, from pip if it is missing)
	@labs/setup package
	$(CARGO) build --profile symbols --locked -p dhow $(PACKAGED)
	@$(PYTHON) -m packaging.wheel $(ARGS)

book:            ## docs/ as a book of HTML with every command and key, in target/book/html (mdBook from the cargo registry, some minutes the first time)
	@labs/setup book
	$(CARGO) build --locked -p dhow
	@$(PYTHON) -m packaging.book $(ARGS)

kill:            ## 200 rounds of SIGKILL while 1,000 bundles stream: nothing lost, nothing delivered again
	@labs/setup test
	$(CARGO) build --release --locked -p dhow
	@$(PYTHON) -m tests.kill_rounds --profile release $(ARGS)

custody:         ## 100 rounds of SIGKILL at each of three nodes while bundles in custody stream: nothing lost, every custody resolved
	@labs/setup test
	$(CARGO) build --release --locked -p dhow
	@$(PYTHON) -m tests.custody_rounds --profile release $(ARGS)

million:         ## a store with a million bundles: time to ready, memory per bundle
	@labs/setup test
	$(CARGO) build --release --locked -p dhow
	@$(PYTHON) -m labs.store_million $(ARGS)

crashes:         ## a million simulated crashes, on seeds from 1,000,000 on: how many violations (an hour of a processor; ARGS='--crashes 10000': a minute)
	@labs/setup test
	$(CARGO) build --release --locked -p dhow
	@$(PYTHON) -m labs.crashes $(ARGS)

mutants:         ## mistakes planted in the nodes: how often each is reached, and in how many seeds a simulation finds it (DHOW_CLEAN_SEEDS=500: that many without)
	$(CARGO) test --profile mutants --locked -p dhow-sim --features mutants --test mutants -- --nocapture

instructions:    ## instructions that a node executes for one bundle, beside the reviewed numbers
	@labs/setup test
	@$(PYTHON) -m labs.instructions $(ARGS)

case:            ## one requirement, shown: make case NAME=long-path (without NAME: what there is)
	@labs/setup case
	$(CARGO) build --release --locked -p dhow -p dhow-yardstick
	@$(PYTHON) -m labs.cases $(or $(NAME),--help) $(ARGS)

labs:            ## the papers' experiments, scaled down, on network namespaces: reports in target/labs (needs root; three hours)
	@labs/setup test
	$(CARGO) build --release --locked -p dhow
	@rm -rf target/labs
	@for lab in drive-by overhead; do $(or $(CARGO_TARGET_DIR),target)/release/dhow lab run labs/$$lab --out target/labs/$$lab $(ARGS) || exit 1; done

clean:           ## removes everything that was built
	$(CARGO) clean
	rm -rf target
