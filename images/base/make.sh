#!/bin/bash
# A Debian 12 base image with python3 and libgomp1, made without a registry:
#
#   make.sh TAG PLATFORM        e.g. make.sh spark-spec/base:bookworm linux/arm64
#
# Needs root, debootstrap, a running Docker engine and a Debian mirror: the one apt uses on this machine.
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
umask 022

fail() {
    printf 'what failed: %s\nwhy:         %s\nwhat to do:  %s\n' "$1" "$2" "$3" >&2
    exit 4
}

[ $# = 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tag=$1 platform=$2 arch=${2#linux/}

[ "$(id -u)" = 0 ] || fail "the base cannot be made" "debootstrap needs root" "run it as root"
command -v debootstrap >/dev/null ||
    fail "the base cannot be made" "debootstrap is missing" "apt-get install debootstrap"
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
    grep -qsl '^enabled' /proc/sys/fs/binfmt_misc/qemu-* ||
        fail "the base for $arch cannot be made" "this machine cannot run $arch programs" \
            "as root: bash ${0%/*}/../emulation.sh; or build on a machine of that kind"
fi
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(COMPONENT) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "main" && $2 == "Debian" { print $3; exit }')
[ -n "$mirror" ] || fail "the base cannot be made" "apt on this machine knows no Debian archive" \
    "add one to /etc/apt/sources.list.d and run apt-get update"

work=$(mktemp -d "${TMPDIR:-/tmp}/spark-spec-base.XXXXXX")
root=$work/root
clean() {
    umount -l "$root/proc" "$root/sys" 2>/dev/null || true # debootstrap's, where it was cut short
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

debootstrap --arch="$arch" --variant=minbase --force-check-gpg --include=python3,libgomp1 bookworm "$root" "$mirror"

# The archive's own date, so that one state of the archive gives one set of bytes.
date=$(sed -n 's/^Date: //p' "$root"/var/lib/apt/lists/*_Release | head -1)
rm -rf "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old "$root"/var/cache/ldconfig/* \
    "$root"/var/lib/apt/lists/* "$root"/var/lib/dpkg/*-old "$root"/var/log/* "$root"/tmp/* \
    "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/*
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root" -name __pycache__ -type d -prune -exec rm -rf {} +
: >"$root/etc/machine-id"
rm -f "$root/etc/hostname" "$root/etc/resolv.conf"

tar -C "$root" --sort=name --numeric-owner --clamp-mtime --mtime="${date:-@0}" --one-file-system -c . |
    docker import --platform "$platform" --message "debootstrap bookworm, archive of ${date:-unknown date}" \
        --change 'CMD ["python3"]' --change 'LABEL spark-spec.image=base' - "$tag"
