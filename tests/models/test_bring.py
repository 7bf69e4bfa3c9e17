"""Models of any source by one door: where they are, whether they are here, getting and checking them."""

from pathlib import Path

import pytest

from appliance.catalog.entries import load_entry
from appliance.catalog.stack import Paths
from appliance.core.errors import FetchFault, Mismatch
from appliance.models.bring import bring, is_here, path_of, verify
from tests.fakes import hub_cache
from tests.models.conftest import CONTENT, Index

HUB = load_entry("gpt-oss-120b")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(
        state=tmp_path / "state",
        models=tmp_path / "models",
        hub=tmp_path / "hub",
        harmony=tmp_path / "harmony",
    )


def silent(_: str) -> None:
    """Nobody listens."""


def test_a_hub_s_model_is_its_folder_in_the_cache(paths: Paths) -> None:
    assert path_of(HUB, paths) == paths.hub / "models--openai--gpt-oss-120b"


def test_a_hub_s_model_that_is_here_is_left_as_it_is(paths: Paths) -> None:
    hub_cache.make(paths.hub, "openai/gpt-oss-120b", config=hub_cache.GPT_OSS_120B)
    before = sorted(paths.hub.rglob("*"))
    assert is_here(HUB, paths)
    assert bring(HUB, paths, silent) == path_of(HUB, paths)
    verify(HUB, paths)
    assert sorted(paths.hub.rglob("*")) == before


def test_a_hub_s_model_that_is_not_here_is_an_error_with_the_command(paths: Paths) -> None:
    assert not is_here(HUB, paths)
    for door in (lambda: bring(HUB, paths, silent), lambda: verify(HUB, paths)):
        with pytest.raises(FetchFault) as caught:
            door()
        assert f"hf download openai/gpt-oss-120b --cache-dir {paths.hub}" in caught.value.fix
    assert not paths.hub.exists()


def test_another_model_is_a_file_that_is_got(index: Index, paths: Paths) -> None:
    assert path_of(index.entry, paths) == paths.models / "Tiny" / "Tiny.Q4_1.gguf"
    assert not is_here(index.entry, paths)
    assert bring(index.entry, paths, silent).read_bytes() == CONTENT
    assert is_here(index.entry, paths)
    verify(index.entry, paths)
    path_of(index.entry, paths).write_bytes(b"other")
    with pytest.raises(Mismatch):
        verify(index.entry, paths)
