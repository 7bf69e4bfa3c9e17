"""heads: the published draft heads."""

from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import result_json, table

if TYPE_CHECKING:
    from appliance.catalog.entries import Entry, Head

COLUMNS = ("HEAD", "REPOSITORY", "TARGET", "ENGINES", "K", "LAYERS", "LICENCE")
UNKNOWN = "unknown"


@click.command()
@options.as_json
def heads(as_json: bool) -> None:
    """List the published draft heads and what each is made for.

    A head guesses the next tokens from what its target has just read, so it serves one target only. K is the
    number of tokens it guesses ahead where it was published; LAYERS are those of the target that it reads, as
    each engine counts them; an engine that is not named there reads them from the head's own files. What no
    source says is unknown. --json adds size, revision, notes, and the source of every fact.

    \b
    Example:
      spark-spec heads
      spark-spec show eagle3 --set draft.model=gpt-oss-120b-eagle3-v3 --set draft.k=1
    """
    from appliance.catalog.entries import entry_ids, load_entry

    found = [(entry, entry.head) for entry in map(load_entry, entry_ids()) if entry.head]
    if as_json:
        result_json([_facts(entry, head) for entry, head in found])
    else:
        table([_row(entry, head) for entry, head in found], COLUMNS)


def _row(entry: "Entry", head: "Head") -> tuple[str, ...]:
    return (
        entry.id,
        entry.name,
        head.target,
        ", ".join(head.engines),
        _length(head),
        _layers(head),
        entry.license or UNKNOWN,
    )


def _length(head: "Head") -> str:
    """K as its source uses it, and the longest it was made for."""
    most = f"at most {head.k_most}" if head.k_most else ""
    if head.k is None:
        return most or UNKNOWN
    return f"{head.k}, {most}" if most else str(head.k)


def _layers(head: "Head") -> str:
    """By engine, in its own numbering. An engine that is not named reads them from the checkpoint."""
    told = [f"{engine} {'/'.join(map(str, layers))}" for engine, layers in head.layers.items()]
    return ", ".join(told) or UNKNOWN


def _facts(entry: "Entry", head: "Head") -> dict[str, Any]:
    """All that the catalog knows of a head; null is what was read from no source."""
    from appliance.catalog.entries import HubSource

    source = entry.source if isinstance(entry.source, HubSource) else None
    return {
        "id": entry.id,
        "repository": source.repo if source else None,
        "revision": source.revision if source else None,
        "files": list(source.files) if source else None,
        "bytes": source.bytes if source else None,
        "license": entry.license,
        "gated": entry.gated,
        "quantization": entry.quantization,
        "context_length": entry.context_length,
        **head.model_dump(mode="json"),
        "sources": entry.sources,
        "notes": list(entry.notes),
    }
