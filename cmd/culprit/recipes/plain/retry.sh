#!/bin/sh
# Run a command again for as long as culprit says that a retry can help, and never a hundred times:
#   sh retry.sh python train.py
history=${CULPRIT_HISTORY:-$(mktemp)}
export CULPRIT_HISTORY="$history"
attempt=1
while :; do
	CULPRIT_ATTEMPT=$attempt culprit run -- "$@"
	code=$?
	[ "$code" -eq 75 ] && [ "$attempt" -lt "${MAX_ATTEMPTS:-5}" ] || exit "$code"
	attempt=$((attempt + 1))
	sleep "${RETRY_WAIT:-30}"
done
