"""The bill of materials of an image in the form of CycloneDX, attached to the image as OCI 1.1 does it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from imagerelease.components import PROJECT, Found, components_of
from localcluster.images.builder import Image
from localcluster.images.oci import Layout
from localcluster.images.source_date import source_date_epoch

MEDIA_TYPE = "application/vnd.cyclonedx+json"
_SCHEMA = SchemaVersion.V1_6
_NAMESPACE = uuid.UUID("3b0d7f6e-2f0c-5d8e-9a53-6d1f6b4f2c11")


def attach(image: Image, layout: Layout) -> Path:
    """Writes the bill of materials of ``image``, and attaches it to the image in its layout.

    The date and the serial number depend on the image alone, so that equal images have equal bills.

    :returns: the file.
    :raises ValueError: the document is not valid by the schema of CycloneDX.
    """
    text = document(image, layout.digest, components_of(image, layout))
    error = JsonStrictValidator(_SCHEMA).validate_str(text)
    if error is not None:
        raise ValueError(f"the bill of materials is not valid: {str(error)[:500]}")
    layout.attach(MEDIA_TYPE, text.encode(), title=f"{image.name}.cdx.json")
    file = layout.folder.parent / f"{image.name}.cdx.json"
    file.write_text(text, encoding="utf-8")
    return file


def document(image: Image, digest: str, components: Iterable[Found]) -> str:
    """The bill of materials of the image with the manifest ``digest``, as JSON."""
    found = list(components)
    version = next((part.version for part in found if part.name == PROJECT), "")
    subject = Component(
        name=f"{PROJECT}/{image.name}", version=version, type=ComponentType.CONTAINER,
        purl=PackageURL("oci", None, image.name, digest), bom_ref=digest,
    )  # fmt: skip
    bom = Bom(
        components=[_component(part) for part in found],
        serial_number=uuid.uuid5(_NAMESPACE, digest),
        metadata=BomMetaData(component=subject, timestamp=datetime.fromtimestamp(source_date_epoch(), UTC)),
    )
    bom.register_dependency(subject, bom.components)
    made = make_outputter(bom, OutputFormat.JSON, _SCHEMA).output_as_string()
    return json.dumps(json.loads(made), indent=1, sort_keys=True) + "\n"


def _component(found: Found, outer: str = "") -> Component:
    url = _package_url(found)
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in found.hashes]
    # Which of its distributions was installed depends on the processor, so the hashes are not the component's own.
    of_distributions = found.kind == "pypi" and hashes
    reference = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(url)), hashes=hashes)
    return Component(
        name=found.name, version=found.version, group=found.group or None, type=ComponentType.LIBRARY, purl=url,
        bom_ref=f"{outer}{url}{''.join(found.hashes) if found.kind in {'maven', 'generic'} else ''}",
        licenses=[LicenseExpression(found.license)] if found.license else [],
        hashes=[] if of_distributions else hashes,
        external_references=[reference] if of_distributions else [],
        components=[_component(part, f"{url} ") for part in found.contains],
    )  # fmt: skip


def _package_url(found: Found) -> PackageURL:
    if found.kind == "deb":
        qualifiers = {"arch": found.architecture, "distro": "debian-12"}
        return PackageURL("deb", "debian", found.name, found.version, qualifiers)
    return PackageURL(found.kind, found.group or None, found.name, found.version)
