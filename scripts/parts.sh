#!/bin/sh
# Run make targets, and say how long each took.
#
#   sh scripts/parts.sh FIRST... [-- BESIDE... LAST]
#
# The first ones run one after the other, up to the first that fails. Those after -- run side by
# side: LAST prints as it goes, and what the others print follows when they are done.
set -u
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
trap 'kill $beside 2>/dev/null; exit 130' INT TERM
beside=
code=0

part() {
    started=$(date +%s)
    "${MAKE:-make}" --no-print-directory "$1"
    ended=$?
    printf '%-10s %4d s\n' "$1" $(($(date +%s) - started)) >"$made/$1.time"
    return $ended
}

summary() {
    echo
    for target; do
        [ ! -e "$made/$target.time" ] || cat "$made/$target.time"
    done
    exit "$code"
}

all=$*
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    part "$1" || { code=$?; summary $all; }
    shift
done
[ $# -eq 0 ] || shift
while [ $# -gt 1 ]; do
    { part "$1" >"$made/$1.out" 2>&1; echo $? >"$made/$1.code"; } &
    beside="$beside $!"
    others="${others:-} $1"
    shift
done
[ $# -eq 0 ] || part "$1" || code=$?
wait
for target in ${others:-}; do
    printf '\n%s:\n' "$target"
    cat "$made/$target.out"
    [ "$(cat "$made/$target.code")" -eq 0 ] || code=1
done
summary $all
