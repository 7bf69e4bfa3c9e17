"""Run the checks against an endpoint."""

from appliance.catalog.stack import Offers
from appliance.client.client import Client
from appliance.core.errors import SparkSpecError
from appliance.verify.checks import CHECKS, QUICK, Function, failed, model_name, unknown
from appliance.verify.prompts import PROMPTS
from appliance.verify.report import Check, VerifyReport
from appliance.verify.speculation import NAME, ReadCounters, Seen, speculation

__all__ = ["VerifyReport", "verify"]

FEW, FEW_TOKENS = 2, 32
SOME, SOME_TOKENS = 4, 64


def verify(
    client: Client,
    offers: Offers,
    expects_speculation: bool,
    read_counters: ReadCounters,
    quick: bool,
) -> VerifyReport:
    """Check what the endpoint offers, and that it speculates where it should.

    Raises NotReachable where nobody answers at the start; later failures are findings of the report.
    """
    named = model_name(client, offers)
    # First, while the counters stand still: a reading lags, and would take in other checks' drafts.
    seen = _speculation(client, offers, expects_speculation, read_counters, quick)
    others = (_run(function, client, offers) for function in (QUICK if quick else CHECKS))
    return VerifyReport(model=client.model, checks=(named, seen.check, *others), acceptance=seen.acceptance)


def _speculation(
    client: Client, offers: Offers, expected: bool, read_counters: ReadCounters, quick: bool
) -> Seen:
    if not offers.chat:
        return Seen(unknown(NAME, "it is measured through chat, which is not offered here"))
    prompts, tokens = (PROMPTS[::2][:FEW], FEW_TOKENS) if quick else (PROMPTS[::2][:SOME], SOME_TOKENS)
    try:
        return speculation(client, prompts, tokens, expected=expected, read_counters=read_counters)
    except SparkSpecError as error:
        return Seen(failed(NAME, f"{error.what}: {error.why}", error.fix))


def _run(function: Function, client: Client, offers: Offers) -> Check:
    try:
        return function(client, offers)
    except SparkSpecError as error:
        return failed(function.__name__.replace("_", " "), f"{error.what}: {error.why}", error.fix)
