"""Before a stack starts: its models fit one another, all of it fits into memory, and the page cache gives way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.catalog.stack import Paths, Stack
from appliance.core.errors import ConfigFault, MachineFault
from appliance.lifecycle import room
from appliance.lifecycle import up as up_module
from appliance.lifecycle.managed import Managed
from appliance.machine.facts import REFERENCE, Machine
from appliance.machine.memory import Memory, cached_bytes
from appliance.stack.resolve import resolve
from tests.checkpoint.made import GIB, sparse
from tests.fakes import hub_cache
from tests.lifecycle.conftest import Bench, Talked

ON_GPU = replace(REFERENCE, gpu="devices")
REPOS = {
    "openai/gpt-oss-120b": (hub_cache.GPT_OSS_120B, 61 * GIB),
    "nvidia/gpt-oss-120b-Eagle3-long-context": (hub_cache.EAGLE3_HEAD, GIB // 2),
}
Here = Callable[..., tuple[Stack, Paths]]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """eagle3's models in a hub cache, with weight files that are holes."""

    def make(*sets: str) -> tuple[Stack, Paths]:
        for repo, (config, size) in REPOS.items():
            weights = hub_cache.make(tmp_path / "hub", repo, config=config) / "model.safetensors"
            weights.unlink()
            sparse(weights, size)
        resolved = resolve("eagle3", [f"paths.hub={tmp_path / 'hub'}", *sets], {})
        return resolved.stack, resolved.machine.paths

    return make


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """A machine with so many GB to be had, and so many free."""

    def have(available: float, free: float) -> None:
        found = Memory(128 * 10**9, int(available * 1e9), int(free * 1e9))
        monkeypatch.setattr(room, "read_memory", lambda: found)

    return have


def running(stack: Stack, *, alive: bool = True) -> Managed:
    """A stack of ours that runs this."""
    release = SimpleNamespace(stack=lambda: stack)
    return cast(
        Managed, SimpleNamespace(current=lambda: release, observe=lambda: SimpleNamespace(alive=alive))
    )


def test_what_does_not_fit_is_refused_with_the_numbers_and_the_settings_that_would(
    here: Here, memory: Any
) -> None:
    memory(80, 80)
    stack, paths = here("trtllm.kv_cache_config.max_tokens=1000000")
    with pytest.raises(MachineFault) as caught:
        room.make_room(stack, paths, ON_GPU, (), Talked())
    assert caught.value.code == 4
    assert "target 65.5" in caught.value.why and "there are 80.0 GB of 128.0" in caught.value.why
    assert "--set trtllm.kv_cache_config.max_tokens=" in caught.value.fix


def test_the_settings_that_are_proposed_go_through(here: Here, memory: Any) -> None:
    memory(80, 80)
    with pytest.raises(MachineFault) as caught:
        room.make_room(*here("trtllm.kv_cache_config.max_tokens=1000000"), ON_GPU, (), Talked())
    sets = [word for word in caught.value.fix.replace(";", " ").split() if "=" in word]
    room.make_room(*here(*sets), ON_GPU, (), Talked())


@pytest.mark.parametrize("machine", [replace(REFERENCE, gpu="none"), replace(ON_GPU, runtime="process")])
def test_without_a_gpu_s_driver_nothing_is_refused(here: Here, memory: Any, machine: Machine) -> None:
    memory(8, 8)
    room.make_room(*here(), machine, (), Talked())
    room.check_ahead(*here(), machine, ())


def test_the_embedded_engine_is_not_refused(memory: Any, tmp_path: Path) -> None:
    memory(0.001, 0.001)
    resolved = resolve("demo", [f"paths.models={tmp_path}"], {})
    room.make_room(resolved.stack, resolved.machine.paths, ON_GPU, (), Talked())


def test_what_the_catalog_knows_is_enough_to_refuse_before_anything_is_fetched(
    memory: Any, tmp_path: Path
) -> None:
    memory(60, 60)
    resolved = resolve("eagle3", [f"paths.hub={tmp_path}"], {})
    with pytest.raises(MachineFault) as caught:
        room.check_ahead(resolved.stack, resolved.machine.paths, ON_GPU, ())
    assert "65.3" in caught.value.why
    memory(110, 110)
    room.check_ahead(resolved.stack, resolved.machine.paths, ON_GPU, ())


