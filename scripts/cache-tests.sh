#!/usr/bin/env bash
# cache-tests.sh WEIR DIRECTORY has the npm package http-cache-tests judge weir cache-proxy, prints the score and
# every check that fails, and fails itself if one does that docs/http-cache.md does not list.
#
# It installs the package into DIRECTORY, and says that it skips where that cannot be had. Both servers listen on
# free loopback ports and end with the script.
set -euo pipefail

version=0.4.5
here=$(cd "$(dirname "$0")" && pwd)
weir=$(realpath "$1")
mkdir -p "$2"
dir=$(realpath "$2")
package=$dir/node_modules/http-cache-tests

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	"$here/need.sh" node=nodejs npm=npm || { echo "skipped: node and npm are missing and cannot be installed"; exit 0; }
fi
if ! grep -qs "\"version\": \"$version\"" "$package/package.json"; then
	timeout 300 npm install --prefix "$dir" --no-save --no-audit --no-fund --ignore-scripts --loglevel error \
		"http-cache-tests@$version" >&2 || { echo "skipped: npm cannot install http-cache-tests@$version"; exit 0; }
fi

ends=()
trap 'kill "${ends[@]}" 2>/dev/null || true; wait' EXIT

# address LOG waits until a server has written to LOG where it listens, and prints the port.
address() {
	for _ in $(seq 100); do
		port=$(sed -nE 's|.*istening on http://.*:([0-9]+)/?$|\1|p' "$1")
		[ -n "$port" ] && echo "$port" && return
		sleep 0.1
	done
	echo "cache-tests.sh: nothing listens: $(cat "$1")" >&2
	return 1
}

cd "$package"
: >"$dir/origin.log" >"$dir/weir.log"
export npm_config_protocol=http npm_config_port=0 npm_config_pidfile=/dev/null npm_config_id='' npm_package_config_id=''
node server/server.mjs >"$dir/origin.log" 2>&1 &
ends+=($!)
"$weir" cache-proxy --upstream "http://127.0.0.1:$(address "$dir/origin.log")" --listen 127.0.0.1:0 >"$dir/weir.log" 2>&1 &
ends+=($!)
export npm_config_base=http://127.0.0.1:$(address "$dir/weir.log")
timeout 300 node --no-warnings cli.mjs >"$dir/results.json"
node "$here/cache-tests.mjs" "$package" "$dir/results.json" "$here/../docs/http-cache.md"
