"""The software bill of materials of an image, as CycloneDX 1.6 JSON.

The same image gives the same bytes: its time is the image's own, and its serial number comes from its text.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

import appliance
from appliance.core.talk import Talk
from appliance.images.export import saved
from appliance.images.identity import identity
from appliance.images.layers import Contents, contents
from appliance.images.packages import Distribution, Package, Read, found, reader

if TYPE_CHECKING:
    from cyclonedx.model.component import Component

BASE_NAME, BASE_DIGEST = "org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"


def sbom(reference: str, talk: Talk) -> str:
    """The bill of an image that is here, streamed out of docker. Raises MachineFault."""
    talk.phase(f"docker saves {reference}")
    with saved(reference, lambda done: talk.progress(f"reading {reference}", done, None)) as files:
        read: Contents[Read] = contents(files, reader)
    return bill(reference, read)


def bill(reference: str, image: Contents[Read]) -> str:
    """The bill of an image by its config and what its package managers say. Pure."""
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.tool import ToolRepository
    from cyclonedx.output.json import JsonV1Dot6

    packages, system = found(image.files)
    labels = (image.config.get("config") or {}).get("Labels") or {}
    root = _image(reference, image.config)
    told = [
        *([_base(labels)] if labels.get(BASE_NAME) else []),
        *([_system(system)] if system else []),
        *(_package(one, system) for one in packages),
    ]
    parts = {
        one.bom_ref.value: one for one in told
    }.values()  # names of Python's that differ by case have one purl
    tool = Component(name="spark-spec", version=appliance.__version__, type=ComponentType.APPLICATION)
    bom = Bom(
        serial_number=UUID(int=0),
        components=parts,
        metadata=BomMetaData(
            component=root,
            timestamp=_created(image.config),
            tools=ToolRepository(components=[tool]),
        ),
    )
    bom.register_dependency(root, parts)
    bom.serial_number = uuid5(NAMESPACE_URL, JsonV1Dot6(bom).output_as_string())
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _image(reference: str, config: Mapping[str, Any]) -> "Component":
    """What the bill is of; its layers say which content."""
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType

    who = identity(config)
    told = {"spark-spec:platform": who.platform}
    told |= {f"spark-spec:layer:{number:03d}": layer for number, layer in enumerate(who.layers, start=1)}
    name, version, _ = _parts(reference)
    return Component(
        type=ComponentType.CONTAINER,
        bom_ref="image",
        name=name,
        version=version,
        properties=[Property(name=key, value=value) for key, value in told.items()],
    )


def _base(labels: Mapping[str, str]) -> "Component":
    """The image below; its digest is told only where a registry gave it."""
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType

    name, version, digest = _parts(labels[BASE_NAME])
    digest = labels.get(BASE_DIGEST, digest).removeprefix("sha256:")
    return Component(
        type=ComponentType.CONTAINER,
        bom_ref="base",
        name=name,
        version=version,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)] if digest else [],
    )


def _system(system: Distribution) -> "Component":
    from cyclonedx.model.component import Component, ComponentType

    return Component(
        type=ComponentType.OPERATING_SYSTEM, bom_ref="system", name=system.id, version=system.version or None
    )


def _package(one: Package, system: Distribution | None) -> "Component":
    """A package by its purl, which scanners look up: pkg:deb/debian/libc6@2.36-9?arch=amd64&distro=debian-12."""
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from packageurl import PackageURL

    namespace, qualifiers = None, {}
    if one.kind == "deb":
        namespace = system.id if system else "debian"
        qualifiers = {"arch": one.architecture, "distro": f"{system.id}-{system.version}" if system else ""}
    purl = PackageURL(
        type=one.kind,
        namespace=namespace,
        name=one.name,
        version=one.version or None,
        qualifiers={key: value for key, value in qualifiers.items() if value},
    )
    return Component(
        type=ComponentType.APPLICATION if one.kind == "generic" else ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        name=one.name,
        version=one.version or None,
        purl=purl,
        licenses=[LicenseExpression(one.license)] if one.license else [],
    )


def _parts(reference: str) -> tuple[str, str | None, str]:
    """Name, tag and digest of a reference; a port in it is no tag."""
    name, _, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    return (path, tag, digest) if colon and "/" not in tag else (name, None, digest)


def _created(config: Mapping[str, Any]) -> datetime:
    """When the image was made; the epoch where it does not say."""
    try:
        told = datetime.fromisoformat(str(config.get("created")))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return told if told.tzinfo else told.replace(tzinfo=UTC)
