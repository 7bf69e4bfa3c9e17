"""The supervisor as a program: `python3 -m appliance.supervise PLAN --state DIR [--log FILE] [--wait-go]`.

Exit codes: 0 stopped on request (or never told to go), 2 usage, 3 a plan that cannot be read, 4 the state
folder is taken or unusable, 6 the engine died, 7 it made no progress. Standard library only.
"""

import argparse
import fcntl
import os
import re
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from appliance.supervise import counters, plan, status
from appliance.supervise.journal import Journal, RotatedFile, Stdout
from appliance.supervise.lifecycle import EXIT_DIED, EXIT_WEDGED
from appliance.supervise.process import Guard, become_subreaper
from appliance.supervise.supervisor import STOP_SIGNALS, Supervisor

LOCK = "supervisor.lock"
LOCK_WAIT_S = 1.0  # a killed supervisor's guard holds the lock until the engine's group is dead
GO_WAIT_S = 60.0
JUST_NOW_S = 30.0
BAD_PLAN, NOT_FIT = 3, 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="appliance.supervise", description="Supervise one engine.")
    parser.add_argument("plan", type=Path, help="supervise.json; the engine runs in its folder")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="status.json goes here")
    parser.add_argument("--log", type=Path, metavar="FILE", help="log here, rotated, not to standard output")
    parser.add_argument("--wait-go", action="store_true", help='start nothing until "go" comes on stdin')
    args = parser.parse_args()
    try:
        what = plan.read(args.plan)
        _check(what)
    except (OSError, ValueError, re.error) as error:
        return _refuse(BAD_PLAN, f"cannot use the plan {args.plan}: {error}")
    try:
        lock = _lock(args.state)
    except BlockingIOError:
        return _refuse(NOT_FIT, f"another supervisor is running on {args.state}")
    except OSError as error:
        return _refuse(NOT_FIT, f"cannot use the state folder {args.state}: {error}")
    status.clean(args.state)
    if (code := _gave_up(args.state)) is not None:
        return code
    if args.wait_go and not _told_to_go():
        return 0
    become_subreaper()
    guard = Guard(lock)
    journal = Journal(RotatedFile(args.log) if args.log else Stdout())
    try:
        return Supervisor(what, args.plan.resolve().parent, args.state, journal, guard).run()
    finally:
        guard.close()
        journal.close(1.0)


def _check(what: plan.Plan) -> None:
    """What would otherwise fail only in mid-run. Raises ValueError or re.error."""
    for phase in what.phases:
        re.compile(phase.pattern)
    if what.counters:
        counters.read(what.counters, "")


def _refuse(code: int, text: str) -> int:
    sys.stderr.write(f"supervise: {text}\n")
    return code


def _lock(state: Path) -> int:
    """Take the state folder for the life of this process. Raises BlockingIOError where it is taken."""
    state.mkdir(parents=True, exist_ok=True)
    lock = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _gave_up(state: Path) -> int | None:
    """The exit code of a supervisor that gave up here just now. Docker, told to restart what failed, would have
    the whole row of restarts begin anew, and the reason would be lost; a person who starts it later is not meant."""
    try:
        last = status.read(state)
    except (OSError, ValueError):
        return None
    if last is None or last.state != status.EXITED or not 0 <= time.time() - last.updated < JUST_NOW_S:
        return None
    sys.stdout.write(f"supervise: it was given up just now ({last.phase}): not starting it again\n")
    return EXIT_WEDGED if last.exit and last.exit.wedged else EXIT_DIED


def _told_to_go() -> bool:
    """Whether the line "go" came on standard input; not so at its end, at another line, or after a minute."""

    def leave(*_: object) -> NoReturn:
        sys.exit(0)

    for number in STOP_SIGNALS:
        signal.signal(number, leave)
    told = b""
    deadline = time.monotonic() + GO_WAIT_S
    while not told.endswith(b"\n") and select.select([0], [], [], max(0, deadline - time.monotonic()))[0]:
        if not (byte := os.read(0, 1)):
            break
        told += byte
    return told == b"go\n"


if __name__ == "__main__":
    sys.exit(main())
