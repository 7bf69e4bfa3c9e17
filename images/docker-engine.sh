#!/bin/bash
# A Docker engine with buildx and compose on a bare Debian 12 or 13 machine.
#
#   docker-engine.sh start     provide one: install what is missing, start the daemon, wait until it answers
#   docker-engine.sh stop      end the daemon that start began, by its pid; whatever else runs is left alone
#   docker-engine.sh status    say what is there; 0 when an engine answers, 4 when none does
#
# Run it as root. Settings, all optional, from the environment:
#   DOCKER_ENGINE_DATA   images and containers   (/var/lib/spark-spec-docker)
#   DOCKER_ENGINE_RUN    pid file, sockets       (/run/spark-spec-docker)
#   DOCKER_ENGINE_LOG    the daemon's log        (/var/log/spark-spec-docker.log)
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

DATA=${DOCKER_ENGINE_DATA:-/var/lib/spark-spec-docker}
RUN=${DOCKER_ENGINE_RUN:-/run/spark-spec-docker}
LOG=${DOCKER_ENGINE_LOG:-/var/log/spark-spec-docker.log}
SOCKET=/var/run/docker.sock
OWNER=$RUN/owner # "PID START": the daemon that start began, with its start in clock ticks since boot
SUITE=trixie     # Debian 12's own docker.io is too old and has no compose

say() { echo "docker-engine: $*" >&2; }

# fail WHAT WHY FIX: three lines, exit 4 (the machine is not fit).
fail() {
    printf 'what failed: %s\nwhy:         %s\nwhat to do:  %s\n' "$1" "$2" "$3" >&2
    exit 4
}

ask() { timeout 10 docker "$@" 2>/dev/null; }
answers() { ask version --format '{{.Server.Version}}'; }
has_compose() { ask compose version >/dev/null; }
has_buildx() { ask buildx version >/dev/null; }

describe() {
    say "engine $(answers), $(ask compose version | head -1), buildx $(ask buildx version | cut -d' ' -f2)"
}

# ---- processes --------------------------------------------------------------------------------------------

# start_ticks PID: field 22 of /proc/PID/stat; nothing where the process is gone or a zombie.
start_ticks() {
    local rest
    rest=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 0
    # shellcheck disable=SC2086
    set -- $rest
    case $1 in Z | X) ;; *) echo "${20}" ;; esac
}

# ours: the pid of the daemon that start began, while it lives. A reused pid has another start time.
ours() {
    local pid ticks
    read -r pid ticks 2>/dev/null <"$OWNER" || return 1
    [ -n "$ticks" ] && [ "$(start_ticks "$pid")" = "$ticks" ] && echo "$pid"
}

# leftovers: true while containerd or a container's shim of our daemon lives; a shim names our containerd's socket.
leftovers() {
    grep -qsFf <(echo "$RUN/exec/containerd/") /proc/[0-9]*/cmdline
}

# ---- packages ---------------------------------------------------------------------------------------------

# What an engine of our own needs, and what any engine needs at its side.
missing_packages() {
    if ! answers >/dev/null; then
        command -v dockerd >/dev/null || echo docker.io
        command -v debootstrap >/dev/null || echo debootstrap
        command -v iptables >/dev/null || echo iptables
    fi
    command -v docker >/dev/null || echo docker-cli
    has_buildx || echo docker-buildx
    has_compose || echo docker-compose
}

# configured CODENAME: the address of Debian's main archive for a suite, as this machine's apt has it.
configured() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk -v suite="$1" '$1 == suite && $2 == "main" && $3 == "Debian" { print $4; exit }'
}

apt_update() {
    timeout 300 apt-get update -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=30 >&2 ||
        fail "the package lists could not be fetched" "apt-get update failed (its words are above)" \
            "mend the sources in /etc/apt, or install Docker 23 or later with buildx and compose by hand"
}

# On Debian 12: the next suite beside the machine's own source, so low that nothing else is taken from it.
add_suite() {
    local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -z "$(configured "$SUITE")" ] || return 0
    mirror=$(configured bookworm)
    [ -n "$mirror" ] || fail "no source for Docker's packages" "apt knows no Debian 12 main archive" \
        "add the Debian archive to /etc/apt/sources.list.d and run this again"
    say "adding Debian's $SUITE suite at priority 50 (/etc/apt/sources.list.d/spark-spec-$SUITE.sources)"
    printf 'Package: *\nPin: release n=%s\nPin-Priority: 50\n' "$SUITE" >"/etc/apt/preferences.d/spark-spec-$SUITE"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$SUITE" "$keyring" \
        >"/etc/apt/sources.list.d/spark-spec-$SUITE.sources"
    apt_update
}

