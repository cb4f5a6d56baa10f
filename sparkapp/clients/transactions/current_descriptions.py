"""Descriptions of transactions by brokers that still coordinate them (ADR 62)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import TransactionDescriber, TransactionDescription
from sparkapp.model.checkpoint.commit_outcome import is_behind
from sparkapp.model.checkpoint.committable import KafkaCommittable

Descriptions = Mapping[KafkaCommittable, TransactionDescription]

LOG = logging.getLogger(__name__)


class CurrentDescriptions:
    """Asked by the committer, about transactions whose producers may have written several.

    A broker that was cut off may still name itself as coordinator. It describes what it knew last: an earlier
    transaction, or an earlier producer. It would also answer EndTxn by that. A coordinator whose log has lost its end
    says the same, and no other broker knows more.

    :param sleep: replaced by tests.
    """

    def __init__(self, client: TransactionDescriber, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def of(
        self, committables: Sequence[KafkaCommittable], deadline: Deadline
    ) -> tuple[Descriptions, Sequence[KafkaCommittable]]:
        """The description of each committable's id; ids that are not known are absent.

        :returns: also the transactions whose coordinators have heard of earlier transactions alone, without a
            description. They are looked up again for half of the time that is left.
        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        found: dict[KafkaCommittable, TransactionDescription] = {}
        asked = list(committables)
        ids = [each.transactional_id for each in asked]
        look = Deadline.after(deadline.remaining / 2, clock=deadline.clock)
        pauses = look.pauses(0.01, 1.0)
        while True:
            described = self._client.describe(ids, deadline=deadline)
            found |= {each: described[each.transactional_id] for each in asked if each.transactional_id in described}
            asked = [each for each in asked if each in found and is_behind(each, found[each])]
            ids = [each.transactional_id for each in asked]
            if not asked or look.expired:
                return {each: description for each, description in found.items() if each not in asked}, asked
            LOG.warning("the coordinators of %s describe earlier transactions; looking them up again", ", ".join(ids))
            self._client.forget_coordinators(ids)
            self._sleep(next(pauses))
