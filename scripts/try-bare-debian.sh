#!/bin/sh
# Try what the README promises on a bare Debian 12: python3.11, make and nothing else.
#
#   sh scripts/try-bare-debian.sh            try the working tree
#   sh scripts/try-bare-debian.sh COMMIT     try a commit
#
# Needs root, debootstrap and the network; takes a few minutes and cleans up after itself.
# Every command runs in namespaces of its own, so its mounts and its processes are gone when it
# ends, however it ends: there is nothing to unmount.
set -eu
cd "$(dirname "$0")/.."
commit=${1-}
root=$(mktemp -d /tmp/bare-debian.XXXXXX)
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$root" # the plain user inside must be able to read it
user=1000

step() { printf '\n=== %3d s: %s\n' "$(($(date +%s) - start))" "$*"; }
die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
start=$(date +%s)

# inside UID FOLDER COMMAND...; $network=--net takes the network away
# A booted Debian has /proc, terminals and shared memory; a chroot has to be given them.
network=
inside() {
    uid=$1 folder=$2
    shift 2
    unshare $network --mount --pid --fork --kill-child --mount-proc --root="$root" --wd="$folder" \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$(dirname "$folder")" \
        sh -ec 'mount -t devpts -o ptmxmode=666 devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm; exec "$@"' sh \
        setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@" </dev/null
}

# copy UID FOLDER: what git knows, and of the working tree also what is new
copy() {
    mkdir -p "$root$2"
    if [ -n "$commit" ]; then
        git archive "$commit"
    else
        git ls-files -z --cached --others --exclude-standard |
            tar --create --null --files-from=- --ignore-failed-read
    fi | tar --extract --no-same-owner --directory="$root$2"
    chown -R "$1:$1" "$(dirname "$root$2")"
}

step 'a bare Debian 12'
unshare --mount debootstrap --variant=minbase --include=make,python3.11 bookworm "$root" \
    >"$root.log" 2>&1 || { cat "$root.log"; die 'debootstrap, see above'; }
rm -rf "$root"/var/lib/apt/lists/* # as in a fresh image: nothing is known before apt-get update
# This machine's way to the package registries, whatever it is. Debian's ca-certificates, which
# python3.11-venv pulls in, takes up the certificates in the last folder.
for path in /etc/resolv.conf /etc/pip.conf /usr/local/share/ca-certificates; do
    [ ! -e "$path" ] || { mkdir -p "$root${path%/*}" && cp -rL "$path" "$root${path%/*}/"; }
done
inside 0 / useradd --uid $user --create-home user
copy 0 /root/meter
copy $user '/home/user/my meter'

step 'plain user, python3.11-venv missing: one line says what to do'
if inside $user '/home/user/my meter' make demo >"$root/out" 2>&1; then die 'this should not work'; fi
cat "$root/out"
grep -q 'sudo apt-get install -y python3.11-venv$' "$root/out" || die 'no apt line'
[ "$(wc -l <"$root/out")" -eq 2 ] || die 'more than our line and the one of make'

step 'root: make demo'
inside 0 /root/meter make demo

step 'root: make demo again, without a network: nothing is installed'
network=--net
inside 0 /root/meter make demo >"$root/out" 2>&1 || { cat "$root/out"; die 'second make demo'; }
network=
! grep '^setup:' "$root/out" || die 'installed again'

step 'root: make test'
inside 0 /root/meter make test

step 'plain user, folder with a space: make test, cut off in the middle of the installation'
# When the first process of a namespace ends, all others in it are killed.
inside $user '/home/user/my meter' sh -c 'make test &
    until [ -d .venv/lib/python3.11/site-packages/numpy ]; do kill -0 $! || exit 1; sleep 0.1; done' ||
    die 'ended before it could be cut off'

step 'plain user: make demo heals it'
inside $user '/home/user/my meter' make demo

step 'plain user: make test'
inside $user '/home/user/my meter' make test

step 'all good'
