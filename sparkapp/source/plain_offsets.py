"""Group offsets that are no evidence of transactions: a plain OffsetCommit, which nothing fences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.errors import COORDINATOR_MOVES, GROUP_IN_USE, error_for
from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.model.checkpoint.offset_commit import Refusal
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition

_MAY_PASS = COORDINATOR_MOVES | GROUP_IN_USE | {
    KafkaError._WAIT_COORD, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError.UNKNOWN_TOPIC_OR_PART,
}  # fmt: skip
"""A coordinator that moves or a group that is new; a member that is about to leave; a topic that is a moment old."""


class PlainOffsets:
    """Commits offsets as any consumer does, right after a read of the claim.

    Offsets of a superseded driver would arrive after those of its successor. The risk is a pause between the claim's
    answer and the arrival of the request. It sets the group back by one commit, which the successor's next commit
    corrects. Such offsets are for people and tools: a restart reads the document.

    :param config: the job's consumer configuration.
    :param require_claim: raises where another attempt owns the job (``checkpoint.claim``).
    """

    def __init__(self, config: Mapping[str, str], require_claim: Callable[[], None]) -> None:
        self._config = dict(config)
        self._require_claim = require_claim
        self._consumer = Consumer(with_token_callback(self._config))

    def send(self, offsets: Mapping[TopicPartition, int], mark: str) -> dict[TopicPartition, Refusal]:
        """See :meth:`OffsetSender.send`."""
        try:
            self._require_claim()
        except KafkaSparkJobError as error:
            return dict.fromkeys(offsets, Refusal(error))
        wanted = [ClientPartition(topic, number, offset, mark) for (topic, number), offset in offsets.items()]
        try:
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            # The client raises the error of one refused partition, and does not say which others were refused.
            if error.args[0].code() == KafkaError._WAIT_COORD:
                # After 45 s. It may know no broker any more, and would wait like this for ever.
                self._consumer.close()
                self._consumer = Consumer(with_token_callback(self._config))
            return {partition: _refusal(partition, error.args[0]) for partition in offsets}
        return {}

    def close(self) -> None:
        self._consumer.close()


def _refusal(partition: TopicPartition, error: KafkaError) -> Refusal:
    code = error.code()
    doing = f"committing the group's offset of {partition}"
    is_gone = code == KafkaError.UNKNOWN_TOPIC_OR_PART
    return Refusal(error_for(error, doing), may_pass=code in _MAY_PASS, is_gone=is_gone)
