# Everything the project is built, tested and measured with. All flags of the Go tool chain are here.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --dirty 2>/dev/null || echo dev)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

# weir is pure Go and one static binary. Only the race detector wants cgo.
GO       := CGO_ENABLED=0 go
GO_BUILD := $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)'
GO_TEST  := $(GO) test -timeout 10m
GO_RACE  := CGO_ENABLED=1 go test -race -timeout 14m
# The bandit's baseline samples in C++. Nothing else of bench wants cgo.
GO_CGO   := CGO_ENABLED=1 go

# The systems weir must build for, besides the one it is developed on.
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64

DEMO_FEEDS := build/demo/feeds.weir

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/weir
	@mkdir -p bin
	$(GO_BUILD) -o bin/weir ./cmd/weir

PREFIX ?= /usr/local

.PHONY: install
install: build man ## install weir, its manual pages and completions below PREFIX (/usr/local)
	install -D -m 0755 bin/weir $(DESTDIR)$(PREFIX)/bin/weir
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man1 build/man/*.1
	@for to in bash:bash-completion/completions/weir zsh:zsh/site-functions/_weir fish:fish/vendor_completions.d/weir.fish; do \
		bin/weir completion $${to%%:*} >build/completion && \
		install -D -m 0644 build/completion $(DESTDIR)$(PREFIX)/share/$${to#*:}; \
	done

.PHONY: man
man: ## write the manual pages to build/man
	@rm -rf build/man
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run -tags man -ldflags '-X main.version=$(VERSION)' ./cmd/weir build/man

.PHONY: run
run: build $(DEMO_FEEDS) ## serve demo feeds on :8080, admin on 127.0.0.1:8081
	bin/weir serve --feeds $(DEMO_FEEDS) --data build/demo/data

$(DEMO_FEEDS): | build
	@mkdir -p $(@D)
	bin/weir generate --users 100000 --items 200 -o $@

.PHONY: cluster
cluster: build $(DEMO_FEEDS) ## serve demo feeds by three nodes on a cluster of ENGINE (redis, or valkey), behind nginx on :8080
	@scripts/need.sh $(if $(filter valkey,$(ENGINE)),,redis-server=redis-server)
	@[ "$(ENGINE)" != valkey ] || scripts/venv.sh build/venv
	@mkdir -p build/bin
	$(GO) build -o build/bin/localcluster ./cmd/localcluster
	build/bin/localcluster --server $(ENGINE) --feeds $(DEMO_FEEDS)

ENGINE ?= redis

##### tests

# Packages whose tests run a second time under the race detector: those in which goroutines share memory. The second time
# leaves out what make check leaves out. The longest comes first: at the end it would have one core of several to itself.
RACE := ./cmd/weir $(addprefix ./internal/,server cluster/... load/... filter/... disk/... metrics shed feed/... bandit/... sequence journal progress/... admin/... webui)

.PHONY: check
check: ## vet, build and the quick tests: no network, no root, no browser, in three minutes
	@scripts/timed.sh "make check" $(MAKE) --no-print-directory checked

.PHONY: checked
checked: build
	@$(MAKE) --no-print-directory vetted
	$(GO_TEST) -short -v ./... 2>&1 | awk -f scripts/testlog.awk
	cd bench && $(GO_TEST) -short -v ./... 2>&1 | awk -f ../scripts/testlog.awk

# The folders whose lines end before column 110, tests included.
COLUMNS := bench cmd $(addprefix internal/,admin cluster config doctor flight jsonscan metrics sequence server shed strictjson systest webui)

.PHONY: vetted
vetted:
	$(GO) vet ./...
	$(GO) vet -tags man ./cmd/weir
	cd bench && $(GO) vet ./...
	@# text/template makes the linker keep every method: layout_test.go.
	@mkdir -p build
	$(GO) build -o build/symbols ./cmd/weir
	@if $(GO) tool nm build/symbols | grep -F 'text/template.(*Template).Execute'; then echo "weir executes templates"; exit 1; fi
	@awk -f scripts/columns.awk $$(find $(COLUMNS) -name '*.go')
	@unformatted=$$(gofmt -l cmd internal bench); \
	if [ -n "$$unformatted" ]; then echo "gofmt these:"; echo "$$unformatted"; exit 1; fi

.PHONY: test-deps
test-deps:
	@scripts/need.sh gcc=gcc g++=g++ gmp.h=libgmp-dev redis-server=redis-server strace=strace chromium=chromium
	@scripts/venv.sh build/venv
	@scripts/axe.sh build/axe

.PHONY: test
test: ## run all tests, the race detector where goroutines share memory; installs what they need
	@scripts/timed.sh "make test" $(MAKE) --no-print-directory tested

.PHONY: tested
tested: test-deps build cross
	cd bench && $(GO_CGO) test -timeout 10m -v ./... 2>&1 | awk -f ../scripts/testlog.awk
	$(GO_TEST) -v ./... 2>&1 | awk -f scripts/testlog.awk
	$(GO_RACE) -short -v $(RACE) 2>&1 | awk -f scripts/testlog.awk

.PHONY: cross
cross: ## build and vet for the other systems
	@for p in $(PLATFORMS); do \
		echo "GOOS=$${p%/*} GOARCH=$${p#*/} go build, go vet"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/weir; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; \
	done

