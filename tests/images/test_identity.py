"""What makes two images the same; both spellings of an image's facts; and every difference is named."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.images.identity import Identity, differences, identity

CONFIG: dict[str, Any] = {
    "User": "10001:10001",
    "Entrypoint": ["python3", "-m", "appliance.supervise"],
    "Cmd": ["/etc/plan.json"],
    "Env": ["PATH=/bin", "EMPTY=", "PAIR=a=b"],
    "WorkingDir": "/var/lib/spark-spec",
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 10_000_000_000, "Retries": 0},
    "Volumes": {"/data": {}},
    "ExposedPorts": {"8000/tcp": {}},
    "StopSignal": "SIGINT",
    "Labels": {"spark-spec.image": "serve-llamacpp", "spark-spec.base.id": "sha256:1"},
}
INSPECTED = {
    "Id": "sha256:1",
    "Os": "linux",
    "Architecture": "arm64",
    "Size": 5,
    "Config": CONFIG | {"Hostname": "", "OnBuild": None, "Image": ""},
    "RootFS": {"Type": "layers", "Layers": ["sha256:a", "sha256:b"]},
}
OCI = {
    "os": "linux",
    "architecture": "arm64",
    "config": CONFIG,
    "rootfs": {"type": "layers", "diff_ids": ["sha256:a", "sha256:b"]},
    "history": [],
}
SAME = identity(OCI)


def test_docker_s_and_oci_s_spelling_are_one() -> None:
    assert identity(INSPECTED) == SAME
    assert SAME.platform == "linux/arm64" and SAME.layers == ("sha256:a", "sha256:b")
    assert SAME.settings["env PAIR"] == "a=b" and SAME.settings["env EMPTY"] == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Id", "sha256:2"),
        ("Size", 6),
        ("Created", "now"),
        ("RepoTags", ["b:1"]),
        ("GraphDriver", {"Name": "x"}),
    ],
)
def test_ids_sizes_and_times_are_not_compared(key: str, value: Any) -> None:
    assert differences(SAME, identity(INSPECTED | {key: value})) == ()


@pytest.mark.parametrize("empty", [{"Volumes": None}, {"Volumes": {}}, {}])
def test_empty_is_absent(empty: dict[str, Any]) -> None:
    assert identity(OCI | {"config": empty}) == identity(OCI | {"config": None})


def test_the_id_of_the_base_is_no_setting() -> None:
    labels = {"spark-spec.image": "serve-llamacpp", "spark-spec.base.id": "sha256:other"}
    assert identity(OCI | {"config": CONFIG | {"Labels": labels}}) == SAME


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"User": "0"}, "user: '0', expected '10001:10001'"),
        ({"User": ""}, "user: absent, expected '10001:10001'"),
        ({"Entrypoint": ["sh"]}, "entry point: '[\"sh\"]', expected"),
        ({"Cmd": None}, "command: absent, expected '[\"/etc/plan.json\"]'"),
        ({"Env": ["PATH=/evil", "EMPTY=", "PAIR=a=b"]}, "env PATH: '/evil', expected '/bin'"),
        ({"Env": [*CONFIG["Env"], "LD_PRELOAD=/x.so"]}, "env LD_PRELOAD: '/x.so', expected absent"),
        ({"Env": ["PATH=/bin", "PAIR=a=b"]}, "env EMPTY: absent, expected ''"),
        ({"WorkingDir": "/"}, "working folder: '/', expected"),
        ({"Healthcheck": CONFIG["Healthcheck"] | {"Interval": 1}}, "health check Interval: '1', expected"),
        ({"Volumes": {}}, "volume /data: absent"),
        ({"ExposedPorts": {"8000/tcp": {}, "22/tcp": {}}}, "port 22/tcp: 'declared', expected absent"),
        ({"StopSignal": "SIGKILL"}, "stop signal: 'SIGKILL', expected 'SIGINT'"),
        ({"Labels": {"spark-spec.image": "other"}}, "label spark-spec.image: 'other', expected 'serve-llamacpp'"),
    ],
)  # fmt: skip
def test_each_setting_that_differs_is_named(change: dict[str, Any], told: str) -> None:
    (found,) = differences(SAME, identity(OCI | {"config": CONFIG | change}))
    assert found.startswith(told)


def test_another_platform_is_named() -> None:
    (found,) = differences(SAME, replace(SAME, platform="linux/amd64"))
    assert found == "platform: linux/amd64, expected linux/arm64"


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        (("a", "x"), "layers: layer 2 is x, expected b"),
        (("x", "b"), "layers: layer 1 is x, expected a"),
        (("a", "b", "c"), "layers: 3, expected 2: 1 added"),
        (("a",), "layers: 1, expected 2: 1 missing"),
        ((), "layers: 0, expected 2: 2 missing"),
    ],
)
def test_the_first_layer_that_differs_is_named(layers: tuple[str, ...], told: str) -> None:
    expected = Identity("linux/arm64", ("a", "b"), {})
    assert differences(expected, replace(expected, layers=layers)) == (told,)


@pytest.mark.parametrize(
    "facts", [{}, {"RootFS": {}}, {"RootFS": None}, {"os": "linux"}, OCI | {"rootfs": 3}]
)
def test_what_tells_of_no_image_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no facts of an image"):
        identity(facts)
