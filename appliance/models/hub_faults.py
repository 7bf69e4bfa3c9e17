"""What goes wrong with the hub, in words: who refused, why, and what to do."""

import datetime
import errno
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from appliance.core.errors import FetchFault, MachineFault, SparkSpecError
from appliance.core.text import one_line
from appliance.models.folder import megabytes, not_ours

# No clock that is right shows an earlier time: this was written then.
WRITTEN = datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC)
LONGEST_LIFE = datetime.timedelta(days=3653)  # of an installation, before its clock is doubted
SOURCES = (
    "a token is looked for in HF_TOKEN, in the hub's own login (`hf auth login`), and in our secrets "
    "(`spark-spec secrets set HF_TOKEN`)"
)
_DATED = ("certificate is not yet valid", "certificate has expired")


class Unreachable(FetchFault):
    """The hub did not answer, or may not be asked."""


def explain(error: BaseException, what: str, address: str, folder: Path) -> BaseException:
    """The fault of a failed transfer of `what`, such as a repository, from `address`, into `folder`; the error
    itself where it is none that is known."""
    if isinstance(error, SparkSpecError):
        return error
    return (
        _local(error, what, folder)
        or clock(error, what)
        or _refused(error, what, address)
        or _network(error, what, address)
        or error
    )


def clock(error: BaseException, what: str) -> SparkSpecError | None:
    """The fault of a certificate that is not valid at the time which this machine's clock shows."""
    text = " ".join(str(one) for one in _chain(error))
    dated = next((words for words in _DATED if words in text), None)
    if dated is None:
        return None
    now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    if dated == _DATED[1] and WRITTEN <= now <= WRITTEN + LONGEST_LIFE:
        return FetchFault(
            f"{what} cannot be fetched",
            f"the server's {dated}; this machine's clock shows {now:%Y-%m-%d}",
            "if that is today, the server or a proxy before it has to be mended; if not, set the clock: "
            "sudo timedatectl set-ntp true",
        )
    return MachineFault(
        "this machine's clock is wrong",
        f"it shows {now:%Y-%m-%d %H:%M} UTC; to it the server's {dated}, so {what} cannot be fetched",
        "set it: sudo timedatectl set-ntp true    (without network: sudo date -s 'YYYY-MM-DD HH:MM')",
    )


def _local(error: BaseException, what: str, folder: Path) -> SparkSpecError | None:
    """Refusals of this machine's operating system."""
    for one in _chain(error):
        if not isinstance(one, OSError):
            continue
        if one.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(folder).free
            return MachineFault(
                f"the disk became full while {what} was fetched",
                f"{megabytes(free)} are free in {folder}",
                "free some space, and run again: what is whole is kept",
            )
        if isinstance(one, PermissionError) and one.filename:
            refused = Path(one.filename)
            return not_ours(refused if refused.exists() else folder)
    return None


def _refused(error: BaseException, what: str, address: str) -> SparkSpecError | None:
    """What the hub itself answered."""
    from huggingface_hub import errors

    if odd := next((one for one in _chain(error) if isinstance(one, errors.FileMetadataError)), None):
        return FetchFault(
            f"{what} cannot be fetched",
            one_line(str(odd).partition(". ")[0]),
            "see what HF_ENDPOINT names, and what lies between here and there: it does not answer as a hub does",
        )
    answer = next((one for one in _chain(error) if isinstance(one, errors.HfHubHTTPError)), None)
    if answer is None:
        return None
    status = answer.response.status_code
    refused = status in (401, 403) or isinstance(answer, errors.RepositoryNotFoundError)
    later = "run again later: what is whole is kept"
    told = (f"the hub could not give {what}", f"it answered {status}", later)
    if isinstance(answer, errors.GatedRepoError):
        told = (
            f"the hub does not give {what} to everyone",
            "its terms have to be agreed to, by an account whose token is sent along",
            f"agree to them at {address}, then run again; {SOURCES}",
        )
    elif isinstance(answer, errors.RevisionNotFoundError):
        told = (
            f"the hub does not have this revision of {what}",
            "it was moved or removed there since it was pinned, or first fetched",
            f"look at {address}; `spark-spec models rm` and `models pull` take what is current instead",
        )
    elif isinstance(answer, errors.RemoteEntryNotFoundError):
        told = (
            f"a file of {what} is gone from the hub",
            "its list still has it",
            f"look at {address}; {later}",
        )
    elif refused:
        told = (
            f"the hub does not show {what}",
            f"it answered {status}: there is no such repository, or the account has no right to it",
            f"look at {address}; {SOURCES}",
        )
    elif status == 429:
        told = (
            f"the hub gives {what} no more for now",
            "too many requests came from this address",
            f"{later}; an account may ask more often, and {SOURCES}",
        )
    return FetchFault(*told)


def _network(error: BaseException, what: str, address: str) -> SparkSpecError | None:
    """What lies between here and the hub."""
    for one in _chain(error):
        if "CERTIFICATE_VERIFY_FAILED" in str(one):
            return FetchFault(
                f"{what} cannot be fetched",
                one_line(str(one)),
                "where a proxy looks into TLS, name its certificate: export SSL_CERT_FILE=...",
            )
        if type(one).__module__.partition(".")[0] in ("httpx", "httpx2", "urllib", "socket", "http"):
            return Unreachable(f"{what} cannot be fetched",
                               f"{address.split('/')[2]} does not answer: {one_line(str(one)) or type(one).__name__}",
                               "see to the network, or to the proxy (HTTPS_PROXY), and run again")  # fmt: skip
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came of; at most ten."""
    one: BaseException | None = error
    for _ in range(10):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
