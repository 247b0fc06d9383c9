#!/usr/bin/env bash
# need.sh COMMAND=PACKAGE... installs the Debian package of every command that is missing. Instead of a
# command there may be a C header, gmp.h for one.
#
# It does nothing, quickly, when all are there. It installs as root, or through sudo.
set -euo pipefail

packages=()
for pair in "$@"; do
	name=${pair%%=*}
	case $name in
	*.h) gcc -E -include "$name" -x c /dev/null >/dev/null 2>&1 ;;
	*) command -v "$name" >/dev/null ;;
	esac || packages+=("${pair#*=}")
done
[ ${#packages[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
	echo "need.sh: please install ${packages[*]} (by these names in Debian): there is no apt-get here" >&2
	exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "need.sh: please install ${packages[*]} as root: there is no sudo here" >&2
		exit 1
	}
	root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing ${packages[*]}" >&2
"${root[@]}" apt-get update -qq >&2
"${root[@]}" apt-get install -qq -y --no-install-recommends "${packages[@]}" >&2 </dev/null
