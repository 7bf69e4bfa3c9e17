"""Stack names (case 1): one clear error before any work, with a name that would do."""

import pytest

from appliance.core.errors import UsageFault
from appliance.core.names import check_name


@pytest.mark.parametrize("name", ["demo", "demo-1", "1x", "a" * 40])
def test_a_good_name_is_taken_as_it_is(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "near"),
    [("My.Proj", "my-proj"), ("Spark_A", "spark-a"), ("a b", "a-b"), ("_x", "x"), ("spark spec", "spark-spec"),
     ("é/../x", "x"), ("b" * 50, "b" * 40)],
)  # fmt: skip
def test_a_bad_name_is_refused_with_a_good_one(name: str, near: str) -> None:
    with pytest.raises(UsageFault) as caught:
        check_name(name)
    assert f"--name {near}" in caught.value.fix
    assert check_name(near) == near


@pytest.mark.parametrize("name", ["", "---", "ж", "\n"])
def test_a_name_with_nothing_to_keep_is_refused(name: str) -> None:
    with pytest.raises(UsageFault):
        check_name(name)
