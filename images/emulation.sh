#!/bin/bash
# Lets an x86-64 machine run programs of linux/arm64, in Docker's containers and builds too, by QEMU's emulation:
#
#   emulation.sh        as root, Debian 12 or 13; does nothing where it is so already
#
# The kernel forgets it at a restart, or sooner: echo -1 >/proc/sys/fs/binfmt_misc/qemu-aarch64
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

MISC=/proc/sys/fs/binfmt_misc
ENTRY=$MISC/qemu-aarch64
FORMAT=/usr/lib/binfmt.d/qemu-aarch64.conf # the package's own line: NAME, magic number, interpreter, flags

say() { echo "emulation: $*" >&2; }

# fail WHY FIX: three lines, exit 4 (the machine is not fit).
fail() {
    printf 'what failed: this machine cannot run linux/arm64\nwhy:         %s\nwhat to do:  %s\n' "$1" "$2" >&2
    exit 4
}

# works: true where the kernel has it with flag F, by which it holds QEMU open: a container has no QEMU of its own.
works() { grep -qsx enabled "$ENTRY" && grep -qsx 'flags: .*F.*' "$ENTRY"; }

install_qemu() {
    command -v apt-get >/dev/null || fail "QEMU is missing, and this is no Debian" \
        "install QEMU's user emulation for aarch64, statically linked, as your system's vendor describes"
    say "installing qemu-user-static"
    timeout 300 apt-get update -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=30 >&2 ||
        fail "apt-get update failed (its words are above)" "mend the sources in /etc/apt"
    DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=120 qemu-user-static >&2 ||
        fail "apt could not install qemu-user-static (its words are above)" "mend what apt complains of"
    [ -f "$FORMAT" ] || fail "the package qemu-user-static brought no $FORMAT" "see dpkg -L qemu-user-static"
}

[ $# = 0 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
case $(uname -m) in
aarch64) say "this machine is arm64 itself"; exit 0 ;;
x86_64) ;;
*) fail "it is $(uname -m); only x86-64 was tried" "use a machine that is arm64 or x86-64" ;;
esac
if works; then
    say "linux/arm64 runs already; nothing to do"
    exit 0
fi
[ "$(id -u)" = 0 ] || fail "setting it up needs root, and you are $(id -un)" "run it with sudo"
[ -f "$FORMAT" ] || install_qemu
[ -e "$MISC/register" ] || mount -t binfmt_misc binfmt_misc "$MISC" ||
    fail "binfmt_misc cannot be mounted" \
        "load the kernel's module (modprobe binfmt_misc); a container needs --privileged, or its host does this"
if [ -e "$ENTRY" ]; then echo -1 >"$ENTRY"; fi # without F, or switched off
grep -m1 '^:' "$FORMAT" >"$MISC/register" || true # refused where the package's own start was quicker
works || fail "the kernel did not take $FORMAT" "see what is in $MISC, and whether the line has the flag F"
say "linux/arm64 runs here now"
