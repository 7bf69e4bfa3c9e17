"""The environment that every engine of a GPU image shares: nothing fetched, nothing reported, all caches writable."""

from appliance.engines.base import CONTAINER_HARMONY, Place
from appliance.supervise.needs import HUB

USER = "spark-spec"


def environment(place: Place, *, harmony: bool) -> dict[str, str]:
    """Environment of an engine in a container.

    The container's user need not be in the image's /etc/passwd, so it is told its name and its home, and every
    cache lies below the state folder: what is compiled there outlives a restart of the engine. `harmony`: the target
    speaks the harmony format, whose vocabulary is read from a folder instead of the network.
    """
    cache = f"{place.state}/cache"
    shared = {
        "DO_NOT_TRACK": "1",
        "FLASHINFER_WORKSPACE_BASE": cache,
        "HF_HOME": f"{cache}/huggingface",
        "HF_HUB_CACHE": f"{place.state}/{HUB}",
        "HF_HUB_OFFLINE": "1",
        "HOME": place.state,
        "LOGNAME": USER,
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TRANSFORMERS_OFFLINE": "1",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "USER": USER,
        "XDG_CACHE_HOME": cache,
    }
    return shared | ({"TIKTOKEN_ENCODINGS_BASE": CONTAINER_HARMONY} if harmony else {})