# Each package is asked for as NAME/SUITE. `-t SUITE` would also raise libc, dpkg and a compiler's libraries.
install_packages() {
    local version wanted=() name
    # shellcheck source=/dev/null
    version=$(. /etc/os-release 2>/dev/null && [ "${ID:-}" = debian ] && echo "${VERSION_ID:-}") || true
    case $version in
    12 | 13) ;;
    *) fail "Docker cannot be installed here: $* missing" "this is not Debian 12 or 13" \
        "install Docker 23 or later with its buildx and compose plugins as your system's vendor describes" ;;
    esac
    apt_update
    [ "$version" = 13 ] || add_suite
    for name in "$@"; do
        case $version/$name in
        12/docker*) wanted+=("$name/$SUITE") ;;
        *) wanted+=("$name") ;;
        esac
    done
    say "installing: ${wanted[*]}"
    DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -y -qq --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=120 "${wanted[@]}" >&2 ||
        fail "apt could not install ${wanted[*]}" "its words are above" \
            "mend what apt complains of and run this again; nothing was removed"
}

# ---- the daemon -------------------------------------------------------------------------------------------

launch() {
    local pid end=$((SECONDS + 60))
    mkdir -p "$DATA" "$RUN" "$(dirname "$LOG")"
    rm -f "$RUN/dockerd.pid" # of a daemon that died hard; its number may be another process's by now
    # Not in a process group or terminal of ours, and with nothing of ours open: it outlives this script.
    setsid dockerd --data-root "$DATA" --exec-root "$RUN/exec" --pidfile "$RUN/dockerd.pid" \
        --host "unix://$SOCKET" </dev/null >>"$LOG" 2>&1 9>&- &
    pid=$!
    echo "$pid $(start_ticks "$pid")" >"$OWNER"
    while [ $SECONDS -lt $end ] && ours >/dev/null; do
        if [ -n "$(DOCKER_HOST=unix://$SOCKET answers)" ]; then
            say "started as pid $pid; data in $DATA, log in $LOG"
            return 0
        fi
        sleep 0.2
    done
    tail -n 15 "$LOG" >&2
    end_daemon
    fail "the Docker daemon did not come up" "its last words are above (all of them: $LOG)" \
        "it needs root, cgroups and iptables: on a container of your own, run that one with --privileged"
}

# The daemon ends its containers and containerd itself; a minute later it is killed.
end_daemon() {
    local pid
    pid=$(ours) || return 0
    kill -TERM "$pid"
    for _ in $(seq 300); do
        ours >/dev/null || return 0
        sleep 0.2
    done
    kill -KILL "$pid"
    fail "the daemon (pid $pid) did not end in a minute and was killed" "its log is $LOG" \
        "run stop again: it ends what containers were left behind"
}

# What a daemon that died hard leaves: its mounts below our folders, its socket, its pid files.
sweep() {
    local mount
    awk '{ print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do
        case $mount in "$DATA"/overlay2/* | "$DATA"/containers/* | "$RUN"/*) umount -l "$mount" 2>/dev/null || true ;; esac
    done
    if [ -S "$SOCKET" ] && [ -z "$(DOCKER_HOST=unix://$SOCKET answers)" ]; then rm -f "$SOCKET"; fi
    rm -rf "$RUN"
}

# ---- commands ---------------------------------------------------------------------------------------------

need_root() {
    [ "$(id -u)" = 0 ] || fail "docker-engine needs root" "you are $(id -un)" "run it with sudo, or ask who owns the machine"
}

lock() {
    mkdir -p "$(dirname "$RUN")"
    exec 9>"$RUN.lock"
    flock -w 900 9 || fail "another docker-engine is at work" "$RUN.lock is held" "wait for it, then run this again"
}

start() {
    local packages
    packages=$(missing_packages)
    if [ -z "$packages" ] && [ -n "$(answers)" ]; then
        say "an engine already answers; nothing to do"
        describe
        return 0
    fi
    need_root
    lock
    # shellcheck disable=SC2046
    [ -z "$packages" ] || install_packages $(missing_packages)
    hash -r
    if [ -z "$(answers)" ]; then
        case ${DOCKER_HOST:-unix://$SOCKET} in
        "unix://$SOCKET" | unix:///run/docker.sock) launch ;;
        *) fail "no engine answers at DOCKER_HOST" "it is set to $DOCKER_HOST" "unset DOCKER_HOST, or start the engine it names" ;;
        esac
    fi
    [ -n "$(answers)" ] || fail "an engine runs, but docker does not reach it" "docker context: $(ask context show)" \
        "choose the local engine: docker context use default"
    packages=$(missing_packages)
    [ -z "$packages" ] || fail "still missing after the installation: $packages" \
        "$(command -v docker) does not find them" "install them beside that client, or remove it"
    describe
}

stop() {
    need_root
    lock
    if ! ours >/dev/null && leftovers; then
        say "the daemon died hard and left containers behind: starting it once more, so that it ends them"
        launch
    fi
    if ours >/dev/null; then
        end_daemon
        say "stopped; images stay in $DATA"
    elif [ -n "$(answers)" ]; then
        say "an engine answers, but not one started here: left alone"
        return 0
    else
        say "not running"
    fi
    sweep
}

status() {
    local pid
    if [ -z "$(answers)" ]; then
        say "no engine answers"
        return 4
    fi
    describe
    if pid=$(ours); then say "started here: pid $pid, data in $DATA, log in $LOG"; else say "not started here"; fi
}

case ${1:-} in
start | stop | status) "$1" ;;
*)
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
