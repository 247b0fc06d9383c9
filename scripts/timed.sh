#!/usr/bin/env bash
# timed.sh NAME COMMAND... runs a command and, if it succeeds, writes how many seconds it took to build/times, a line a name,
# where the bench reads it.
set -euo pipefail

name=$1
shift
start=$(date +%s)
"$@"
took=$(($(date +%s) - start))
mkdir -p build
touch build/times
grep -v "^$name " build/times >build/times.new || true
echo "$name $took" >>build/times.new
mv build/times.new build/times
echo "$name took $((took / 60)) min $((took % 60)) s"
