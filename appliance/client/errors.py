"""How asking an endpoint can fail."""

from appliance.core.errors import NoProgress, NotGoodEnough, SparkSpecError

ASK_STATUS = "see how it is: spark-spec status"
SEE_LOGS = "read the engine's log: spark-spec logs"


class NotReachable(NoProgress):
    """Nobody answers there, or not yet: refused, reset, end of file before an answer, 502, 503, 504.

    `retry_after_s` is the server's own wish, in seconds, where it has one.
    """

    def __init__(
        self, what: str, why: str, fix: str = ASK_STATUS, retry_after_s: float | None = None
    ) -> None:
        super().__init__(what, why, fix)
        self.retry_after_s = retry_after_s


class Silent(NoProgress):
    """It took the request, and then nothing came for longer than allowed."""


class BrokenAnswer(NotGoodEnough):
    """The answer is cut off, malformed, or an error of the server's own."""


class RequestRefused(SparkSpecError):
    """The server refuses this request (HTTP 3xx, 4xx). `why` is its own message."""

    def __init__(self, status: int, what: str, why: str, fix: str) -> None:
        super().__init__(what, why, fix)
        self.status = status
        self.code = 5 if status in (401, 403, 407) else 2
