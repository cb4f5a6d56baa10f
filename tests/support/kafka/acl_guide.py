"""The rights that the commands of docs/kafka-acls.md grant."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourceType

from tests.support.kafka.secured_broker import Right

GUIDE = Path(__file__).resolve().parents[3] / "docs/kafka-acls.md"
REQUIRED = ("Every job", "`deliveryGuarantee: ExactlyOnce`", "`onRecordError: DeadLetter`")
"""The sections of a job that uses everything."""
OPTIONAL = "Outages of brokers"
"""The section of rights without which a job runs and warns."""


def rights_of(section: str) -> list[Right]:
    """What the commands of a section grant to the user ``job``."""
    text = GUIDE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = []
    for command in re.findall(r"^\$ (kafka-acls\.sh .*?(?<!\\))$", text, re.MULTILINE | re.DOTALL):
        words = shlex.split(command.replace("\\\n", " "))
        options = dict(itertools.pairwise(words))
        assert {"--add", "--allow-principal"} <= set(words)
        (kind,) = {"--topic", "--group", "--transactional-id"} & set(options)
        found.append(
            Right(
                {"--topic": ResourceType.TOPIC, "--group": ResourceType.GROUP}.get(kind, ResourceType.TRANSACTIONAL_ID),
                options[kind],
                AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", options["--operation"]).upper()],
                prefixed=options.get("--resource-pattern-type") == "prefixed",
            )
        )
    assert found
    return found
