# What to run, and how, in every module of the repository.
MODULES  := . cmd/strata contrib/goredis contrib/zstd otel prometheus test bench
FUZZTIME ?= 30s
BENCH    ?= .
COUNT    ?= 6
NEWER    ?= 1.27.0
NARROW   := ./internal/redis/resp ./internal/snapshot/format ./internal/memcached/meta ./internal/cache/l1 ./internal/cache/envelope ./codec/... ./memory \
	./internal/cache/evict ./internal/cache/expiry ./internal/snapshot/drops ./internal/cache/entryrules ./internal/observe ./internal/cache/ledger
LINT     := bin/golangci-lint-v2.15.0

# Tests of many rounds, seeds or combinations run a quarter of them with -short, and all in
# `make whole`: kit.Rounds. Those of the module `test` that take longest
# run in `make real` only.
SHORT    := -short
whole: SHORT :=

# What `make test` tests with the race detector: first the module that mostly waits for
# servers' clocks, beside which the others work. `make real` is all of that module.
TESTED = $(if $(SHORT),test) $(filter-out test bench,$(MODULES))

# Packages of one goroutine, which the race detector slows ten times, and finds nothing in. Single tests of this kind
# say so: kit.Alone.
ALONE = /test/(rules|mutants)$$|/testing/sim(/|$$)

# The race detector needs cgo and a C compiler. Without one the tests still
# run, and say that they ran without it.
RACE := $(if $(shell command -v "$$(go env CC)"),-race)

# $(call each,command) runs command in every module and stops at the first
# failure.
each = @set -e; for m in $(MODULES); do echo "== $$m"; (cd $$m && $(1)); done

.DEFAULT_GOAL := help
.PHONY: help fmt lint test build fuzz mutants real whole cover bench guard newer up down tidy check

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

fmt: $(LINT) ## format all code
	$(call each,$(CURDIR)/$(LINT) fmt)

lint: $(LINT) ## look for mistakes that the compiler does not know
	$(LINT) run $(MODULES:%=./%/...)