.PHONY: test-cache
test-cache: build ## have the npm package http-cache-tests judge weir cache-proxy; fails if a check fails that is not listed
	scripts/cache-tests.sh bin/weir build/cache-tests

FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@# At the end of its time go test now and then fails with the words that the second grep looks for, and nothing was found
	@# (go.dev/issue/75804, until Go 1.27). What was found is told in other lines.
	@# Files of targets that open some are in memory where they can be: they do thousands of executions a second there.
	@mkdir -p build; [ ! -w /dev/shm ] || export TMPDIR=/dev/shm; \
	grep -rnoE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' cmd internal | \
	while IFS=: read -r file _ func; do \
		name=$${func#func }; \
		echo "== $$name in $$(dirname $$file)"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./$$(dirname $$file) 2>&1 | tee build/fuzz.log || \
			grep -A1 '^--- FAIL: ' build/fuzz.log | grep -qx ' *context deadline exceeded' || exit 1; \
	done

.PHONY: lint
lint: vetted ## vet, gofmt and staticcheck, in both modules
	$(GO) tool staticcheck ./...
	staticcheck=$$($(GO) tool -n staticcheck); cd bench && CGO_ENABLED=0 "$$staticcheck" ./...

##### benches

# make bench is a quick look; make bench FULL=1 measures what the bars are about. That wants half an hour, 12 GiB of
# memory and nobody else on the machine. ROUNDS=5 takes longer and varies less.
ROUNDS ?= 3
ifdef FULL
BENCH_FLAGS := --users 5000000 --rounds $(ROUNDS) --duration 3s
else
BENCH_FLAGS := --users 200000 --rounds $(ROUNDS) --duration 2s
endif

.PHONY: bench
bench: bench-build ## measure weir against its peers; FULL=1 for 5 million users, BENCH="flags" for more (--services storm)
	@mkdir -p build/bench
	scripts/sizes.sh >build/sizes
	build/bin/run $(BENCH_FLAGS) $(BENCH) | tee build/bench/results.md

.PHONY: bench-build
bench-build: build
	@scripts/need.sh gcc=gcc g++=g++ wrk=wrk nginx=nginx-light
	@mkdir -p build/bin
	gcc -O2 -Wall -Wextra -o build/bin/floor bench/floor/floor.c
	@# GMP is there to compare with. Without it the report says so and has the rest.
	scripts/need.sh gmp.h=libgmp-dev && gcc -O2 -Wall -Wextra -o build/bin/gmp bench/gmp/gmp.c -lgmp || rm -f build/bin/gmp
	@# So are Feast, which takes minutes to install once, and Redis.
	scripts/need.sh redis-server=redis-server && scripts/venv.sh build/venv || true
	$(GO) test -c -trimpath -o build/bin/decimal.test ./internal/sequence/decimal
	$(GO) test -c -trimpath -o build/bin/beta.test ./internal/bandit/beta
	$(GO) test -c -trimpath -o build/bin/syndication.test ./internal/filter/syndication
	$(GO) test -c -trimpath -o build/bin/rules.test ./internal/filter/rules
	$(GO) test -c -trimpath -o build/bin/positions.test ./internal/cluster/positions
	$(GO) build -o build/bin/localcluster ./cmd/localcluster
	cd bench && $(GO_CGO) build -trimpath -o ../build/bin/ ./...

.PHONY: bench-inputs
bench-inputs: ## write the inputs of the import figures, 8 GB, to build/bench/inputs
	@scripts/venv.sh build/venv
	build/venv/bin/python3 bench/inputs/inputs.py --users 5000000 --items 200 --max-item 10000000 -o build/bench/inputs

SOAKTIME ?= 30m
FAULTS ?= 20
CLUSTERTIME ?= 1h

.PHONY: soak
soak: bench-build ## kill weir 2000 times, load it for SOAKTIME (30m), then an engine's faults, FAULTS (20) times each and for CLUSTERTIME (1h) under nodes; fails if an item comes twice, a request fails or memory grows
	@mkdir -p build/bench
	WEIR_SOAK=1 $(GO_TEST) -count=1 -v -run '^TestKillLosesNoAcknowledgedPosition$$' ./cmd/weir
	@# 20,000 answers a second run 2 million users out of items in half an hour.
	build/bin/run --soak $(SOAKTIME) --users 2000000
	@# Each fault of an engine, FAULTS times on Redis and on Valkey: 20 are an hour.
	@scripts/need.sh redis-server=redis-server strace=strace
	WEIR_FAULTS=$(FAULTS) $(GO) test -timeout 3h -count=1 -v -run '^Test(FaultsGiveNothingTwice|FaultsOfTheEngineLoseNothingThatWasAcknowledged|EventsCountOnceWhateverBecomesOfThePrimary)$$' \
		./internal/cluster/clustertest ./internal/filter/shared ./internal/bandit/learning
	WEIR_CLUSTER_SOAK=$(CLUSTERTIME) $(GO) test -timeout 24h -count=1 -v -run '^TestClusterSoak$$' ./cmd/weir

.PHONY: limited
limited: bench-build ## overload weir for a minute in a cgroup of 768 MiB, as root; fails if it is killed, swaps or does not answer
	@mkdir -p build/bench
	build/bin/run --limited 60s --users 200000

.PHONY: clean
clean: ## remove everything that was built
	rm -rf bin build
