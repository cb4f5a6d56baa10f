"""What a state ConfigMap holds: a document, nothing at all, or something that must not pass for nothing."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.state_config_map import document_text, way_back
from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.model.report import MAX_MESSAGE


@pytest.mark.parametrize("data", [None, {}])
def test_nothing_is_a_state_that_was_never_claimed(data):
    assert document_text("orders-state", data, data) is None


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_text_is_a_document_even_if_it_is_empty(text):
    assert document_text("orders-state", {"checkpoint.json": text, "notes": "mine"}, None) == text


@pytest.mark.parametrize(
    ("data", "binary", "words"),
    [
        (None, {"checkpoint.json": "H4sI"}, "orders-state holds checkpoint.json as binary data"),
        ({"backup.json": "{}"}, None, "orders-state has no key checkpoint.json, but backup.json"),
        (None, {"checkpoint.json.gz": "H4sI"}, "but checkpoint.json.gz"),
    ],
)
def test_anything_else_is_refused_with_what_to_do(data, binary, words):
    with pytest.raises(CheckpointCorrupt, match=words) as caught:
        document_text("orders-state", data, binary)
    assert "as JSON text under checkpoint.json in data" in caught.value.remedy


def test_the_way_back_is_to_be_typed_as_it_stands():
    text = way_back("shop", "orders")
    assert "ConfigMap orders-checkpoints" in text
    assert "source.startup.mode GroupOffsets" in text
    assert len(text) < MAX_MESSAGE - 200, "a condition's and an event's message has to hold what happened, too"
    assert "`python3 -m sparkapp checkpoint list --namespace shop --job orders`" in text
