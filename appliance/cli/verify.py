"""verify."""

import os
from typing import TYPE_CHECKING

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result, result_json, table
from appliance.core.errors import NotGoodEnough

if TYPE_CHECKING:
    from appliance.lifecycle.prove import Held
    from appliance.verify.report import VerifyReport


@click.command()
@options.stack_name
@click.option(
    "--against-baseline",
    is_flag=True,
    help="Also serve the same target without speculation, beside it and only meanwhile, and compare.",
)
@options.as_json
def verify(name: str | None, against_baseline: bool, as_json: bool) -> None:
    """Check that the stack NAME answers well, not only 200; exit code 8 where it does not.

    What the preset offers is checked: chat, completion, stream, JSON, tools; what it does not offer is said to be
    so. Speculation is judged by the engine's own counters; what an engine does not count is unknown.

    \b
    Example:
      spark-spec verify demo
      spark-spec verify demo --against-baseline
    """
    from appliance.lifecycle import prove
    from appliance.lifecycle.managed import find, running
    from appliance.stack.resolve import resolve_machine

    talk = Terminal()
    stack = find(resolve_machine([], os.environ), name, talk)
    release = running(stack)
    if against_baseline:
        prove.require_draft(stack, release)
    try:
        talk.phase("verifying")
        report = prove.check(stack, release, quick=False)
        held = prove.against_baseline(stack, release) if against_baseline and report.ok else None
    finally:
        talk.close()
    if as_json:
        compared = held and {
            "comparison": held.comparison.model_dump(mode="json"),
            "acceptance": held.acceptance and held.acceptance.model_dump(mode="json"),
        }
        result_json({"name": stack.folder.name, **report.as_data(), "against_baseline": compared})
    else:
        tell_report(report)
        if held:
            _tell_held(held)
    if not report.ok:
        raise NotGoodEnough(*report.complaint())
    if held and held.comparison.lossless is False:
        raise NotGoodEnough(
            "speculation changes the text",
            "greedy answers differ from the target's own by more than a near-tie",
            "see the differences (--json), and serve without it meanwhile: spark-spec up … --no-spec",
        )


def tell_report(report: "VerifyReport") -> None:
    """The checks, one a line."""
    table([(check.name, check.outcome, check.detail or check.why) for check in report.checks])


def _tell_held(held: "Held") -> None:
    from appliance.verify.speculation import describe

    compared = held.comparison
    result("")
    if held.acceptance:
        result(f"over {compared.prompts} prompts: {describe(held.acceptance)}")
    result(f"greedy text the same in {compared.identical} of {compared.prompts} answers")
    for difference in compared.differences:
        tie = {True: "a near-tie", False: "not a near-tie", None: "margin unknown"}[difference.near_tie]
        result(f"  {difference.prompt}: differs from character {difference.at} on ({tie})")
        result(f"    with:    {difference.speculated!r}")
        result(f"    without: {difference.baseline!r}")
    result(compared.verdict)
