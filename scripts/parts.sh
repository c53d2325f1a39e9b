#!/bin/sh
# Run make targets one after the other, stop at the first that fails, and say how long each took.
#
#   sh scripts/parts.sh TARGET...
set -u
cd "$(dirname "$0")/.."
summary=
for target; do
    started=$(date +%s)
    "${MAKE:-make}" --no-print-directory "$target"
    code=$?
    summary="$summary$(printf '%-10s %4d s' "$target" $(($(date +%s) - started)))
"
    [ "$code" -eq 0 ] || break
done
printf '\n%s' "$summary"
exit "$code"
