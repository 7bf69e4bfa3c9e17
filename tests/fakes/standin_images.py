"""Builds the images that stand in for the engines' own base images. Without a network, from what is here:

the appliance's base and llama.cpp image, the judge out of this Python, the demo's two model files, the facts.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from tests.fakes.standin import facts

HERE = Path(__file__).resolve().parent / "standin"
MODELS = Path.home() / ".cache" / "spark-spec" / "models" / "SmolLM2-135M-Instruct"
REPOSITORY = "spark-spec-standin"
BASE = "spark-spec/base:bookworm"
LABEL = "standin.content"
JUDGE = ("attr", "attrs", "click", "jsonschema", "jsonschema_specifications", "referencing", "rpds", "yaml")
JUDGE_FILES = ("typing_extensions.py",)
FACTS = (
    "serve-cli.json",
    "serve-config-1.4.json",
    "decoding-1.2.1.json",
    "vllm-serve.json",
    "sglang-serve.json",
)
COMMANDS = {"trtllm": ("trtllm-serve",), "vllm": ("vllm",), "sglang": ("sglang",)}
VERSIONS = {
    "trtllm": ("spark-single-gpu-dev", "1.2.1", "1.3.0rc12", "1.4.0rc0"),
    "vllm": ("0.32.0",),
    "sglang": ("0.5.23",),
}
BUILD_S = 600.0


def build(engine: str, version: str, models: Path = MODELS) -> str:
    """The reference of an engine's stand-in, e.g. `spark-spec-standin/trtllm:1.3.0rc12`, built where it must be.

    `engine` and `version` are of VERSIONS; `models` is the folder with the demo's GGUF files. Raises
    FileNotFoundError for what is not here, RuntimeError with docker's words.
    """
    if version not in VERSIONS[engine]:
        raise ValueError(f"no stand-in of {engine} {version}: {VERSIONS[engine]}")
    with tempfile.TemporaryDirectory(prefix="standin-") as folder:
        common = _common(models, Path(folder) / "common")
        context = Path(folder) / "engine"
        _lay_out(engine, context)
        reference = f"{REPOSITORY}/{engine}:{version}"
        content = _digest(context, HERE / "Dockerfile", common, version)
        arguments = {"COMMON": common, "VERSION": version}
        _build(reference, HERE / "Dockerfile", context, content, arguments)
    return reference


def _common(models: Path, context: Path) -> str:
    """The image below all stand-ins; its tag is its content's."""
    drafts = sorted(models.glob("*.drop-*.gguf"))
    targets = sorted(set(models.glob("*.gguf")) - set(drafts))
    if not targets or not drafts:
        raise FileNotFoundError(f"no target or no draft in {models}: `spark-spec up demo` gets them")
    site = Path(sysconfig.get_path("purelib"))
    for name in JUDGE:
        shutil.copytree(
            site / name, context / "site" / name, ignore=shutil.ignore_patterns("__pycache__", "tests")
        )
    for pattern in (*JUDGE_FILES, "rpds_py-*.dist-info", "jsonschema-*.dist-info", "click-*.dist-info"):
        for path in site.glob(pattern):
            place = context / "site" / path.name
            shutil.copytree(path, place) if path.is_dir() else shutil.copy(path, place)
    content = _digest(
        context,
        HERE / "common.Dockerfile",
        *(f"{p.name} {p.stat().st_size}" for p in (targets[0], drafts[0])),
    )
    reference = f"{REPOSITORY}/common:{content[:12]}"
    if _label(reference) != content:  # the models are many: copied only for a build
        (context / "models").mkdir()
        for path in (targets[0], drafts[0]):
            shutil.copy(path, context / "models" / path.name)
        _build(reference, HERE / "common.Dockerfile", context, content, {"BASE": BASE, "LLAMA": _llama()})
    return reference


def _lay_out(engine: str, context: Path) -> None:
    """An engine's build context: the program, the facts, its own command and no other's."""
    program = context / "site" / "standin"
    ignore = shutil.ignore_patterns("__pycache__", "bin", "site", "*Dockerfile")
    shutil.copytree(HERE, program, ignore=ignore)
    (program / "facts").mkdir()
    for name in FACTS:
        shutil.copyfile(facts.folder() / name, program / "facts" / name)
    if engine == "sglang":
        shutil.copytree(HERE / "site" / "sglang", context / "site" / "sglang", ignore=ignore)
    (context / "bin").mkdir()
    for name in COMMANDS[engine]:
        shutil.copyfile(HERE / "bin" / name, context / "bin" / name)
    for path in context.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def _llama() -> str:
    """The appliance's llama.cpp image, built where it is not here; it brings the base with it."""
    made = subprocess.run(
        [sys.executable, "-m", "appliance", "images", "build", "demo"],
        capture_output=True, text=True, check=False, timeout=BUILD_S,
    )  # fmt: skip
    if made.returncode:
        raise RuntimeError(made.stderr)
    return made.stdout.strip()


def _build(reference: str, dockerfile: Path, context: Path, content: str, arguments: dict[str, str]) -> None:
    if _label(reference) == content:
        return
    old = _inspect(reference, "{{json .Id}}")
    words = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    _docker(
        "build", "--quiet", "--network", "none", "--pull=false", "--label", f"{LABEL}={content}",
        "--file", str(dockerfile), "--tag", reference, *words, str(context),
    )  # fmt: skip
    if old:  # it lost its name; one that a container still uses stays
        subprocess.run(["docker", "image", "rm", old], capture_output=True, timeout=60, check=False)


def _label(reference: str) -> str | None:
    """The content that an image here was built from; None without it."""
    return (_inspect(reference, "{{json .Config.Labels}}") or {}).get(LABEL)


def _inspect(reference: str, template: str) -> Any:
    """A part of what is known of an image here; None if there is no such image."""
    asked = subprocess.run(
        ["docker", "image", "inspect", "--format", template, reference],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return json.loads(asked.stdout) if asked.returncode == 0 else None


def _digest(folder: Path, *more: str | Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(
                f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
            )
    for one in more:
        found.update(one.read_bytes() if isinstance(one, Path) else one.encode())
    return found.hexdigest()


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        raise RuntimeError(f"docker {' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout
