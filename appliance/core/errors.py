"""The one family of errors a person sees: what failed, why, what to do, and an exit code."""


class SparkSpecError(Exception):
    """An expected failure. `code` is the process exit code; the three texts are printed one a line."""

    code = 1

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix


class UsageFault(SparkSpecError):
    """The command line is off."""

    code = 2


class ConfigFault(SparkSpecError):
    """Bad configuration, or a stack that cannot exist."""

    code = 3


class MachineFault(SparkSpecError):
    """The machine is not fit: docker, architecture, memory, disk, port, permission."""

    code = 4


class FetchFault(SparkSpecError):
    """Fetching or authentication failed."""

    code = 5


class EngineDied(SparkSpecError):
    """The engine or a stage died."""

    code = 6


class NoProgress(SparkSpecError):
    """Not ready, or wedged: it lives, but nothing moves."""

    code = 7


class NotGoodEnough(SparkSpecError):
    """It runs, but verification, an acceptance bound or losslessness failed."""

    code = 8


class Mismatch(SparkSpecError):
    """A checksum or signature does not match."""

    code = 9
