"""The default StorageClass: volumes are there, keep the data of claims, and are free when a claim is deleted."""

from __future__ import annotations

from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from localcluster.errors import SetupError
from localcluster.kubernetes.storage import CLASS, VOLUMES, provide


class Api:
    """The classes and volumes of a cluster, as the API server has them."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def get(self, path: str) -> dict[str, Any]:
        return {"items": [each for name, each in self.objects.items() if name.startswith(f"{path}/")]}

    def create(self, path: str, body: dict[str, Any]) -> None:
        name = f"{path}/{body['metadata']['name']}"
        assert name not in self.objects
        self.objects[name] = {**body, "status": {"phase": "Available"}}

    def patch(self, path: str, change: dict[str, Any]) -> None:
        assert change == {"spec": {"claimRef": None}}
        self.objects[path]["status"]["phase"] = "Available"


@pytest.fixture
def api() -> Any:
    return Api()


def test_every_volume_is_a_folder_that_each_user_may_write(api: Any, tmp_path: Path) -> None:
    provide(api, tmp_path)
    storage = api.objects[f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}"]
    assert storage["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    volumes = api.get("/api/v1/persistentvolumes")["items"]
    assert len(volumes) == VOLUMES
    for volume in volumes:
        assert volume["spec"]["storageClassName"] == CLASS
        assert Path(volume["spec"]["local"]["path"]).stat().st_mode & 0o777 == 0o777


def test_an_api_server_that_refuses_is_named(api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: str, _body: object) -> None:
        raise HTTPError("https://127.0.0.1", 403, "Forbidden", Message(), None)

    monkeypatch.setattr(api, "create", refused)
    with pytest.raises(SetupError, match=r"the volumes of the cluster were not made: HTTP Error 403: Forbidden"):
        provide(api, tmp_path)


def test_a_bound_volume_keeps_its_data_and_a_released_volume_is_emptied(api: Any, tmp_path: Path) -> None:
    provide(api, tmp_path)
    for number, phase in enumerate(("Bound", "Released")):
        api.objects[f"/api/v1/persistentvolumes/local-{number}"]["status"]["phase"] = phase
        (tmp_path / f"local-{number}/data").touch()
    provide(api, tmp_path)
    phases = {
        each["metadata"]["name"]: each["status"]["phase"] for each in api.get("/api/v1/persistentvolumes")["items"]
    }
    assert (phases["local-0"], phases["local-1"], len(phases)) == ("Bound", "Available", VOLUMES)
    assert (tmp_path / "local-0/data").exists()
    assert list((tmp_path / "local-1").iterdir()) == []
