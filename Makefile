# make run    build and serve on 127.0.0.1:8080 with data in ./culprit-data
# make test   every test
# make browser  the pages in a real browser, which is installed where apt-get can
# make check  what CI checks beside the tests: gofmt, vet, staticcheck, the rules
.DEFAULT_GOAL := build
.PHONY: build run test race browser check rules fuzz bench bench-go bench-memory bench-compare image clean deps

export CGO_ENABLED := 1
FUZZTIME ?= 20s
LABELS ?= ../shared/corpus/labels.jsonl

build: deps
	go build -o bin/culprit ./cmd/culprit

run: build
	./bin/culprit serve --listen 127.0.0.1:8080 --data culprit-data

test: deps
	go test ./...

race: deps
	go test -race -short ./...

# CULPRIT_SCREENSHOTS=folder keeps pictures of all pages; CULPRIT_AXE=axe.min.js looks for what keeps people from using them.
browser: deps
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
		else echo "these tests need chromium (Debian: apt-get install chromium)"; exit 1; fi; }
	go test -count=1 -run '^TestBrowser' ./web

check: deps
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt these files:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

rules: build
	./bin/culprit rules lint
	./bin/culprit rules test

# One fuzz target after the other, $(FUZZTIME) each.
fuzz: deps
	@for pkg in ./classifier ./rules ./corpus ./web ./cmd/culprit; do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; go test $$pkg -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; \
	done

# The memory of a server that takes a log of 1 GB in one request.
bench-memory: build
	go build -o bin/genlog ./cmd/genlog
	sh cmd/genlog/memory.sh bin/culprit bin/genlog

# culprit and its peers on the same logs in one run, into BENCHMARKS.md. make bench BENCH_FLAGS=-full for a million attempts.
bench: deps
	go run ./cmd/bench $(BENCH_FLAGS)

# The Go benchmarks of each stage.
bench-go: build
	go test -run '^$$' -bench . -benchmem ./classifier ./rules ./corpus ./web

# make bench-compare BASE=main~1: the Go benchmarks of a revision beside those of the work tree.
bench-compare: deps
	sh cmd/genlog/compare.sh "$(BASE)"

image:
	docker build -t culprit .

# SQLite is C: a compiler is needed to build. Installs one where apt-get can; elsewhere says what is missing.
deps:
	@command -v go >/dev/null || { echo "culprit needs Go 1.26 or newer: https://go.dev/dl/"; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
		if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq gcc libc6-dev >/dev/null; \
		else echo "culprit needs a C compiler (Debian: apt-get install gcc libc6-dev)"; exit 1; fi; }

clean:
	rm -rf bin
