#!/usr/bin/env bash
# sizes.sh writes what weir has of lines, megabytes, minutes of tests and allocations: a subject, a name and a value a line,
# by tabs. The bench reads it from build/sizes.
set -euo pipefail

lines() {
	local name=$1
	shift
	printf 'lines\t%s\t%s\n' "$name" "$(find "$@" -name '*.go' ! -name '*_test.go' -exec cat {} + | wc -l)"
}
lines "cmd and internal" cmd internal
lines bench bench
if [ -f bin/weir ]; then
	printf 'MB\tbin/weir\t%s\n' "$(stat -c %s bin/weir | awk '{ print $1 / 1e6 }')"
fi
if [ -f build/times ]; then # "make check 95", in seconds
	awk 'NF == 3 { printf "minutes\t%s %s\t%s\n", $1, $2, $3 / 60 }' build/times
fi
# A package has 0 if its tests of allocations pass, and 1 otherwise; one without any is left out.
for package in internal/server internal/bandit; do
	failed=0
	said=$(CGO_ENABLED=0 go test -count=1 -v -run Alloc "./$package" 2>&1) || failed=1
	if grep -qE '^--- (PASS|FAIL)' <<<"$said"; then
		printf 'allocations\tweir/%s\t%s\n' "$package" "$failed"
	fi
done
