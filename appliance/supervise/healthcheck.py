"""A container's health check: `python3 -m appliance.supervise.healthcheck DIR`. 0: ready; 1: not, and why.

Runs every few seconds, so it imports next to nothing.
"""

import json
import sys
import time

FRESH_S = 15.0


def why_not(folder: str, now: float) -> str:
    """Why the status in this state folder does not say ready, or nothing. `now` is wall-clock seconds."""
    try:
        with open(f"{folder}/status.json", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up
            status = json.load(file)
        state, phase, updated = status["state"], status["phase"], float(status["updated"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"no status: {error}"
    if abs(now - updated) > FRESH_S:
        return f"the supervisor is silent: its status is {abs(now - updated):.0f} s old"
    return "" if state == "ready" else f"{state}: {phase}"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python3 -m appliance.supervise.healthcheck DIR\n")
        return 2
    why = why_not(sys.argv[1], time.time())
    if why:
        sys.stdout.write(why + "\n")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
