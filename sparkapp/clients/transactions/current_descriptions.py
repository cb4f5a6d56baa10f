"""Descriptions of transactions by brokers that still coordinate them (ADR 62)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionDescriber, TransactionDescription
from sparkapp.model.checkpoint.commit_outcome import is_behind
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import CommitOutcomeUnknown

Descriptions = Mapping[KafkaCommittable, TransactionDescription]

LOG = logging.getLogger(__name__)


class CurrentDescriptions:
    """Asked by the committer, about transactions whose producers may have written several.

    A broker that was cut off may still name itself as coordinator. It describes what it knew last: an earlier
    transaction, or an earlier producer. It would also answer EndTxn by that.

    :param sleep: replaced by tests.
    """

    def __init__(self, client: TransactionDescriber, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def of(self, committables: Sequence[KafkaCommittable], deadline: Deadline) -> Descriptions:
        """The description of each committable's id; ids that are not known are absent.

        :raises CommitOutcomeUnknown: by the deadline a coordinator has not heard of a transaction.
        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        found: dict[KafkaCommittable, TransactionDescription] = {}
        asked = list(committables)
        ids = [each.transactional_id for each in asked]
        pauses = deadline.pauses(0.01, 1.0)
        while True:
            described = self._client.describe(ids, deadline=deadline)
            found |= {each: described[each.transactional_id] for each in asked if each.transactional_id in described}
            asked = [each for each in asked if each in found and is_behind(each, found[each])]
            if not asked:
                return found
            ids = [each.transactional_id for each in asked]
            behind = ", ".join(ids)
            if deadline.expired:
                msg = f"the coordinators of {behind} describe earlier transactions: other brokers have replaced them"
                raise CommitOutcomeUnknown(msg)
            LOG.warning("the coordinators of %s describe earlier transactions; looking them up again", behind)
            self._client.forget_coordinators(ids)
            self._sleep(next(pauses))
