#!/bin/sh
# Runs the Go benchmarks of a revision and of the work tree in turns and compares them with benchstat.
# usage: compare.sh REVISION
set -eu
[ -n "$1" ] || { echo "which revision? make bench-compare BASE=main~1"; exit 2; }
out=$(mktemp -d)
trap 'git worktree remove --force "$out/base" 2>/dev/null || true; rm -rf "$out"' EXIT
git worktree add --quiet --detach "$out/base" "$1"
for round in 1 2 3 4 5 6; do
	for side in base head; do
		dir=.
		[ $side = base ] && dir=$out/base
		(cd "$dir" && go test -run '^$' -bench "${BENCH:-.}" -benchtime 0.5s ./classifier ./rules) >>"$out/$side.txt"
	done
done
go run golang.org/x/perf/cmd/benchstat@latest "$out/base.txt" "$out/head.txt"
