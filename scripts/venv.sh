#!/usr/bin/env bash
# venv.sh DIRECTORY makes a Python environment with what scripts/requirements.txt pins.
#
# It does nothing, quickly, when the environment already has exactly that.
set -euo pipefail

here=$(dirname "$0")
venv=$1
wanted=$here/requirements.txt
stamp=$venv/requirements.installed

cmp -s "$wanted" "$stamp" && exit 0

"$here/need.sh" python3=python3
# Debian packs the module that makes environments by itself.
python3 -c 'import ensurepip, venv' 2>/dev/null || "$here/need.sh" no-such-command=python3-venv
[ -x "$venv/bin/python3" ] || python3 -m venv "$venv"
"$venv/bin/python3" -m pip install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$stamp"
