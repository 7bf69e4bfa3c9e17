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
    assert bring([HUB], paths, silent) == [path_of(HUB, paths)]
    verify(HUB, paths)
    assert sorted(paths.hub.rglob("*")) == before


@pytest.mark.parametrize("how", ["forbidden", "unreachable"])
def test_a_hub_s_model_that_cannot_be_had_is_an_error_with_the_command(
    how: str, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "forbidden":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert not is_here(HUB, paths)
    with pytest.raises(FetchFault) as caught:
        bring([HUB], paths, silent, preset="eagle3")
    assert caught.value.code == 5 and f"there is no {path_of(HUB, paths)}" in caught.value.why
    assert ("HF_HUB_OFFLINE" if how == "forbidden" else "127.0.0.1:9") in caught.value.why
    assert "spark-spec models pull eagle3" in caught.value.fix
    assert not paths.hub.exists()
    with pytest.raises(Mismatch, match="is not there"):
        verify(HUB, paths)


def test_another_model_is_a_file_that_is_got(index: Index, paths: Paths) -> None:
    assert path_of(index.entry, paths) == paths.models / "Tiny" / "Tiny.Q4_1.gguf"
    assert not is_here(index.entry, paths)
    assert [file.read_bytes() for file in bring([index.entry], paths, silent)] == [CONTENT]
    assert is_here(index.entry, paths)
    verify(index.entry, paths)
    path_of(index.entry, paths).write_bytes(b"other")
    with pytest.raises(Mismatch):
        verify(index.entry, paths)
