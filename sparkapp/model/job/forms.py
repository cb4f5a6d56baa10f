"""The forms of names in a job's fields, as the API server enforces them."""

from __future__ import annotations

from sparkapp.model import names
from sparkapp.model.encoding.schema import Rule, text_of

OBJECT = text_of(1, names.MAX_OBJECT_NAME, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
"""The name of an object of Kubernetes; :func:`sparkapp.model.names.is_object_name` is the operator's check."""
OBJECT_KEY = text_of(1, names.MAX_OBJECT_NAME)
"""A key of a Secret or ConfigMap."""

MAX_KAFKA_NAME = 249
"""Kafka's limit for the name of a topic; also for groups and ids, which have no limit of their own."""
_LETTERS = "letters, digits, '.', '_' and '-' only"
_CHARACTERS = "self.matches('^[a-zA-Z0-9._-]+$')"
_NO_FOLDER = Rule("!(self in ['.', '..'])", "'.' and '..' are not topic names")

TOPIC = text_of(1, MAX_KAFKA_NAME, Rule(_CHARACTERS, f"a topic name has {_LETTERS}"), _NO_FOLDER)
"""The name of a topic, alone."""
LISTED_TOPIC = text_of(
    1,
    MAX_KAFKA_NAME,
    Rule(
        _CHARACTERS,
        f"a topic name has {_LETTERS}: list several topics as items of source.topics, and give an expression in"
        " source.topicPattern",
    ),
    _NO_FOLDER,
)
"""The name of a topic in a list."""
KAFKA_ID = text_of(1, MAX_KAFKA_NAME, Rule(_CHARACTERS, f"write {_LETTERS}"))
"""An id that a client gives itself."""