# The module bench compares libraries: its tests look at values, and the loops of
# other libraries gain nothing from the race detector.
test: ## unit tests of all modules with the race detector, and one real Redis
	@[ -n "$(RACE)" ] || echo "no C compiler: testing without the race detector"
	all=$$(go list $(TESTED:%=./%/...)) && go test -timeout 20m $(SHORT) $(RACE) -parallel 16 -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
		$$(echo "$$all" | grep -v -E '$(ALONE)')
	@echo "== with an encoded L1"; go test -timeout 20m $(SHORT) $(RACE) -parallel 16 $(addprefix ./internal/testing/coherence/,agreement loads) -encoded
	cd bench && go test $(SHORT) ./...
	@echo "== without the race detector"; all=$$(go list ./... ./test/...) && go test $(SHORT) $$(echo "$$all" | grep -E '$(ALONE)')
	@echo "== what is allocated, which the race detector hides, and what one goroutine does"
	go test -vet=off $(SHORT) -run "Alloc|$$(grep -rhB1 --include=*_test.go 'kit\.Alone(t)$$' . | sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/^\1$$/p' | paste -sd'|')" \
		$$(go list -f '{{.Dir}}' ./... | while read -r d; do ! grep -qs -e '^func Test.*Alloc' -e 'kit\.Alone(t)$$' "$$d"/*_test.go || echo "$$d"; done)

# The linters vet all modules, in one workspace. That the tests of each module
# find their imports without it is seen by listing them.
build: ## compile each module on its own, and for other platforms; test what counts bytes with 32 bits and the next Go
	$(call each,GOWORK=off go build -o /dev/null ./... && GOWORK=off go list -test -deps ./... >/dev/null)
	@echo "== 386"; GOARCH=386 CGO_ENABLED=0 go vet ./...
	@[ "$$(go env GOHOSTOS)/$$(go env GOHOSTARCH)" != linux/amd64 ] || GOARCH=386 CGO_ENABLED=0 go test -short $(NARROW)
	@echo "== Go $(NEWER)"; if ! GOTOOLCHAIN=go$(NEWER) go version >/dev/null 2>&1; then echo "cannot be had: not tested with it"; \
		else GOTOOLCHAIN=go$(NEWER) go test -short ./codec/...; fi
	@set -e; for p in linux/arm64 darwin/arm64 windows/amd64; do \
		echo "== $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build ./...; done

fuzz: ## every fuzz target, or the SHARD i/n of them, for FUZZTIME (default 30s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz $(MODULES)

mutants: ## seed known bugs, one at a time: a test must notice each; SINCE a commit, SHARD i/n: some of them
	@scripts/mutants

real: ## everything that needs real servers
	cd test && go test $(RACE) -count=1 -timeout 20m ./...

.PHONY: chaos
chaos: ## ten minutes (or CHAOS) of faults on processes and real Redis servers, with SENTINEL=1 on sentinels, with REPOINT=1 at addresses that lead elsewhere, with CLUSTER=1 on a Redis Cluster
	cd test && go test -count=1 -v -run 'Broken|ColdKey|Holder|ChaosBreaks' -timeout 0 ./chaos -for $(or $(CHAOS),10m) $(if $(SEED),-seed $(SEED)) $(if $(SENTINEL),-sentinel) $(if $(REPOINT),-repoint) $(if $(CLUSTER),-cluster -every 10s)

.PHONY: chaosmemcached
chaosmemcached: ## the same with three servers of memcached as L2, with the bus of Redis and without a bus
	cd test && go test -count=1 -v -run ChaosOverMemcached -timeout 0 ./chaos -for $(or $(CHAOS),10m) $(if $(SEED),-seed $(SEED))

.PHONY: soak
soak: ## the Redis client in all ways, with its connections cut, for ten minutes (or SOAK)
	cd test && go test -count=1 -v -run TestSoak -timeout 0 . -soak $(or $(SOAK),10m)

.PHONY: pictures
pictures: ## the pictures of the stage in the guide, in four minutes
	cd test && go test -count=1 -run TestPicturesOfTheGuide ./browser -shots $(CURDIR)/docs

cover: ## share of statements that the root module's tests reach
	go test -coverpkg=./... -coverprofile=cover.out ./...
	@go tool cover -func=cover.out | tail -n 1

bench: ## compare with others: BENCH selects, COUNT repeats
	cd bench && go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

guard: ## a process with little memory, with and without the guard of its caches, in ten minutes
	cd bench && go run ./cmd/guard

newer: ## the tests of all modules with the next Go (NEWER, default 1.27.0)
	@for m in $(MODULES); do echo "== $$m"; (cd $$m && GOTOOLCHAIN=go$(NEWER) go test -short ./...) || exit; done

# $(call compose,arguments) runs docker compose on the stack of dashboards, or says what is missing.
compose = @if ! command -v docker >/dev/null; then echo "docker is not installed: $@ needs it" >&2; exit 1; \
	elif ! docker compose version >/dev/null 2>&1; then echo "docker has no compose: install its plugin docker-compose-plugin" >&2; exit 1; \
	elif ! docker info >/dev/null 2>&1; then echo "docker does not answer: is its daemon running, and may you use it?" >&2; exit 1; \
	else docker compose -f dashboards/compose.yaml $(1); fi

up: ## start the demo with Redis, PostgreSQL, Prometheus, Grafana and Jaeger in containers
	$(call compose,up --build --detach)
	@echo "Grafana http://127.0.0.1:3000, Prometheus http://127.0.0.1:9090, Jaeger http://127.0.0.1:16686"

down: ## stop the containers of `make up` and remove them
	$(call compose,down --volumes)

tidy: ## bring every go.mod in order
	$(call each,go mod tidy)

whole: test lint real ## all rounds of all tests, linters, real servers
	$(call each,go mod tidy -diff)

check: whole build fuzz mutants ## all of it, as before a release

$(LINT):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT:bin/golangci-lint-%=%)
	mv bin/golangci-lint $@
