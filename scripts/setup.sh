#!/bin/sh
# Make .venv ready, from nothing but Python and Debian's package manager.
#
#   sh scripts/setup.sh EXTRA [PACKAGE[=COMMAND]...]   install the project with [EXTRA] into .venv
#   sh scripts/setup.sh constraints                    rewrite constraints.txt
#
# .venv/.made       where .venv was made; there only while .venv is whole, so that one left
#                   half-made, half-installed or moved is made anew
# .venv/.has-EXTRA  checksum of the pyproject.toml, constraints.txt and requirements that were
#                   installed
set -eu
cd "$(dirname "$0")/.."
# One at a time, also when an earlier one was killed and its pip still runs.
exec 9<pyproject.toml
! command -v flock >/dev/null || flock 9

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Show what a command printed only if it failed: pip and apt talk a lot even when told not to.
quietly() {
    "$@" </dev/null >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die "failed: $*"; }
}

# A name on PATH may be a pyenv shim with nothing behind it, so each one is made to run.
find_python() {
    for python in python3.11 python3; do
        ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return 0
    done
    die 'needs Python 3.11 or newer: sudo apt-get update && sudo apt-get install -y python3.11'
}

# Debian keeps what makes environments in a package of its own: its name, if it is missing.
venv_package() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'
}

# The packages, out of PACKAGE[=COMMAND]..., that are missing.
missing_packages() {
    for entry; do
        case $entry in
        *=*) command -v "${entry#*=}" >/dev/null ;;
        *) [ "$(dpkg-query -W -f '${db:Status-Status}' "$entry" 2>/dev/null)" = installed ] ;;
        esac || printf '%s ' "${entry%%=*}"
    done
}

install_packages() {
    [ $# -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || die "please run: sudo apt-get update && sudo apt-get install -y $*"
    say "installing $* with apt-get (once)"
    quietly apt-get update
    quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# Not only left whole, but usable still: its Python may have been removed or replaced since.
whole() {
    [ "$(cat .venv/.made 2>/dev/null)" = "$(pwd -P)" ] && .venv/bin/python -c 'import pip' 2>/dev/null
}

if [ "$1" = constraints ]; then
    find_python # 3.11 first: what suits the oldest supported Python suits newer ones
    # Debian's own 3.11.2 before a newer 3.11: some packages ask for as little as 3.11.5.
    ! /usr/bin/python3.11 -c '' 2>/dev/null || python=/usr/bin/python3.11
    install_packages $(venv_package)
    say 'installing the newest version of everything, to write its number and hashes down'
    echo '# The versions the project is tested with. Refresh them with: make constraints' >"$tmp/new"
    for extra in test lab server; do # lab, and server for the image, take the versions that test found
        also=
        [ "$extra" != server ] || also=,s3,oidc,notify,cluster
        quietly "$python" -m venv "$tmp/$extra"
        quietly "$tmp/$extra/bin/python" -m pip install -c "$tmp/new" ".[$extra$also]"
        [ "$extra" != test ] || "$tmp/$extra/bin/python" -m pip freeze --exclude easeml-meter >>"$tmp/new"
        # What builds the project is pinned, too.
        quietly "$tmp/$extra/bin/python" -m pip install -c "$tmp/new" hatchling editables
        "$tmp/$extra/bin/python" -m pip freeze --exclude easeml-meter >"$tmp/$extra.versions"
        quietly "$python" scripts/requirements.py "$tmp/$extra.versions" "requirements/$extra.txt"
    done
    cat "$tmp/new" >constraints.txt
    exit
fi

extra=$1
shift
missing=$(missing_packages "$@")
whole || { find_python; missing="$missing$(venv_package)"; }
install_packages $missing

wanted=$(cat pyproject.toml constraints.txt requirements/lab.txt requirements/test.txt | cksum)
if whole && [ "$(cat ".venv/.has-$extra" 2>/dev/null)" = "$wanted" ]; then exit; fi
[ ! -e .venv ] || [ -w .venv ] || die 'please run, since another user made it: sudo rm -rf .venv'

say "installing easeml-meter[$extra] into .venv (once)"
whole || { rm -rf .venv; quietly "$python" -m venv .venv; }
rm -f .venv/.made .venv/.has-*
if .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    # Only files that are known are installed, and pip refuses hashes beside a project in place.
    # The list is complete, and pip check looks. Resolving it would fail once psycopg has a newer
    # version than ours: pip asks for the newest psycopg[pool] before it sees that psycopg is pinned.
    quietly .venv/bin/python -m pip install --no-deps --require-hashes -r "requirements/$extra.txt"
    quietly .venv/bin/python -m pip install --no-deps --no-build-isolation -e .
    quietly .venv/bin/python -m pip check
else
    quietly .venv/bin/python -m pip install -c constraints.txt -e ".[$extra]"
fi
echo "$wanted" >".venv/.has-$extra"
# The developer's set includes the user's.
[ "$extra" != test ] || echo "$wanted" >.venv/.has-lab
pwd -P >.venv/.made
