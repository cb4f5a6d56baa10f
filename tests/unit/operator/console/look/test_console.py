"""The console's answers, and who may ask its server."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaspark.look.console import HEADERS, Console
from kafkaspark.look.ui import ConsoleServer
from sparkapp.model.errors import CommandRefused

JOB = {
    "metadata": {"namespace": "shop", "name": "orders", "managedFields": [1]},
    "spec": {"sink": {"topic": "out"}, "transform": {"sql": {"query": "long"}}},
    "status": {
        "state": "Running", "source": {"lagRecords": 7}, "attempt": {"driverPod": "orders-1-driver"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}  # fmt: skip
EVERYWHERE = "/apis/streaming.kafkaspark.io/v1beta1/kafkasparkjobs"
LAG = 'kafkaspark_source_records_lag{partition="0",topic="in"} 5.0\nkafkaspark_source_records_lag_max 5.0\n'


class Cluster:
    """Of a user who may list the jobs of some paths only."""

    namespace = "shop"

    def __init__(self, *lists: str) -> None:
        self.lists = lists

    def items(self, path: str) -> list[dict[str, Any]]:
        if path not in self.lists:
            msg = f"no right to {path}"
            raise CommandRefused(msg, remedy="ask")
        return [JOB]

    def job(self, _namespace: str, _name: str) -> dict[str, Any]:
        return json.loads(json.dumps(JOB))

    def pods(self, _namespace: str, _name: str) -> list[dict[str, Any]]:
        return []

    events = pods

    def raw(self, path: str) -> SimpleNamespace:
        assert path == "/api/v1/namespaces/shop/pods/orders-1-driver/proxy/metrics"
        return SimpleNamespace(data=LAG.encode())


def ask(console: Console, target: str) -> tuple[HTTPStatus, Any]:
    answer = console.answer(target)
    return answer.status, json.loads(answer.body)


def console(*lists: str, **parts: Any) -> Console:
    cluster: Any = Cluster(*lists)
    return Console(lambda _: cluster, **parts)


def test_the_list_is_of_the_cluster_or_else_of_the_users_namespace() -> None:
    there = EVERYWHERE.replace("/kafkasparkjobs", "/namespaces/shop/kafkasparkjobs")
    for lists in ((EVERYWHERE,), (there,)):
        status, found = ask(console(*lists), "/api/jobs")
        (row,) = found["jobs"]
        assert (status, row["name"], row["ready"], row["lag"], row["checkpoint"]) == (200, "orders", "True", 7, None)
        assert "query" not in json.dumps(row)
    status, found = ask(console(), "/api/jobs")
    assert (status, found["remedy"]) == (502, "ask")


def test_a_job_comes_with_pods_events_and_lag_by_partition() -> None:
    _, found = ask(console(), "/api/jobs/shop/orders")
    assert (set(found), found["hasOutput"]) == ({"job", "pods", "events", "hasOutput"}, False)
    assert "managedFields" not in found["job"]["metadata"]
    assert ask(console(), "/api/jobs/shop/orders/lag")[1] == [{"topic": "in", "partition": "0", "lag": 5.0}]


def test_the_output_is_there_where_the_brokers_are_named() -> None:
    assert ask(console(), "/api/jobs/shop/orders/output")[0] == 404
    seen = console(tail=lambda topic, count: [{"topic": topic, "count": count}])
    assert ask(seen, "/api/jobs/shop/orders/output")[1] == [{"topic": "out", "count": 50}]


@pytest.mark.parametrize("target", ["/api/jobs/../../etc", "/page/console.js", "/%2e%2e/ui.py", "/api/secrets", "//x"])
def test_other_paths_are_not_there(target: str) -> None:
    assert ask(console(EVERYWHERE), target)[0] == 404


@pytest.fixture
def server() -> Iterator[ConsoleServer]:
    made = ConsoleServer(("127.0.0.1", 0), console(EVERYWHERE), hosts=frozenset({"127.0.0.1", "localhost"}))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    ("method", "host", "expected"),
    [("GET", "127.0.0.1", 200), ("GET", "localhost", 200), ("GET", "evil.example", 421), ("POST", "localhost", 501)],
)
def test_the_server_answers_reads_under_its_own_name_only(
    server: ConsoleServer, method: str, host: str, expected: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, "/api/jobs", headers={"Host": f"{host}:{server.server_port}"})
    response = connection.getresponse()
    assert response.status == expected
    if expected == 200:
        assert {name: response.headers[name] for name in HEADERS} == dict(HEADERS)
    connection.close()


def test_the_page_loads_nothing_of_others() -> None:
    for path, kind in (("/", "text/html"), ("/console.js", "text/javascript"), ("/console.css", "text/css")):
        answer = console().answer(path)
        assert answer.content_type.startswith(kind)
        assert b"http://" not in answer.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"innerHTML" not in answer.body
