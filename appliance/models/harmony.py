"""The vocabulary of the harmony format, which gpt-oss's chat needs beside the model's own files.

Without it an engine starts, says it is healthy, and fails at the first chat: it is looked for before the load.
"""

import hashlib
import shlex
from pathlib import Path

from appliance.core.errors import FetchFault, MachineFault, Mismatch

# sha256 by file, as in the sources of tiktoken (tiktoken_ext/openai_public.py).
HARMONY = {
    "o200k_base.tiktoken": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base.tiktoken": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
MOST = 16 << 20  # bytes; the larger of the two has 3.6 MB
ADDRESS = "https://openaipublic.blob.core.windows.net/encodings"


def check_harmony(folder: Path) -> None:
    """Raises FetchFault where a file is not there, Mismatch where it is another, MachineFault where it cannot be
    read; each with the command that puts it right."""
    for name, expected in HARMONY.items():
        file = folder / name
        get = f"mkdir -p {shlex.quote(str(folder))} && curl -fL -o {shlex.quote(str(file))} {ADDRESS}/{name}"
        try:
            if file.exists() and not file.is_file():  # a pipe would never end
                raise MachineFault(f"{file} cannot be read", "it is no ordinary file", "see what it is")
            if file.exists() and file.stat().st_size > MOST:
                raise Mismatch(
                    f"{file} is not the harmony vocabulary", "it is far larger", f"get it anew: {get}"
                )
            found = hashlib.sha256(file.read_bytes()).hexdigest()
        except FileNotFoundError:
            raise FetchFault(
                f"the harmony vocabulary is not whole: {file} is not there",
                "gpt-oss cannot answer a chat without it, although the engine would start",
                f"{get}    (on a machine without network: copy it there; paths.harmony names the folder)",
            ) from None
        except OSError as error:
            raise MachineFault(
                f"{file} cannot be read", error.strerror or str(error), "see what it is, and to its rights"
            ) from None
        if found != expected:
            raise Mismatch(
                f"{file} is not the harmony vocabulary",
                f"its sha256 is {found}, not {expected}",
                f"get it anew: {get}",
            )
