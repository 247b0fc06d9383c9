#!/usr/bin/env bash
# axe.sh DIRECTORY installs axe-core, which the browser's tests look at pages with, into DIRECTORY. It does nothing, quickly,
# when it is there, and says that it skips where it cannot be had.
set -euo pipefail

version=4.14.1
mkdir -p "$1"
grep -qs "\"version\": \"$version\"" "$1/node_modules/axe-core/package.json" && exit 0
command -v npm >/dev/null || "$(dirname "$0")/need.sh" npm=npm || { echo "skipped: npm is missing and cannot be installed"; exit 0; }
timeout 300 npm install --prefix "$1" --no-save --no-audit --no-fund --ignore-scripts --loglevel error \
	"axe-core@$version" >&2 || echo "skipped: npm cannot install axe-core@$version"
