#!/bin/sh
# Have the tools that read the files of deploy check them: Kubernetes' schemas, promtool, nginx.
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

# Print the path of a program of a Debian package.
tool() {
    command -v "$1" && return
    found="$cache/$2/$3"
    test -x "$found" || {
        (cd "$tmp" && apt-get download "$2" && dpkg-deb -x "$2"_*.deb unpacked) >"$tmp/log" 2>&1 ||
            missing "$1" "$(tail -n 1 "$tmp/log")"
        rm -rf "${cache:?}/$2" && mv "$tmp/unpacked" "$cache/$2"
    }
    printf '%s\n' "$found"
}

test -x "$cache/bin/kubernetes-validate" || {
    { python3 -m venv "$cache/venv" && "$cache/venv/bin/pip" install --quiet kubernetes-validate==1.37.0; } \
        >"$tmp/log" 2>&1 || missing kubernetes-validate "$(tail -n 1 "$tmp/log")"
    mkdir -p "$cache/bin" && ln -sf ../venv/bin/kubernetes-validate "$cache/bin/kubernetes-validate"
}
"$cache/bin/kubernetes-validate" --strict deploy/kubernetes/*.yaml

promtool=$(tool promtool prometheus usr/bin/promtool)
"$promtool" check rules deploy/alerts.yml
"$promtool" test rules deploy/alerts-test.yml

# nginx opens its certificate: here is one that stands for that of compose.
nginx=$(tool nginx nginx usr/sbin/nginx)
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=meter -keyout "$tmp/tls.key" -out "$tmp/tls.pem" 2>/dev/null
sed -e "s#/tmp/#$tmp/#" -e "s#/run/secrets/#$tmp/#" deploy/nginx.conf >"$tmp/nginx.conf"
"$nginx" -t -q -e stderr -c "$tmp/nginx.conf"
printf 'deploy/nginx.conf: nginx takes it\n'
