"""The console's answers: the page, and what the API server says of jobs, by the rights of whoever asks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from kafkaspark.cluster.user_cluster import UserCluster
from kafkaspark.look.overview import ready_of
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

PAGE = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_FILES = {"/": "console.html", "/console.js": "console.js", "/console.css": "console.css"}
_JOB = re.compile(r"/api/jobs/([^/]+)/([^/]+)(/lag|/output)?")
_LAG = re.compile(r'kafkaspark_source_records_lag\{partition="([^"]*)",topic="([^"]*)"\} (\S+)')
_MOST_RECORDS = 50
HEADERS = {
    # Everything of the page is its own, and nobody may frame it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Tail = Callable[[str, int], list[dict[str, Any]]]
"""The last records of a topic, at most a number of them; as ``kafkaspark topic tail --output json`` has them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response without its headers of every response."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Console:
    """Answers GET requests.

    :param cluster: the cluster with the rights of the person who asks; takes the request's Authorization header.
    :param tail: None where the console does not reach the brokers.
    """

    def __init__(self, cluster: Callable[[str], UserCluster], tail: Tail | None = None) -> None:
        self._cluster = cluster
        self._tail = tail

    def answer(self, target: str, authorization: str = "") -> Answer:
        """The response to a GET of a request target; a refusal of the API server is one with its text."""
        parts = urlsplit(target)
        if parts.path in _FILES:
            file = PAGE / _FILES[parts.path]
            return Answer(HTTPStatus.OK, f"{_TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
        try:
            found = self._api(parts.path, parse_qs(parts.query), authorization)
        except CommandRefused as refusal:
            return _json({"message": str(refusal), "remedy": str(refusal.remedy)}, HTTPStatus.BAD_GATEWAY)
        if found is None:
            return _json({"message": "no such page", "remedy": "/"}, HTTPStatus.NOT_FOUND)
        return _json(found, HTTPStatus.OK)

    def _api(self, path: str, query: Mapping[str, list[str]], authorization: str) -> object | None:
        if path == "/api/jobs":
            cluster = self._cluster(authorization)
            # Without a namespace: of the whole cluster, and where that is refused, of the context's namespace.
            (namespace,) = query.get("namespace", [""])[:1]
            return {"jobs": jobs(cluster, namespace)}
        found = _JOB.fullmatch(path)
        if found is None:
            return None
        namespace, name, part = unquote(found[1]), unquote(found[2]), found[3]
        cluster = self._cluster(authorization)
        job = cluster.job(namespace, name)
        if part == "/lag":
            return lag(cluster, namespace, job)
        if part == "/output":
            topic = str(((job.get("spec") or {}).get("sink") or {}).get("topic") or "")
            return None if self._tail is None or not topic else self._tail(topic, _MOST_RECORDS)
        job["metadata"].pop("managedFields", None)
        pods, events = cluster.pods(namespace, name), cluster.events(namespace, name)
        return {"job": job, "pods": pods, "events": events, "hasOutput": self._tail is not None}


def jobs(cluster: UserCluster, namespace: str) -> list[dict[str, Any]]:
    """A row for each job, without what the list does not show: a resource may have more than a megabyte."""
    everywhere = f"/apis/{names.GROUP}/{names.VERSION}/{names.PLURAL}"
    within = quote(namespace or cluster.namespace, safe="")
    there = f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{within}/{names.PLURAL}"
    try:
        items = cluster.items(there if namespace else everywhere)
    except CommandRefused:
        if namespace:
            raise
        items = cluster.items(there)
    return [_row(item) for item in items]


def _row(job: Mapping[str, Any]) -> dict[str, Any]:
    meta, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    source, sink = status.get("source") or {}, status.get("sink") or {}
    return {
        "namespace": meta["namespace"], "name": meta["name"], "ready": ready_of(status), "state": status.get("state"),
        "reason": status.get("reason"), "message": status.get("message"), "parallelism": status.get("parallelism"),
        "checkpoint": (status.get("checkpoint") or {}).get("id"), "lag": source.get("lagRecords"),
        "in": source.get("recordsPerSecond"), "out": sink.get("recordsPerSecond"),
        "restarts": (status.get("restarts") or {}).get("total"), "created": meta.get("creationTimestamp"),
        "sink": (spec.get("sink") or {}).get("topic"),
    }  # fmt: skip


def lag(cluster: UserCluster, namespace: str, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Unread records by partition, of the driver's metrics through the API server.

    :raises CommandRefused: the user may not ``get pods/proxy``, or no driver answers.
    """
    status = job.get("status") or {}
    pod = str((status.get("attempt") or {}).get("driverPod") or "")
    if not pod:
        return []
    # The API server takes the first port of the pod, and a driver has no other.
    where = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/proxy/metrics"
    text = cluster.raw(where).data.decode("utf-8", "replace")
    return [{"topic": topic, "partition": number, "lag": float(value)} for number, topic, value in _LAG.findall(text)]


def _json(value: object, status: HTTPStatus) -> Answer:
    return Answer(status, "application/json", json.dumps(value).encode())
