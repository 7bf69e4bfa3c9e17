"""The Stack: what is to run, in the field's own words. Frozen and strict; every key is documented here."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from appliance.core.paths import expanded
from appliance.core.text import printable, shown

RuntimeName = Literal["docker", "process"]
EngineName = Literal["llamacpp", "trtllm", "vllm", "sglang"]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1, le=1024)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]
Text = Annotated[str, AfterValidator(printable)]

_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
_PLACE = rf"{_PART}(?::[0-9]{{1,5}})?(?:/{_PART})*"
_REGISTRY = re.compile(_PLACE)
_IMAGE = re.compile(rf"{_PLACE}(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?")
_LONGEST_REFERENCE = 512


def _registry(text: str) -> str:
    if len(text) > _LONGEST_REFERENCE or not _REGISTRY.fullmatch(text):
        raise ValueError(f"{shown(text)} is no registry: write HOST[:PORT][/PATH], in lower case")
    return text


def _image(text: str) -> str:
    if len(text) > _LONGEST_REFERENCE or not _IMAGE.fullmatch(text):
        raise ValueError(
            f"{shown(text)} is no image: write [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], names in lower case"
        )
    return text


def _no_option(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("a name that begins with - would be taken for an option")
    return text


class Strict(BaseModel):
    """Base of all data that crosses rooms: unknown keys are errors, types are not coerced, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Engine(Strict):
    """The program that serves."""

    name: EngineName = Field(description="The engine that serves it.")
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = Field(
        default=None,
        description="The engine's version; unset takes the one this appliance was made for.",
    )


class Target(Strict):
    """The model that answers."""

    model: Text = Field(description="The target: a model of the catalog (`spark-spec models list`).")


class Draft(Strict):
    """The model that guesses ahead."""

    method: Literal["none", "draft-target", "eagle3"] = Field(
        default="none",
        description="How drafts are made: `draft-target` by a smaller model, `eagle3` by a head on the target's "
        "hidden states; `none` serves the target alone.",
    )
    model: Text | None = Field(default=None, description="The draft: a model or head of the catalog.")
    k: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="K, the draft length: tokens guessed before each verify step."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.method == "none" and (self.model is not None or self.k is not None):
            raise ValueError(
                "draft.method is none, so draft.model and draft.k mean nothing: set a method too"
            )
        if self.method != "none" and (self.model is None or self.k is None):
            raise ValueError(f"draft.method {self.method} needs draft.model and draft.k")
        return self


class Serve(Strict):
    """The endpoint."""

    name: Annotated[Text, AfterValidator(_no_option)] = Field(
        min_length=1, description="The public model name that /v1/models answers."
    )
    port: Port = Field(default=8000, description="The port on 127.0.0.1.")
    max_seq_len: Tokens | None = Field(
        default=2048, description="Context of one request, in tokens; null leaves it to the engine."
    )
    max_batch_size: Count = Field(default=1, description="Requests decoded at the same time.")


class Offers(Strict):
    """What the endpoint can be asked for. What is not offered is not verified and is said so."""

    chat: bool = Field(default=True, description="Chat completions.")
    completion: bool = Field(default=True, description="Plain completions.")
    stream: bool = Field(default=True, description="Streamed answers.")
    json_: bool = Field(default=False, alias="json", description="Answers held to a JSON schema.")
    tools: bool = Field(default=False, description="Tool calls.")


class Health(Strict):
    """How long silence may last. There is no cap on a start that makes progress."""

    stall_s: Seconds = Field(default=300.0, description="Seconds without any progress before a start fails.")
    wedge_s: Seconds = Field(default=60.0, description="Seconds a ready engine may owe a token.")
    restarts: Annotated[int, Field(ge=0, le=10)] = Field(
        default=2, description="Restarts of a died or wedged engine before giving up."
    )
    memory_floor_gib: Annotated[float, Field(ge=0, le=1024, allow_inf_nan=False)] = Field(
        default=0.0,
        description="GiB of the machine's memory that must stay available: below it the engine is stopped, for good, "
        "before the machine stands still. 0 looks at nothing.",
    )


class Llamacpp(Strict):
    """Settings of the embedded engine."""

    threads: Count | None = Field(default=None, description="CPU threads; unset takes the machine's.")


GpuAccess = Literal["auto", "devices", "cdi", "runtime", "none"]


class Docker(Strict):
    """How a container gets at the machine. Engines on the CPU leave the GPU alone."""

    gpu: GpuAccess = Field(
        default="auto",
        description="How the container gets the GPU: `cdi`, `runtime` (nvidia), `devices` (a reservation, as "
        "--gpus does), `none`; `auto` takes what this Docker has.",
    )
    user: Annotated[str, Field(pattern=r"^[0-9]{1,9}(:[0-9]{1,9})?$")] | None = Field(
        default=None,
        description="UID:GID in the container; unset takes the image's own, which is not root. 0:0 where the "
        "engine does not start so.",
    )
    base: Annotated[str, AfterValidator(_image)] | None = Field(
        default=None,
        description="An image of your own to build the appliance's on, instead of the public one.",
    )


def _absolute(path: Path) -> Path:
    path = expanded(path)
    if not path.is_absolute():
        raise ValueError(f"{shown(str(path))} is not an absolute path")
    return path


Folder = Annotated[Path, Field(strict=False), AfterValidator(_absolute)]


class Paths(Strict):
    """Folders of this machine; no part of a stack."""

    state: Folder = Field(description="Folder of stacks, releases and logs.")
    models: Folder = Field(description="Folder of model files.")
    hub: Folder = Field(description="Folder of models in the Hugging Face cache's layout.")
    harmony: Folder = Field(description="Folder of the harmony vocabulary, which gpt-oss needs.")


class Images(Strict):
    """Where container images come from; no part of a stack."""

    registry: Annotated[str, AfterValidator(_registry)] | None = Field(
        default=None,
        description="A registry of your own that has the appliance's images, tried before building.",
    )


class Stack(Strict):
    """One thing to run."""

    preset: Text = Field(description="The preset this stack came from.")
    engine: Engine
    image: Annotated[str, AfterValidator(_image)] | None = Field(
        default=None, description="An image to use instead of the appliance's own."
    )
    target: Target
    draft: Draft = Draft()
    serve: Serve
    offers: Offers = Offers()
    health: Health = Health()
    docker: Docker = Docker()
    llamacpp: Llamacpp = Llamacpp()
    trtllm: dict[str, Any] = Field(
        default={},
        description="Keys of TensorRT-LLM's own config, such as trtllm.kv_cache_config.max_tokens.",
    )
    vllm: dict[str, Any] = Field(
        default={}, description="Options of vLLM's own, such as vllm.gpu_memory_utilization."
    )
    sglang: dict[str, Any] = Field(
        default={}, description="Options of SGLang's own, such as sglang.mem_fraction_static."
    )