def test_what_is_not_known_is_said_and_not_refused(here: Here, memory: Any) -> None:
    memory(120, 120)
    stack, paths = here()
    hub_cache.make(paths.hub, "nvidia/gpt-oss-120b-Eagle3-long-context",
                   config={**hub_cache.EAGLE3_HEAD, "kv_lora_rank": 512})  # fmt: skip
    talk = Talked()
    room.make_room(stack, paths, ON_GPU, (), talk)
    assert any("draft's KV cache takes is not known" in line for line in talk.lines)


def test_a_running_stack_s_memory_counts_where_it_stops_for_the_new_one(here: Here, memory: Any) -> None:
    memory(40, 40)
    stack, paths = here()
    with pytest.raises(MachineFault):
        room.make_room(stack, paths, ON_GPU, (running(stack, alive=False),), Talked())
    room.make_room(stack, paths, ON_GPU, (running(stack),), Talked())


def test_a_release_that_cannot_be_read_gives_nothing_back(here: Here, memory: Any) -> None:
    memory(40, 40)

    def broken() -> None:
        raise ConfigFault("the state file is damaged")

    with pytest.raises(MachineFault):
        room.make_room(*here(), ON_GPU, (cast(Managed, SimpleNamespace(current=broken)),), Talked())


def test_the_page_cache_of_the_models_is_given_back_only_where_it_is_in_the_way(
    here: Here, memory: Any
) -> None:
    stack, paths = here()
    head = room.read_models(stack, paths).draft
    assert head is not None
    (file,) = room.weight_files(head)
    with file.open("rb") as stream:
        stream.read(16 << 20)
    if not cached_bytes(file):
        pytest.skip(f"{file.parent} lies on no disk")
    memory(120, 119)
    room.make_room(stack, paths, ON_GPU, (), Talked())
    assert (cached_bytes(file) or 0) >= 16 << 20
    memory(120, 20)
    talk = Talked()
    room.make_room(stack, paths, ON_GPU, (), talk)
    assert cached_bytes(file) == 0
    assert any("page cache" in line for line in talk.lines)


def test_models_that_do_not_fit_one_another_are_refused_on_any_machine(here: Here, memory: Any) -> None:
    memory(120, 120)
    stack, paths = here()
    hub_cache.make(paths.hub, "nvidia/gpt-oss-120b-Eagle3-long-context",
                   config={**hub_cache.EAGLE3_HEAD, "hidden_size": 4096})  # fmt: skip
    with pytest.raises(ConfigFault) as caught:
        room.make_room(stack, paths, replace(REFERENCE, gpu="none"), (), Talked())
    assert "was not made for gpt-oss-120b" in caught.value.what


def test_a_damaged_header_is_named(here: Here, memory: Any) -> None:
    memory(120, 120)
    stack, paths = here()
    hub_cache.make(paths.hub, "openai/gpt-oss-120b", config=hub_cache.GPT_OSS_120B,
                   files={"model.safetensors": b"<html>not found</html>"})  # fmt: skip
    with pytest.raises(ConfigFault) as caught:
        room.make_room(stack, paths, ON_GPU, (), Talked())
    assert "model.safetensors" in caught.value.what


# In `up`.


def refuse(*_: object) -> None:
    raise MachineFault("it does not fit")


def test_up_asks_before_it_fetches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.engine, "gpu", True)
    monkeypatch.setattr(room, "check_ahead", refuse)
    monkeypatch.setattr(up_module, "fetch", lambda *_: pytest.fail("it fetched"))
    with pytest.raises(MachineFault):
        bench.up()


def test_a_refusal_leaves_what_runs_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    before = bench.up().observed.where
    monkeypatch.setattr(room, "make_room", refuse)
    with pytest.raises(MachineFault):
        bench.up("--load-lines", "1")
    assert bench.stack().health().state == "ready"
    assert bench.stack().observe().where == before


def test_what_served_before_is_not_looked_through_again_without_a_gpu(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    bench.stack().stop()
    monkeypatch.setattr(room, "make_room", refuse)
    bench.up()
    bench.stack().stop()
    monkeypatch.setattr(bench.engine, "gpu", True)
    monkeypatch.setattr(room, "check_ahead", lambda *_: None)
    with pytest.raises(MachineFault):
        bench.up()
