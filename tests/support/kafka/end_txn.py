"""The end of a single transaction by its triple, as the driver's committer sends it for many."""

from __future__ import annotations

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.errors import KafkaSparkJobError


def end_txn(
    client: TransactionClient, transactional_id: str, producer_id: int, producer_epoch: int, commit: bool
) -> EndTxnAnswer:
    """Ends a transaction by one request.

    :raises KafkaSparkJobError: the user may not write under this id, or could not authenticate.
    """
    end = EndTxn(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, commit=commit
    )
    answer = client.end_all([end])[0]
    if isinstance(answer, KafkaSparkJobError):
        raise answer
    return answer
