"""Group requests under another member's id: what the coordinator then thinks, the member has yet to learn."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection


class Impostor:
    """Speaks for one member to the only broker there is."""

    def __init__(self, bootstrap: str, *, group: str, member_id: str, topic: str) -> None:
        self._connection = KafkaConnection({"bootstrap.servers": bootstrap, "client.id": "impostor"})
        self._group = group
        self._member_id = member_id
        self._topic = topic

    def close(self) -> None:
        self._connection.close()

    def leave(self) -> None:
        """The coordinator forgets the member: its next request is answered UNKNOWN_MEMBER_ID."""
        identity = LeaveGroupRequest.MemberIdentity(member_id=self._member_id, group_instance_id=None)
        self._send(LeaveGroupRequest(group_id=self._group, members=[identity], min_version=3))

    def rejoin(self) -> int:
        """A rebalance of which the member does not know: its next commit is answered ILLEGAL_GENERATION.

        :returns: the new generation.
        """
        subscription = ConsumerProtocolSubscription(
            topics=[self._topic], user_data=None, owned_partitions=[], version=1
        ).encode()
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)
        joined = self._send(
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=[protocol],
                reason=None,
                max_version=7,
            )
        )
        assignment = ConsumerProtocolAssignment(assigned_partitions=[], user_data=None, version=1).encode()
        share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self._member_id, assignment=assignment)
        self._send(
            SyncGroupRequest(
                group_id=self._group,
                generation_id=joined.generation_id,
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[share],
            )
        )
        return int(joined.generation_id)

    def _send(self, request: Any) -> Any:
        deadline = Deadline.after(20)
        answer = self._connection.run(deadline, lambda: self._connection.send(request, None, deadline))
        assert answer.error_code == 0, answer
        return answer
