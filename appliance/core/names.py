"""Stack names: what Docker, file systems and systemd all accept."""

import re

from appliance.core.errors import UsageFault

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def check_name(name: str) -> str:
    """The name itself where it is a good one. Raises UsageFault with a good one near it."""
    if _NAME.fullmatch(name):
        return name
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    raise UsageFault(
        f"{name!r} cannot be the name of a stack",
        "a name has lower-case letters, digits and hyphens, begins with a letter or digit, and has 40 at most",
        f"use --name {near}" if near else "choose a name such as demo-1",
    )
