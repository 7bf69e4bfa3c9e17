"""Ed25519 keys that sign bundles: made, kept, trusted.

A private key is a PEM file (PKCS#8) that only its owner can read, its public one beside it as NAME.pub (PEM,
SubjectPublicKeyInfo): `openssl pkeyutl -verify -pubin -rawin` reads both. A key's id is the start of the sha256 of its
32 raw bytes. Trusted are the files in `trust/` beside the config file; several at a time, so that keys can be changed.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.core.errors import ConfigFault, MachineFault, Mismatch
from appliance.core.paths import default_config, read_small, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

HEAD = "spark-spec bundle signature, Ed25519 over bundle.json"
ID = re.compile(r"[0-9a-f]{16}")
_FORM = re.compile(rf"{HEAD}\nkey ([0-9a-f]{{16}})\n([A-Za-z0-9+/]{{86}}==)\n")


def keygen(path: Path) -> str:
    """Make a pair: the private key at `path`, the public one at PATH.pub. Returns its id. Raises ConfigFault where one
    of them is there already, MachineFault where they cannot be written."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    public = path.with_name(f"{path.name}.pub")
    for one in (path, public):
        if one.exists() or one.is_symlink():
            raise ConfigFault(f"{one} is there already", "a key is never overwritten", "name another file")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(secret)
        write_atomic(public, shown.decode())
    except OSError as error:
        raise MachineFault(f"the key {path} cannot be written", error.strerror or str(error),
                           "name a file in a folder of yours") from None  # fmt: skip
    return key_id(key.public_key())


def key_id(key: "Ed25519PublicKey") -> str:
    """The 16 hex digits that name a key."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def private(path: Path) -> "Ed25519PrivateKey":
    """The private key in a file. Raises ConfigFault where it is none, or others can read it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = read_small(path)
    if text is None:
        raise ConfigFault(
            f"there is no key {path}", "no such file", "make one: spark-spec bundle keygen -o FILE"
        )
    if path.stat().st_mode & 0o077:
        raise ConfigFault(f"the key {path} can be read by others", f"its mode is {path.stat().st_mode & 0o777:04o}",
                          f"chmod 600 {path}, and consider it known")  # fmt: skip
    try:
        key = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigFault(f"{path} is no private key of bundles", "it is no Ed25519 key in PEM without a password",
                          "make one: spark-spec bundle keygen -o FILE")  # fmt: skip
    return key


def public(path: Path) -> "Ed25519PublicKey":
    """The public key in a file. Raises ConfigFault where it is none."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text = read_small(path)
    if text is None:
        raise ConfigFault(f"there is no key {path}", "no such file", "name the .pub file of the sender's key")
    try:
        key = load_pem_public_key(text.encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigFault(f"{path} is no public key of bundles", "it is no Ed25519 key in PEM",
                          "name the .pub file that `spark-spec bundle keygen` wrote")  # fmt: skip
    return key


def sign(key: "Ed25519PrivateKey", manifest: bytes) -> str:
    """The text of bundle.sig, over the bytes of bundle.json."""
    signature = base64.b64encode(key.sign(manifest)).decode()
    return f"{HEAD}\nkey {key_id(key.public_key())}\n{signature}\n"


def verify(text: str, manifest: bytes, keys: Mapping[str, "Ed25519PublicKey"]) -> str:
    """The id of the key that signed, which is one of `keys`. Raises Mismatch."""
    from cryptography.exceptions import InvalidSignature

    said = _FORM.fullmatch(text)
    if said is None:
        raise Mismatch("the signature cannot be read", "bundle.sig is not what `bundle create` writes",
                       "get the bundle anew from who made it")  # fmt: skip
    name = said[1]
    if name not in keys:
        known = ", ".join(keys) or "none"
        raise Mismatch("the bundle is signed with a key that is not trusted", f"key {name}; trusted: {known}",
                       "if it is the sender's: spark-spec bundle trust add FILE.pub, or --key FILE.pub")  # fmt: skip
    try:
        keys[name].verify(base64.b64decode(said[2], validate=True), manifest)
    except (InvalidSignature, binascii.Error):
        raise Mismatch("the signature does not fit", f"bundle.json is not what key {name} signed",
                       "do not use it; get the bundle anew from who made it") from None  # fmt: skip
    return name


def trust_folder() -> Path | None:
    """Where trusted keys are; None where there is no home for them."""
    config = default_config()
    return config and config.parent / "trust"


def trusted() -> dict[str, "Ed25519PublicKey"]:
    """The trusted keys by their ids. Raises ConfigFault where a file among them is no key."""
    folder = trust_folder()
    keys = [public(path) for path in sorted(folder.glob("*.pub"))] if folder else []
    return {key_id(key): key for key in keys}


def trust(path: Path) -> str:
    """Trust the public key in a file from now on. Returns its id. Raises ConfigFault."""
    key, folder = public(path), trust_folder()
    if folder is None:
        raise ConfigFault(
            "there is no place for trusted keys", "HOME is not set", "set it, or XDG_CONFIG_HOME"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{key_id(key)}.pub", read_small(path) or "")
    return key_id(key)


def distrust(name: str) -> None:
    """Trust a key no more. Raises ConfigFault where it is not trusted."""
    folder = trust_folder()
    path = folder / f"{name}.pub" if folder and ID.fullmatch(name) else None
    if path is None or not path.is_file():
        raise ConfigFault(f"the key {name} is not trusted", f"trusted: {', '.join(trusted()) or 'none'}",
                          "name one of them by its id")  # fmt: skip
    path.unlink()
