"""What is wanted and what is here, side by side."""

from appliance.images.local import ImageInfo
from appliance.images.shelf import images_here, shelf
from appliance.images.versions import ImageName
from tests.images.conftest import Docker


def info(reference: str) -> ImageInfo:
    return ImageInfo(reference, "sha256:1", "linux/arm64", 5, "local")


def test_each_image_is_here_or_not_and_what_else_is_here_comes_last() -> None:
    wanted = {ImageName("spark-spec/gateway:2"): [], ImageName("vendor/engine:1"): ["demo"]}
    here = [info("spark-spec/base:bookworm"), info("spark-spec/gateway:1"), info("vendor/engine:1")]
    told = [(one.reference, one.state, one.presets) for one in shelf(wanted, here)]
    assert told == [
        ("spark-spec/gateway:2", "not here", ()),
        ("vendor/engine:1", "here", ("demo",)),
        ("spark-spec/base:bookworm", "base", ()),
        ("spark-spec/gateway:1", "other", ()),
    ]


def test_only_images_of_ours_are_looked_at(docker: Docker) -> None:
    docker(
        'if [ "$2" = ls ]; then printf "spark-spec/%s\\n" gateway:1 "gateway:<none>" mine:1 base:bookworm; exit; fi\n'
        'echo "{\\"Os\\": \\"linux\\", \\"Architecture\\": \\"arm64\\", \\"Id\\": \\"$5\\", \\"Size\\": 1}"'
    )
    assert [one.reference for one in images_here()] == ["spark-spec/base:bookworm", "spark-spec/gateway:1"]
