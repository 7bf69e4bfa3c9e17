"""Whether docker has a login for a registry. What it is, is neither read further nor kept."""

import contextlib
import warnings


def logged_in(host: str) -> bool | None:
    """True where ~/.docker/config.json, or the helper that it names, has a login for a registry; None where the helper
    cannot be asked."""
    from docker.auth import load_config
    from docker.errors import DockerException

    with warnings.catch_warnings(), contextlib.suppress(DockerException):
        warnings.simplefilter("ignore")  # the SDK's words about a helper that is missing
        return bool(load_config().resolve_authconfig(None if host == "docker.io" else host))
    return None
