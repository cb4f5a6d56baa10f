"""The checkpoint document under arbitrary content and arbitrary damage."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart, StatelessStart
from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint

words = st.text(st.characters(codec="utf-8"), max_size=12)
prefixes = st.text(st.sampled_from("ab.-_1"), min_size=1, max_size=8)
naturals = st.integers(0, (1 << 63) - 1)
small = st.integers(0, 1 << 20)


@st.composite
def documents(draw):
    parallelism = draw(st.integers(1, 40))
    aligned = draw(st.booleans())
    checkpoint_id = draw(small)
    prefix = draw(prefixes)
    partitions = draw(st.lists(st.tuples(words, st.integers(0, 99)), unique=True, max_size=8))
    splits = tuple(
        sorted(
            KafkaPartitionSplit(TopicPartition(*each), start, start + draw(small))
            for each in partitions
            for start in [draw(small)]
        )
    )
    owned = splits_by_subtask(splits, parallelism) if aligned else {}
    committables = tuple(
        KafkaCommittable(
            transactional_id=f"{prefix}-{number}",
            producer_id=draw(naturals),
            producer_epoch=draw(st.integers(0, 32767)),
            checkpoint_id=checkpoint_id,
            subtask=subtask,
            records=draw(naturals) if subtask in owned or not aligned else 0,
            dead_letters=draw(small) if subtask in owned or not aligned else 0,
            start_time_ms=draw(naturals),
            ranges=owned.get(subtask, ()),
        )
        for number in draw(st.lists(st.integers(0, 10**6), unique=True, max_size=5 if checkpoint_id else 0))
        for subtask in [draw(st.integers(0, parallelism - 1))]
    )
    attempt = draw(st.integers(1, (1 << 31) - 1))
    is_local = aligned and not committables and draw(st.booleans())
    local = LocalPart(
        era=draw(st.integers(1, attempt)),
        placed=frozenset(draw(st.sets(st.sampled_from([split.partition for split in splits]))) if splits else ()),
        ended=draw(st.booleans()),
        forgot_at=draw(st.integers(0, checkpoint_id)),
    )
    stopping = draw(words)
    stateless = StatelessStart(
        asked_by=draw(st.integers(1, attempt)), checkpoint_id=draw(st.integers(0, checkpoint_id))
    )
    return CheckpointDocument(
        stateless=draw(st.sampled_from([None, stateless])),
        stopping=stopping,
        stops={split.partition: draw(small) for split in splits} if stopping else {},
        finished=draw(st.booleans()) if stopping else False,
        redeploy_nonce=draw(naturals),
        job_uid=draw(words),
        attempt=attempt,
        slots=SlotBounds(draw(st.integers(1, 9)), 1) if is_local else NO_SLOTS,
        local=local if is_local else None,
        checkpoint_id=checkpoint_id,
        created_at=draw(words),
        parallelism=parallelism,
        prefix=prefix,
        previous_prefixes=tuple(draw(st.lists(prefixes, max_size=2))),
        hint=TransactionalIdHint(draw(small), draw(small)),
        transactional=draw(st.booleans()),
        splits=splits,
        aligned=aligned,
        committables=committables,
        evidence_group=draw(words.filter(bool) if is_local else words),
        engine=draw(words),
        engine_has_state=draw(st.booleans()),
        drained=draw(st.booleans()),
        counters=Counters(records_in=draw(naturals), records_out=draw(naturals), records_dead_lettered=draw(naturals)),
    )


@given(documents())
def test_round_trip(document):
    assert decode(encode(document), job_uid=document.job_uid) == document


@given(documents(), st.data())
def test_damage_is_refused_or_harmless(document, data):
    """Any replacement of a stretch of the text is one of our errors, or a document that passes every check."""
    text = encode(document)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    damaged = text[:start] + data.draw(st.text(max_size=10)) + text[end:]
    try:
        found = decode(damaged, job_uid=document.job_uid)
    except (CheckpointCorrupt, CheckpointForeign):
        return
    assert decode(encode(found), job_uid=document.job_uid) == found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(documents(), st.data(), json_values)
def test_any_value_in_any_place_is_refused_or_harmless(document, data, value):
    body = json.loads(encode(document))
    place = data.draw(st.sampled_from(sorted(body)))
    body[place] = value
    try:
        found = decode(json.dumps(body), job_uid=document.job_uid)
    except (CheckpointCorrupt, CheckpointForeign):
        return
    assert decode(encode(found), job_uid=document.job_uid) == found
