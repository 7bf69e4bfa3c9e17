"""Keys: made once, kept to their owner, trusted by file, changed by trusting two for a while."""

import stat
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from appliance.bundle import keys
from appliance.core.errors import ConfigFault, Mismatch

MANIFEST = b'{"schema_version": 1}\n'


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A private key, its public one beside it."""
    keys.keygen(tmp_path / "ours.key")
    return tmp_path / "ours.key"


def public(pair: Path) -> Path:
    return pair.with_name(f"{pair.name}.pub")


def test_a_private_key_is_its_owner_s_alone_and_never_overwritten(pair: Path) -> None:
    assert stat.S_IMODE(pair.stat().st_mode) == 0o600
    before = pair.read_bytes()
    with pytest.raises(ConfigFault, match="is there already"):
        keys.keygen(pair)
    public(pair).unlink()
    (pair.parent / "other.key.pub").symlink_to("nowhere")
    with pytest.raises(ConfigFault):
        keys.keygen(pair.parent / "other.key")
    assert pair.read_bytes() == before and not (pair.parent / "other.key").exists()


def test_what_is_signed_is_verified_by_a_trusted_key_alone(pair: Path, tmp_path: Path) -> None:
    text = keys.sign(keys.private(pair), MANIFEST)
    with pytest.raises(Mismatch, match="not trusted"):
        keys.verify(text, MANIFEST, keys.trusted())
    name = keys.trust(public(pair))
    assert keys.verify(text, MANIFEST, keys.trusted()) == name
    other = keys.keygen(tmp_path / "next.key")
    keys.trust(tmp_path / "next.key.pub")
    assert set(keys.trusted()) == {name, other}
    keys.distrust(name)
    with pytest.raises(Mismatch, match="not trusted"):
        keys.verify(text, MANIFEST, keys.trusted())


def test_any_other_manifest_or_signature_is_refused(pair: Path) -> None:
    text = keys.sign(keys.private(pair), MANIFEST)
    known = {keys.trust(public(pair)): keys.public(public(pair))}
    head, key, signature = text.splitlines()
    with pytest.raises(Mismatch, match="does not fit"):
        keys.verify(text, MANIFEST + b" ", known)
    flipped = "B" if signature[0] == "A" else "A"
    with pytest.raises(Mismatch, match="does not fit"):
        keys.verify(f"{head}\n{key}\n{flipped}{signature[1:]}\n", MANIFEST, known)
    for odd in ("", text + "x", text.replace("key", "kee"), "\n".join((head, key))):
        with pytest.raises(Mismatch, match="cannot be read"):
            keys.verify(odd, MANIFEST, known)


def test_openssl_reads_what_we_write(pair: Path, tmp_path: Path) -> None:
    signature = keys.sign(keys.private(pair), MANIFEST).splitlines()[2]
    (tmp_path / "sig").write_bytes(b64decode(signature))
    (tmp_path / "manifest").write_bytes(MANIFEST)
    subprocess.run(
        ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public(pair)), "-rawin", "-in",
         str(tmp_path / "manifest"), "-sigfile", str(tmp_path / "sig")],
        check=True, capture_output=True,
    )  # fmt: skip


def test_a_key_that_others_can_read_is_refused(pair: Path) -> None:
    pair.chmod(0o640)
    with pytest.raises(ConfigFault, match="can be read by others"):
        keys.private(pair)


@pytest.mark.parametrize(
    "content", [None, "", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"]
)
def test_what_is_no_key_is_refused(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "x.pub"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    for read in (keys.private, keys.public, keys.trust):
        with pytest.raises(ConfigFault):
            read(file)
    assert keys.trusted() == {}


@pytest.mark.parametrize("name", ["0123456789abcdef", "../../x", ""])
def test_a_key_that_is_not_trusted_cannot_be_distrusted(name: str) -> None:
    with pytest.raises(ConfigFault, match="is not trusted"):
        keys.distrust(name)


def test_a_public_key_is_no_private_one(pair: Path) -> None:
    public(pair).chmod(0o600)
    with pytest.raises(ConfigFault):
        keys.private(public(pair))
    with pytest.raises(ConfigFault):
        keys.public(pair)
