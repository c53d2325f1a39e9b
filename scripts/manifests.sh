#!/bin/sh
# Have the tools that read the files of deploy check them: Kubernetes' schemas and promtool.
#
#   sh scripts/manifests.sh
#
# What is not installed is put into .cache/manifests: from PyPI, or from Debian's packages without
# installing them, so that no service starts. Exit code 77: a tool could not be had.
set -eu
cd "$(dirname "$0")/.."
cache=.cache/manifests
mkdir -p "$cache"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

missing() { printf 'manifests: %s could not be had: %s\n' "$1" "$2" >&2; exit 77; }

test -x "$cache/bin/kubernetes-validate" || {
    { python3 -m venv "$cache/venv" && "$cache/venv/bin/pip" install --quiet kubernetes-validate==1.37.0; } \
        >"$tmp/log" 2>&1 || missing kubernetes-validate "$(tail -n 1 "$tmp/log")"
    mkdir -p "$cache/bin" && ln -sf ../venv/bin/kubernetes-validate "$cache/bin/kubernetes-validate"
}
"$cache/bin/kubernetes-validate" --strict deploy/kubernetes/*.yaml

promtool=$(command -v promtool) || {
    promtool=$cache/prometheus/usr/bin/promtool
    test -x "$promtool" ||
        (cd "$tmp" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb unpacked) >"$tmp/log" 2>&1 ||
        missing promtool "$(tail -n 1 "$tmp/log")"
    test -x "$promtool" || mv "$tmp/unpacked" "$cache/prometheus"
}
"$promtool" check rules deploy/alerts.yml
"$promtool" test rules deploy/alerts-test.yml
