"""Every format has traits, and a decoder that agrees with them; Spark itself is in tests/integration/engine."""

from __future__ import annotations

import importlib
from unittest.mock import MagicMock, patch

import pytest
from pyspark import SparkContext

from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import TRAITS, Format
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.source.formats.reader_schema import decoder_of
from sparkapp.spark.frames.formats import registry_format
from sparkapp.spark.frames.record_policy import error_column
from sparkapp.spark.frames.records import DECODERS
from tests.support.jobs.plain_job import plain_spec

REGISTRY = RegistryAccess(url="http://registry")


def test_every_format_has_traits_and_a_decoder() -> None:
    assert set(TRAITS) == set(Format)
    assert set(DECODERS) == set(Format)


@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("chosen", Format)
def test_a_decoder_adds_the_error_column_exactly_if_the_format_is_fallible(
    chosen: Format, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the trait ``onRecordError`` would ignore the column, and a bad record would have null fields."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", MagicMock())
    monkeypatch.setattr(registry_format, "decoder_of", MagicMock())
    monkeypatch.setattr(registry_format, "from_arrow_type", MagicMock())
    monkeypatch.setattr(registry_format, "StructField", MagicMock())
    monkeypatch.setattr(registry_format, "StructType", MagicMock())
    monkeypatch.setattr("pyspark.sql.functions.arrow_udf", MagicMock())
    records = MagicMock()
    records.withColumn.return_value = records.withColumns.return_value = records.drop.return_value = records
    source = Source(group_id="g", schema_registry=REGISTRY, **{f"{side}_format": chosen})
    spec = plain_spec(source=source)
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=spec)
    assert DECODERS[chosen](records, side, "n INT", job, MagicMock()) is records
    added = {call.args[0] for call in records.withColumn.call_args_list}
    added |= {name for call in records.withColumns.call_args_list for name in call.args[0]}
    assert (error_column(side) in added) == chosen.traits.fallible


@pytest.mark.parametrize("chosen", [kind for kind in Format if kind.traits.registered])
def test_the_parser_of_a_registered_format_is_in_the_module_of_its_name(chosen: Format) -> None:
    """Workers import it by that name before they fork (``sparkapp.spark.launch.preload``)."""
    module = importlib.import_module(f"sparkapp.source.formats.{chosen}")
    with patch.object(module, f"{chosen.capitalize()}Decoder") as decoder:
        assert decoder_of(chosen, REGISTRY, "schema", "value") is decoder.return_value


def test_a_format_either_takes_a_schema_of_the_resource_or_has_a_registry() -> None:
    assert not [kind for kind in Format if kind.traits.needs_schema and kind.traits.registered]
