#!/bin/sh
# Posts a generated log of 1 GB to a server in one request and prints the server's peak memory beside its memory at rest.
# usage: memory.sh CULPRIT GENLOG
set -eu
data=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$data"' EXIT
"$1" serve --listen 127.0.0.1:18080 --data "$data/corpus" 2>"$data/server.log" &
pid=$!
for _ in $(seq 100); do
	curl -sf http://127.0.0.1:18080/readyz >/dev/null && break
	sleep 0.1
done
field() { awk -v f="$1:" '$1 == f { print int($2 / 1024) }' "/proc/$pid/status"; }
rest=$(field VmRSS)
start=$(date +%s.%N)
"$2" -framework torchrun -ranks 8 -bytes 1000000000 |
	curl -sSf -o "$data/answer" -H 'Transfer-Encoding: chunked' -T - -X POST 'http://127.0.0.1:18080/api/v1/attempts?job=1&gpus=8&exit_code=1'
end=$(date +%s.%N)
echo "peak $(field VmHWM) MB, at rest $rest MB, over rest $(($(field VmHWM) - rest)) MB, $(echo "$end - $start" | bc 2>/dev/null || awk "BEGIN { print $end - $start }") s for 1 GB, generating included"
