"""Removes the query state of a deleted job from its bucket, but what snapshots keep (ADR 101)."""

from __future__ import annotations

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.model import names
from sparkapp.spark.state.object_store import retained_folder
from sparkapp.spark.state.object_store.retained_folder import RetainedObjects
from sparkapp.spark.state.object_store.store import ObjectStore


def remove_stored_state(store: ObjectStore, *, attempt: int, claim: Claim, retained: RetainedStore) -> str:
    """Called by the last attempt of a deleted job, in the order of :mod:`sparkapp.spark.state.removed_state`.

    :param store: the folder of the job. :param attempt: whose claim ``claim`` is.
    :param retained: of the job. Its entries are dropped.
    :returns: what was done, as a text for people.
    :raises CheckpointError: another attempt has the claim, or it is not known what snapshots keep: nothing is removed.
    :raises StateStoreUnusable: some of it may be left. The next try continues.
    """
    if entries := retained.read():
        retained.change({}, entries)
    there = RetainedObjects.of(store)
    claim.require()
    kept = there.manifests(store, retained.pinned())
    if not kept:
        return store.remove_all()
    for folder in store.folders():
        if folder != names.RETAINED_STATE:
            store.remove(folder)
    retained_folder.remove(store, *there.others(kept, attempt))
    numbers = ", ".join(f"checkpoint-{number}" for number in sorted({folder.checkpoint_id for folder in kept}))
    return f"s3://{store.folder} has only what snapshots keep: {numbers}"
