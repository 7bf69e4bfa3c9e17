"""What differs between TensorRT-LLM's versions, and which of them not to run.

Read in its sources, pull requests and issues from 1.0 to 1.4.0rc4; a release candidate that stands for a pull
request's date is an estimate.
"""

from collections.abc import Callable
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from appliance.catalog.stack import Stack
from appliance.core.errors import ConfigFault
from appliance.engines.base import Pair

DEFAULT = "1.3.0rc12"
OLDEST, NEWEST_READ = Version("1.0.0rc0"), Version("1.4.0rc4")
# Image tags that are no version: the build that the first playbook named is one between 1.1.0rc3 and 1.2.0rc1.
NAMED = {"spark-single-gpu-dev": Version("1.1.0rc3")}

ADVANCED_SAMPLING = Version("1.2.1")  # known to have the switch
ADVANCED_SAMPLING_ENDS = Version("1.4.0rc0")  # samples anyway
SERVED_NAME = Version("1.4.0rc0")
TAG_UNKNOWN, TAG_NEW = Version("1.3.0rc0"), Version("1.3.0rc7")  # PR #11158
EMPTY_TOOLS_FIXED = Version("1.4.0rc0")  # PR #17464, merged 2026-08-10
GUIDED_CRASH_ENDS = Version("1.3.0rc16")  # #15022: crash in rc15, unsupported before


def parse(text: str) -> Version:
    """An engine version. Raises ConfigFault where it is none, or one older than the first that is known."""
    if text in NAMED:
        return NAMED[text]
    try:
        version = Version(text)
    except InvalidVersion:
        raise ConfigFault(
            f"engine.version {text} is no version of TensorRT-LLM",
            "its config cannot be spelled without knowing the version",
            f"write one such as {DEFAULT}; an image tagged otherwise goes into docker.base",
        ) from None
    if str(version) != text or len(version.release) != 3:
        whole = ".".join(map(str, (*version.release, 0, 0)[:3]))
        raise ConfigFault(
            f"engine.version {text} is not how TensorRT-LLM writes its versions",
            "it is also the tag of the image",
            f"write {str(version).replace('.'.join(map(str, version.release)), whole, 1)}",
        )
    if version < OLDEST:
        raise ConfigFault(
            f"TensorRT-LLM {text} cannot be used",
            "its config is spelled otherwise, and unknown keys in it are silently accepted before 1.0",
            f"leave engine.version out, or set it to {DEFAULT}",
        )
    return version


def decoding_type(method: str, version: Version, text: str) -> str:
    """What `speculative_config.decoding_type` is called. `Eagle` holds in all versions; for draft-target no name
    does. Raises ConfigFault where it is not known which one is right."""
    if method != "eagle3" and TAG_UNKNOWN <= version < TAG_NEW:
        raise ConfigFault(
            f"draft-target cannot be written for TensorRT-LLM {text}",
            "DraftTarget became Draft_Target between 1.3.0rc0 and 1.3.0rc7, and it is not known in which (PR #11158)",
            f"set engine.version to 1.2.1 or to {DEFAULT}",
        )
    return spelled(method, version)


def spelled(method: str, version: Version) -> str:
    """The same for a version of which it is known."""
    if method == "eagle3":
        return "Eagle"
    return "DraftTarget" if version < TAG_NEW else "Draft_Target"


@dataclass(frozen=True)
class Bad:
    """A version that fails on a Spark, for which stacks, and why."""

    version: str
    concerns: Callable[[Stack, Pair], bool]
    why: str


def _gpt_oss(_: Stack, pair: Pair) -> bool:
    return pair.target.chat == "harmony"


def _any(_: Stack, __: Pair) -> bool:
    return True


BAD = (
    Bad("1.2.0rc0", _gpt_oss, "it cannot run gpt-oss on a Spark (#8474)"),
    Bad("1.2.0rc8", _gpt_oss, "gpt-oss-120b dies of an illegal instruction on a Spark (#11313)"),
    Bad("1.3.0rc2", _gpt_oss, "gpt-oss-120b dies of an illegal instruction on a Spark (#11313)"),
    Bad("1.3.0rc15", _any, "it hangs at the first of the weights on a GB10 (#14500)"),
)
SHAKY = {
    "1.3.0rc20": "its autotuner is known to fail in grouped products: trtllm.enable_autotuner=false avoids it",
    "1.3.0rc26": "its new KV cache manager runs out of memory at the start, with gpt-oss and Eagle3 most of all: "
    "lower serve.max_seq_len or trtllm.kv_cache_config.max_tokens",
}


def refuse_bad(text: str, version: Version, stack: Stack, pair: Pair) -> None:
    """Raises ConfigFault for a version that is known to fail with this stack."""
    for bad in BAD:
        if version == Version(bad.version) and text not in NAMED and bad.concerns(stack, pair):
            raise ConfigFault(
                f"TensorRT-LLM {text} does not serve {pair.target.id}",
                bad.why,
                f"leave engine.version out, or set it to {DEFAULT}",
            )


def warnings(text: str, version: Version) -> list[str]:
    """What is known against a version that is not refused."""
    shaky = SHAKY.get(str(version))
    told = [f"TensorRT-LLM {text}: {shaky}"] if shaky else []
    if version > NEWEST_READ:
        told.append(
            f"TensorRT-LLM {text} is newer than what is known here ({NEWEST_READ}): taken to be like it"
        )
    return told
