"""Split owners: case S01's table, with all of its values."""

from __future__ import annotations

import pytest

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import java_hash, split_owner

TABLE = {
    "topic": (110546223, {2: "10", 3: "1201", 4: "1230", 5: "0123", 7: "3456"}),
    "pattern-topic": (1008656562, {2: "01", 3: "2012", 4: "2301", 5: "0123", 7: "5601"}),
    "topic2": (-868034333, {2: "10", 3: "0120", 4: "1230", 5: "1234", 7: "4560"}),
    "orders": (-1008770331, {2: "10", 3: "0120", 4: "3012", 5: "4012", 7: "3456"}),
    "input": (100358090, {2: "01", 3: "0120", 4: "2301", 5: "2340", 7: "5601"}),
    "output": (-1005512447, {2: "10", 3: "1201", 4: "3012", 5: "3401", 7: "3456"}),
}


@pytest.mark.parametrize("topic", TABLE)
def test_S01_java_hash(topic):
    assert java_hash(topic) == TABLE[topic][0]


@pytest.mark.parametrize(("topic", "parallelism"), [(topic, n) for topic, (_, rows) in TABLE.items() for n in rows])
def test_S01_owner_table(topic, parallelism):
    expected = TABLE[topic][1][parallelism]
    assert "".join(str(split_owner(topic, partition, parallelism)) for partition in range(len(expected))) == expected


def test_S01_assignment_of_ten_partitions_to_three_readers():
    owned = {
        reader: {
            topic: [partition for partition in range(10) if split_owner(topic, partition, 3) == reader]
            for topic in ("topic", "pattern-topic")
        }
        for reader in range(3)
    }
    assert owned == {
        0: {"topic": [2, 5, 8], "pattern-topic": [1, 4, 7]},
        1: {"topic": [0, 3, 6, 9], "pattern-topic": [2, 5, 8]},
        2: {"topic": [1, 4, 7], "pattern-topic": [0, 3, 6, 9]},
    }


@pytest.mark.parametrize(("partitions", "parallelism", "least", "most"), [(4, 4, 1, 1), (11, 3, 3, 4), (4, 11, 0, 1)])
def test_S32_owners_of_one_topic_are_balanced(partitions, parallelism, least, most):
    owners = [split_owner("topic", partition, parallelism) for partition in range(partitions)]
    counts = [owners.count(subtask) for subtask in range(parallelism)]
    assert (min(counts), max(counts)) == (least, most)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("Aa", 2112), ("BB", 2112), ("ü", 252), ("😀", 1772899), ("polygenelubricants", -2147483648)],
)
def test_java_hash_of_other_texts(text, expected):
    """Over UTF-16 code units: a character beyond them counts as its two halves."""
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("partition", "parallelism"),
    [(0, 0), (0, -1), (-1, 1), (0, 1.5), (0.0, 2), (True, 2), (0, True), (None, 2), (0, None), ("0", 2), (0, "2")],
)
def test_arguments_that_cannot_be(partition, parallelism):
    with pytest.raises(InvalidArgument, match="must be a whole number"):
        split_owner("topic", partition, parallelism)


@pytest.mark.parametrize("topic", [None, 1, b"topic"])
def test_a_topic_that_is_no_text(topic):
    with pytest.raises(InvalidArgument, match="text"):
        split_owner(topic, 0, 1)
    with pytest.raises(InvalidArgument, match="text"):
        java_hash(topic)
