"""Metadata of ``transformWithState`` name schemas by whole paths: they are those of the folder that Spark reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.spark.state import state_store_files
from sparkapp.spark.state.operator_metadata import link_for_reading

SCHEMA = "_stateSchema/default/0_e28cb07c"
METADATA = "_metadata/v2"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The state of two operators behind checkpoint 3, and of batch 3, which was not completed."""
    state = tmp_path / "attempt-1" / "state"
    for name in ("0/0", "1/0", f"1/{METADATA}", "1/_stateSchema/default", "0/_metadata"):
        (state / name).mkdir(parents=True)
    (state / "0/_metadata/metadata").write_text("of another operator")
    (state / "1" / SCHEMA).write_text("the schema")
    for version in range(1, 4):
        (state / "0/0" / f"{version}.delta").write_text("x")
        (state / "1/0" / f"{version}.delta").write_text("x")
    for batch in range(4):
        body = {
            "operatorInfo": {"operatorId": 1},
            "stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [f"file:{state}/1/{SCHEMA}"]}],
            "operatorPropertiesJson": '{"timeMode":"EventTime"}',
        }
        (state / "1" / METADATA / str(batch)).write_text(f"v2\n{json.dumps(body)}")
        (state / "1" / METADATA / f".{batch}.crc").write_text("of the text")
    return state


def named(file: Path) -> list[str]:
    version, _, body = file.read_text().partition("\n")
    assert version == "v2"
    [store] = json.loads(body)["stateStoreInfo"]
    return [str(path) for path in store["stateSchemaFilePaths"]]


def test_a_linked_version_names_its_own_schemas(source: Path, tmp_path: Path) -> None:
    own = tmp_path / "attempt-2" / "state"
    before = (source / "1" / METADATA / "0").read_text()
    state_store_files.link(source, own, 3, 1)
    assert sorted(entry.name for entry in (own / "1" / METADATA).iterdir()) == ["0", "1", "2"]
    assert named(own / "1" / METADATA / "2") == [f"file:{own}/1/{SCHEMA}"]
    assert (own / "1" / SCHEMA).read_text() == "the schema"
    assert (own / "0/_metadata/metadata").read_text() == "of another operator"
    assert json.loads((own / "1" / METADATA / "0").read_text().partition("\n")[2])["operatorInfo"] == {"operatorId": 1}
    assert (source / "1" / METADATA / "0").read_text() == before, "the source is not changed"


def test_a_folder_that_is_renamed_afterwards_names_the_schemas_of_its_last_place(source: Path, tmp_path: Path) -> None:
    making, place = tmp_path / ".checkpoint-3" / "state", tmp_path / "checkpoint-3" / "state"
    state_store_files.link(source, making, 3, 1, may_copy=False, place=place)
    assert named(making / "1" / METADATA / "2") == [f"file:{place}/1/{SCHEMA}"]


def test_a_volume_that_is_mounted_elsewhere_is_read(source: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    (tmp_path / "attempt-1").rename(moved)
    link_for_reading(moved / "state", tmp_path / "scratch" / "state")
    operator = tmp_path / "scratch" / "state" / "1"
    assert named(operator / METADATA / "3") == [f"file:{moved}/state/1/{SCHEMA}"]
    assert (operator / "0" / "3.delta").read_text() == "x"
    assert (tmp_path / "scratch" / "state" / "0" / "0" / "3.delta").read_text() == "x"
    assert not (operator / METADATA / ".3.crc").exists()
