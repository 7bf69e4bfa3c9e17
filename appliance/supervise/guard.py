"""Outlives a killed supervisor just long enough to kill the engine's process group.

`python -S -I guard.py` reads process group ids from standard input, one a line; 0 means none. The end of
input means that the supervisor is gone, however it died.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = 0
    for line in sys.stdin:
        group = int(line)
    if group > 1:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
