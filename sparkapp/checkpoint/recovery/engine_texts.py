"""What recovery asks the engine about its part of a document."""

from __future__ import annotations

from typing import Protocol

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint


class EngineTexts(Protocol):
    """What only the engine can do with its part of a document.

    In jobs it is :class:`sparkapp.spark.state.retained_state.QueryState`, or that of an object store,
    :class:`sparkapp.spark.state.object_store.restored_state.StoredQueryState`.
    """

    def rewound(self, engine: str) -> str:
        """Forgets what belonged to records after an earlier checkpoint.

        :raises CheckpointCorrupt: not a text of this engine.
        """
        ...

    def gone_back(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The text of a checkpoint that has the retained state of an earlier checkpoint.

        :param number: of the new checkpoint. :param attempt: which has the claim.
        :param recorded: the text that the document has in its store. The state that it names stays.
        :raises CheckpointUnusable: the state is not there.
        """
        ...

    def adopted(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The text of a checkpoint with the retained state of another job, which becomes that of this attempt.

        :param number: of the new checkpoint, after that of ``target``. :param attempt: which has the claim.
        :param recorded: the text that the document has in its store. The state that it names stays.
        :raises CheckpointUnusable: the state is not there. :raises VolumeFull: and VolumeUnusable: as their names say.
        """
        ...

    def undone(self, document: CheckpointDocument) -> CheckpointDocument:
        """As if the document's checkpoint, which is lost as a whole, had not been computed yet.

        :raises StateUncertain: the document does not say how.
        """
        ...
