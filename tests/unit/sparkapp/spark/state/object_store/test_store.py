"""The driver's client of an object store: its settings, and what an answer of the store means."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from sparkapp.model.errors import StateStoreUnusable
from sparkapp.model.job.sections.state_storage import S3Storage
from sparkapp.spark.state.object_store import store as module
from sparkapp.spark.state.object_store.store import ObjectStore
from tests.support.fakes.object_files import ObjectFiles


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (S3Storage(bucket="b"), ("https", None, False)),
        (S3Storage(bucket="b", endpoint="https://store", path_style_access=True), ("https", "store", False)),
        (S3Storage(bucket="b", endpoint="http://store:8333"), ("http", "store:8333", True)),
    ],
)
def test_the_client_has_the_address_of_the_store(
    storage: S3Storage, expected: tuple[str, str | None, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REQUEST_CHECKSUM_CALCULATION", raising=False)
    made: dict[str, object] = {}
    monkeypatch.setattr(module.fs, "S3FileSystem", lambda **options: made.update(options))
    ObjectStore.of(storage, "uid")
    assert (made["scheme"], made["endpoint_override"], made["force_virtual_addressing"]) == expected
    assert not {"access_key", "secret_key"} & made.keys(), "they are in the variables"


def test_a_folder_is_all_objects_below_it(tmp_path: Path) -> None:
    store = ObjectStore(S3Storage(bucket="b"), "b/uid", ObjectFiles(tmp_path))
    assert (store.folders(), store.sizes("attempt-1")) == ([], {})
    store.write("attempt-1/state/0/1.changelog", b"text")
    store.write("attempt-2/state/0/1.changelog", b"")
    assert store.folders() == ["attempt-1", "attempt-2"]
    listed = store.listed("attempt-1")
    assert [(listed / "state" / "0" / name).is_file() for name in ("1.changelog", "2.changelog")] == [True, False]
    assert (listed / "state" / "0" / "1.changelog").read_bytes() == b"text"
    store.copy({"attempt-3/state/0/1.changelog": "attempt-1/state/0/1.changelog"})
    assert store.read("attempt-3/state/0/1.changelog") == b"text"
    other = store.of_job("another")
    other.copy({"copy": "attempt-1/state/0/1.changelog"}, of=store)
    assert (other.uri, other.read("copy")) == ("s3a://b/another", b"text")
    other.delete(["copy", "gone"])
    assert other.sizes("") == {}
    store.remove("attempt-1")
    store.remove("attempt-1")
    assert store.folders() == ["attempt-2", "attempt-3"]
    assert store.remove_all() == "s3://b/uid is removed"
    assert store.folders() == []
    store.remove_all()


def test_every_error_of_the_store_names_it(tmp_path: Path) -> None:
    files = ObjectFiles(tmp_path)
    store = ObjectStore(S3Storage(bucket="b", prefix="p", endpoint="http://s:1"), "b/p/uid", files)
    files.error = PermissionError("AWS Error ACCESS_DENIED")
    for ask in (
        store.folders,
        store.remove_all,
        lambda: store.read("x"),
        lambda: store.copy({"b": "a"}),
        lambda: store.delete(["x"]),
    ):
        with pytest.raises(StateStoreUnusable, match="s3://b/p at http://s:1, cannot be used: AWS"):
            ask()


def test_arrow_has_the_client_of_stores() -> None:
    assert fs.S3FileSystem(region="us-east-1", anonymous=True).region == "us-east-1"
