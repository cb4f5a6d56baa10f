"""The administrator's lists of names that jobs may refer to, as patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sparkapp.model.errors import ConfigurationError

Patterns = tuple[str, ...]

KINDS: Mapping[str, str] = {
    "images": "images", "secrets": "secrets", "configMaps": "configmaps",
    "persistentVolumeClaims": "persistentvolumeclaims", "tokenAudiences": "audiences",
}  # fmt: skip
"""Kinds as the chart names them, and as the references of a pod do."""
MAX_LENGTH = 1024
"""Characters of a name; a longer name is refused, so that no name takes long to compare."""
_IMAGES = "images"
_NAMESPACES = "namespaces"
_DOCKER_HUB = "docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedNames:
    """Lists by kind of name, in the terms of :data:`KINDS`. A kind without a list is not limited.

    :param general: of every namespace.
    :param by_namespace: of a namespace; a list of a kind replaces the general list of that kind.
    """

    general: Mapping[str, Patterns] = field(default_factory=dict)
    by_namespace: Mapping[str, Mapping[str, Patterns]] = field(default_factory=dict)

    @property
    def limits(self) -> bool:
        """False where every name is allowed."""
        return bool(self.general or self.by_namespace)

    def allows(self, namespace: str, kind: str, name: str) -> bool:
        """True where a job in the namespace may refer to the name.

        Called for each name of a job before an attempt.
        """
        patterns = self.by_namespace.get(namespace, {}).get(kind) or self.general.get(kind)
        if not patterns:
            return True
        matches = _image_matches if kind == _IMAGES else _matches
        return len(name) <= MAX_LENGTH and any(matches(pattern, name) for pattern in patterns)


def read_allowed_names(value: Mapping[str, Any], path: str) -> AllowedNames:
    """Reads the lists, as the chart writes them.

    :param path: of the value, for errors.
    :raises ConfigurationError: a kind is unknown, or a list is no list of strings.
    """
    namespaces = value.get(_NAMESPACES) or {}
    if not isinstance(namespaces, Mapping):
        _refuse(f"{path}.{_NAMESPACES}", "an object")
    return AllowedNames(
        general=_lists({kind: patterns for kind, patterns in value.items() if kind != _NAMESPACES}, path),
        by_namespace={name: _lists(lists, f"{path}.{_NAMESPACES}.{name}") for name, lists in namespaces.items()},
    )


def _lists(value: object, path: str) -> Mapping[str, Patterns]:
    if not isinstance(value, Mapping):
        _refuse(path, "an object")
    for kind, patterns in value.items():
        if kind not in KINDS:
            _refuse(f"{path}.{kind}", f"one of {', '.join(KINDS)}")
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
            _refuse(f"{path}.{kind}", "a list of strings")
    return {KINDS[kind]: tuple(patterns) for kind, patterns in value.items()}


def _refuse(path: str, wanted: str) -> NoReturn:
    msg = f"{path} must be {wanted}"
    raise ConfigurationError(msg, remedy="correct the values of the chart")


def _matches(pattern: str, name: str) -> bool:
    """``*`` stands for characters without ``/``, and a part ``**`` for one or more parts between ``/``."""
    return _parts_match(pattern.split("/"), name.split("/"))


def _image_matches(pattern: str, image: str) -> bool:
    """A pattern without tag and digest allows every tag and digest of its repositories.

    A tag says nothing about an image that has a digest, too: the digest decides what is pulled. So a pattern with a tag
    allows no digest.
    """
    (allowed, allowed_tag, allowed_digest), (repository, tag, digest) = _split(pattern), _split(image)
    if not _parts_match(allowed, repository):
        return False
    if allowed_digest:
        return _matches(allowed_digest, digest)
    return not allowed_tag or (not digest and _matches(allowed_tag, tag or "latest"))


def _split(image: str) -> tuple[list[str], str, str]:
    """Repository with its registry, tag and digest, as a container runtime reads an image's name."""
    name, _, digest = image.partition("@")
    path, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    parts = f"{path}{slash}{last}".split("/")
    if parts == ["**"]:
        return parts, tag, digest
    # Without this a pattern for folders of Docker Hub would match a registry of the same beginning.
    if len(parts) == 1:
        parts = ["library", *parts]
    if not ("." in parts[0] or ":" in parts[0] or parts[0] == "localhost"):
        parts = [_DOCKER_HUB, *parts]
    return parts, tag, digest


def _parts_match(pattern: list[str], name: list[str]) -> bool:
    if not pattern or not name:
        return not pattern and not name
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        return any(_parts_match(rest, name[count:]) for count in range(1, len(name) + 1))
    return _part_matches(first, name[0]) and _parts_match(rest, name[1:])


def _part_matches(pattern: str, part: str) -> bool:
    """In linear time, unlike a regular expression."""
    start, *others = pattern.split("*")
    if not others:
        return part == pattern
    *middle, end = others
    if not part.startswith(start) or not part.removeprefix(start).endswith(end):
        return False
    left = part.removeprefix(start).removesuffix(end)
    for piece in filter(None, middle):
        _, found, left = left.partition(piece)
        if not found:
            return False
    return True
