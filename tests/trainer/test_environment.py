"""What a training image tells of itself. The images are asked in tests/docker/test_training_images.py."""

import json
import platform
import sys
from types import ModuleType

import pytest

from appliance.trainer import environment as module
from appliance.trainer.__main__ import main
from appliance.trainer.environment import PARTS, environment


def test_it_tells_what_is_installed_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    told = environment()
    assert told["python"] == platform.python_version()
    assert told["versions"] == dict.fromkeys(PARTS)
    assert told["gpus"] == []


def test_the_gpus_are_those_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        device_count = staticmethod(lambda: 2)
        get_device_name = staticmethod(lambda index: f"GB10 number {index}")

    torch = ModuleType("torch")
    monkeypatch.setattr(torch, "cuda", Cuda, raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(module, "find_spec", lambda _: object())
    assert environment()["gpus"] == ["GB10 number 0", "GB10 number 1"]


def test_the_command_prints_it_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["environment"])
    assert json.loads(capsys.readouterr().out)["platform"].startswith("linux/")


def test_a_job_that_is_unknown_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["trian"])
    assert caught.value.code == 2 and "environment" in capsys.readouterr().err
