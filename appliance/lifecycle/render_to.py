"""`render`: a stack's files in a folder of one's own, that nothing here runs or remembers."""

import dataclasses
import os
import shutil
import tempfile
from pathlib import Path

from appliance.catalog.stack import RuntimeName
from appliance.core.errors import MachineFault, UsageFault
from appliance.core.names import check_name
from appliance.lifecycle.prepare import folders, revisions
from appliance.machine.facts import REFERENCE, this_machine
from appliance.stack.release import write_files
from appliance.stack.render import render
from appliance.stack.resolve import Resolved
from appliance.stack.validate import validate


def render_to(resolved: Resolved, name: str, folder: Path, runtime: RuntimeName, *, reference: bool) -> Path:
    """Render, validate, and put the folder in its place by rename. Returns its absolute path.

    Raises UsageFault where the folder holds anything already, ConfigFault where the stack cannot be.
    """
    folder = folder.expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageFault(f"{folder} is not empty", "rendering never overwrites a file",
                         "remove it, or name another folder")  # fmt: skip
    wish = resolved.stack.docker.gpu
    gpu = REFERENCE.gpu if wish == "auto" else wish  # not probed: it may be meant for another machine
    here = this_machine(runtime, folders(resolved.machine.paths), None, gpu, revisions(resolved))
    machine = dataclasses.replace(REFERENCE, gpu=gpu) if reference else here
    rendered = render(resolved.stack, machine, check_name(name))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise MachineFault(
            f"cannot write to {folder.parent}", str(error), "choose a folder of yours"
        ) from None
    try:
        write_files(rendered, staged)
        if not reference:
            validate(staged)
        os.replace(staged, folder)  # noqa: PTH105 -- an empty folder may stand there, which only this replaces
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return folder
