"""The chart of a release: as Helm packages it, and as an OCI archive for a registry."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from localcluster.images.oci import digest_of
from localcluster.settings import REPOSITORY
from releasefiles.archives import compressed, files_of, tar_of

CHART = REPOSITORY / "charts" / "kafkaspark-operator"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def write_chart(folder: Path) -> None:
    """Writes ``kafkaspark-operator-VERSION.tgz`` and ``kafkaspark-operator-VERSION.oci.tar``.

    The second is an OCI layout, which ``oras copy --from-oci-layout`` and ``skopeo copy oci-archive:`` push.
    """
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    name = f"{about['name']}-{about['version']}"
    content = compressed(tar_of({f"{about['name']}/{path}": data for path, data in files_of(CHART).items()}))
    (folder / f"{name}.tgz").write_bytes(content)
    (folder / f"{name}.oci.tar").write_bytes(_layout(content, json.dumps(about).encode(), str(about["version"])))


def _layout(content: bytes, about: bytes, version: str) -> bytes:
    manifest = json.dumps(
        {
            "schemaVersion": 2, "mediaType": _MANIFEST, "config": _descriptor(_CONFIG, about),
            "layers": [_descriptor(_CONTENT, content)],
        }
    ).encode()  # fmt: skip
    entry = {**_descriptor(_MANIFEST, manifest), "annotations": {"org.opencontainers.image.ref.name": version}}
    blobs = {f"blobs/{digest_of(blob).replace(':', '/')}": blob for blob in (content, about, manifest)}
    return tar_of({
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        **blobs,
    })  # fmt: skip


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}
