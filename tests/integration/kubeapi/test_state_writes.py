"""Writes of the document that do not go through: a conflict, a lost answer, refusals, and an API server that is away.

What a healthy API server does not do when asked, a proxy before it does. The rows are those of docs/state.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator.resources.access import role, role_binding
from kafkasparkjob_operator.resources.references import References
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapStore
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CheckpointTooLarge,
)
from sparkapp.model.partition import TopicPartition
from tests.support.kafka import visibility
from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that
from tests.support.kubernetes.api_proxy import ApiProxy, Refuse, Spoil, serving
from tests.support.kubernetes.state_fixture import NAME, NOW, StateFixture, document, job
from tests.support.protocol.story import Story

TEXT = "a text that is written"


@pytest.fixture
def state_fixture(api: ApiClient, core: Any, namespace: str) -> StateFixture:
    return StateFixture(api, core, namespace)


@pytest.fixture
def proxy(kubeconfig: Path) -> ApiProxy:
    return ApiProxy(kubeconfig)


@pytest.fixture
def behind(proxy: ApiProxy) -> Iterator[Any]:
    """The application's client of the proxy."""
    with serving(proxy) as client:
        yield client


def driver(kubeconfig: Path, namespace: str) -> Any:
    """The application's client with the identity of the job's driver."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
    client = kubernetes.client.ApiClient(configuration)
    client.set_default_header("Impersonate-User", f"system:serviceaccount:{namespace}:{NAME}-driver")
    return kubernetes.client.CoreV1Api(client)


def refusal(state_fixture: StateFixture, kind: type[CheckpointError], words: str, core: Any = None) -> CheckpointError:
    """A write fails like that, and changes nothing."""
    before = state_fixture.body()
    with pytest.raises(kind, match=words) as caught:
        state_fixture.store(core).write(TEXT, expected=before["metadata"]["resourceVersion"])
    assert type(caught.value) is kind
    assert state_fixture.body() == before
    return caught.value


def test_write_conflict(state_fixture: StateFixture) -> None:
    """Another writer in between: the later writer has been superseded, and the other's text stays."""
    store = state_fixture.store()
    found = store.read()
    state_fixture.write("of a newer attempt")
    with pytest.raises(CheckpointConflict, match="orders-state was changed by another writer") as caught:
        store.write(TEXT, expected=found.version)
    assert (caught.value.reason, caught.value.fatal) == ("Superseded", False)
    assert store.read().text == "of a newer attempt"


def test_C10_a_change_next_to_the_document_is_no_conflict(state_fixture: StateFixture) -> None:
    """A label, an annotation, another key: the precondition is the whole ConfigMap's, and the document is as it was."""
    store = state_fixture.store()
    version = store.read().version
    state_fixture.patch(metadata={"labels": {"team": "shop"}})
    version = store.write(TEXT, expected=version)
    state_fixture.patch(metadata={"annotations": {"note": "x"}}, data={"other": "y"})
    store.write("the next one", expected=version)
    assert store.read().text == "the next one"
    body = state_fixture.body()
    assert (body["metadata"]["labels"]["team"], body["metadata"]["annotations"]["note"]) == ("shop", "x")
    assert body["data"]["other"] == "y"


def test_C10_a_label_does_not_hide_another_writer(state_fixture: StateFixture) -> None:
    store = state_fixture.store()
    found = store.read()
    state_fixture.write("of a newer attempt")
    state_fixture.patch(metadata={"labels": {"team": "shop"}})
    assert store.read().text == "of a newer attempt", "looked at from another thread, under its own version"
    with pytest.raises(CheckpointConflict):
        store.write(TEXT, expected=found.version)
    assert store.read().text == "of a newer attempt"


def test_write_answer_lost(state_fixture: StateFixture, proxy: ApiProxy, behind: Any) -> None:
    """The write took effect and is not reported as failed; its version is good for the next one."""
    store = state_fixture.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE)
    version = store.write(TEXT, expected=found.version)
    assert proxy.seen[1:] == [("PATCH", 0), ("PATCH", 409), ("GET", 200)]
    assert store.read().text == TEXT
    store.write("the next one", expected=version)


def test_an_answer_that_was_lost_to_another_writer_is_a_conflict(
    state_fixture: StateFixture, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours took effect, and was claimed by a newer attempt before we could ask: it decides what becomes of it."""
    store = state_fixture.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE)
    monkeypatch.setattr("sparkapp.checkpoint.kubernetes.requests.time.sleep", lambda _: state_fixture.write("claimed"))
    with pytest.raises(CheckpointConflict):
        store.write(TEXT, expected=found.version)
    assert store.read().text == "claimed"


REFUSALS = {
    403: (Refuse(403, "forbidden"), CheckpointRefused),
    422: (Refuse(422, "field is immutable"), CheckpointRefused),
    413: (Refuse(413, "too large"), CheckpointTooLarge),
    404: (Refuse(404, "not found"), CheckpointMissing),
}


@pytest.mark.parametrize("status", REFUSALS)
def test_write_answer_lost_then_refused(state_fixture: StateFixture, proxy: ApiProxy, behind: Any, status: int) -> None:
    """Rights that are taken away, or a limit that is set, right after the write: the document is there, and counts."""
    store = state_fixture.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE, REFUSALS[status][0])
    version = store.write(TEXT, expected=found.version)
    assert proxy.seen[1:] == [("PATCH", 0), ("PATCH", status), ("GET", 200)]
    assert store.read().text == TEXT
    store.write("the next one", expected=version)


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_after_a_try_that_did_not_arrive_is_one(
    state_fixture: StateFixture, proxy: ApiProxy, behind: Any, status: int
) -> None:
    store = state_fixture.store(behind)
    found = store.read()
    refuse, kind = REFUSALS[status]
    proxy.spoil("PATCH", Spoil.DROP, refuse)
    with pytest.raises(kind):
        store.write(TEXT, expected=found.version)
    assert store.read() == found, "it was asked for"


@pytest.mark.parametrize("refused", [Refuse(403, "forbidden"), Refuse(422, "immutable")])
def test_a_refusal_after_a_lost_answer_leaves_it_to_the_next_attempt(
    state_fixture: StateFixture, proxy: ApiProxy, behind: Any, refused: Refuse
) -> None:
    store = state_fixture.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE, refused)
    proxy.spoil("GET", Refuse(403, "forbidden, too"))
    with pytest.raises(CheckpointStoreUnavailable, match=f"answered {refused.status}.* may have taken effect"):
        store.write(TEXT, expected=version)
    assert store.read().text == TEXT


def test_a_refusal_after_a_lost_answer_and_another_writer_is_a_conflict(
    state_fixture: StateFixture, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = state_fixture.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE, Refuse(403, "forbidden"))
    monkeypatch.setattr("sparkapp.checkpoint.kubernetes.requests.time.sleep", lambda _: state_fixture.write("claimed"))
    with pytest.raises(CheckpointConflict):
        store.write(TEXT, expected=version)


def test_a_document_that_is_deleted_after_a_lost_answer_is_gone(
    state_fixture: StateFixture, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = state_fixture.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE)
    monkeypatch.setattr("sparkapp.checkpoint.kubernetes.requests.time.sleep", lambda _: state_fixture.delete())
    with pytest.raises(CheckpointMissing):
        store.write(TEXT, expected=version)


def test_write_busy(state_fixture: StateFixture, proxy: ApiProxy, behind: Any) -> None:
    """An API server that restarts, sheds load or has no leader costs time and nothing else."""
    store = state_fixture.store(behind)
    proxy.spoil("GET", Refuse(503))
    version = store.read().version
    proxy.spoil("PATCH", Refuse(429), Refuse(500), Spoil.DROP, Refuse(503))
    store.write(TEXT, expected=version)
    assert [status for method, status in proxy.seen if method == "PATCH"] == [429, 500, 0, 503, 200]
    assert store.read().text == TEXT


@pytest.mark.parametrize("spoil", [Spoil.DROP, Spoil.LOSE])
def test_write_away(state_fixture: StateFixture, proxy: ApiProxy, behind: Any, spoil: Spoil) -> None:
    """For longer than the deadline: whether it took effect is not known here; the next attempt reads what is there."""
    store = state_fixture.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", spoil)
    proxy.away = spoil is Spoil.DROP
    proxy.spoil("PATCH", *[Spoil.DROP] * 10)
    with pytest.raises(CheckpointStoreUnavailable, match="no answer from the API server within 1 s") as caught:
        state_fixture.store(behind, deadline=1).write(TEXT, expected=version)
    assert (caught.value.reason, caught.value.fatal) == ("CheckpointStoreUnavailable", False)
    assert "the job restarts by itself" in caught.value.remedy
    proxy.away = False
    assert store.read().text == (TEXT if spoil is Spoil.LOSE else state_fixture.text)


def test_write_deleted_meanwhile(state_fixture: StateFixture) -> None:
    """While an attempt runs: it stops, and does not make the ConfigMap again."""
    found = state_fixture.store().read()
    state_fixture.delete()
    with pytest.raises(CheckpointMissing, match="ConfigMap orders-state does not exist") as caught:
        state_fixture.store().write(TEXT, expected=found.version)
    assert "checkpoint list" in caught.value.remedy
    assert state_fixture.body() == {}


def test_write_denied(state_fixture: StateFixture, kubeconfig: Path) -> None:
    """By RBAC, which somebody took away."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{state_fixture.namespace}"
    for plural, manifest in (
        ("roles", role(state_fixture.identity, References())),
        ("rolebindings", role_binding(state_fixture.identity)),
    ):
        del manifest["metadata"]["ownerReferences"]
        state_fixture.api.call("POST", f"{rbac}/{plural}", manifest)
    core = driver(kubeconfig, state_fixture.namespace)

    def attempt() -> CheckpointError | None:
        try:
            state_fixture.store(core).write(TEXT, expected=state_fixture.body()["metadata"]["resourceVersion"])
        except CheckpointError as error:
            return error
        return None

    await_that("the driver may write", lambda: attempt() is None)
    state_fixture.api.call("DELETE", f"{rbac}/rolebindings/{NAME}-driver")
    await_that("the driver may not write", attempt)
    error = refusal(state_fixture, CheckpointRefused, 'answered 403: .*cannot patch resource "configmaps"', core)
    assert (error.reason, error.fatal) == ("CheckpointRefused", False)
    account = f"system:serviceaccount:{state_fixture.namespace}:orders-driver"
    assert (
        f"kubectl auth can-i patch configmap/orders-state -n {state_fixture.namespace} --as {account}" in error.remedy
    )
    with pytest.raises(CheckpointRefused, match="cannot get resource"):
        state_fixture.store(core).read()


def test_write_quota(state_fixture: StateFixture, proxy: ApiProxy, behind: Any) -> None:
    """A real quota counts ConfigMaps and lets a full namespace's be updated; a policy's refusal keeps its words."""
    quotas = f"/api/v1/namespaces/{state_fixture.namespace}/resourcequotas"
    full = {"hard": {"configmaps": "2"}, "used": {"configmaps": "2"}}
    state_fixture.api.call("POST", quotas, {"metadata": {"name": "few"}, "spec": {"hard": full["hard"]}})
    # Nobody counts here but this test.
    state_fixture.api.merge(f"{quotas}/few/status", {"status": full})

    def refused() -> bool:
        try:
            state_fixture.api.call("POST", state_fixture.maps, {"metadata": {"generateName": "more-"}})
        except ApiError as error:
            return "exceeded quota" in error.message
        return False

    await_that("the quota is in force", refused)
    store = state_fixture.store(behind)
    store.write(TEXT, expected=store.read().version)
    assert store.read().text == TEXT
    proxy.spoil("PATCH", Refuse(403, 'configmaps "orders-state" is forbidden: exceeded quota: bytes'))
    error = refusal(state_fixture, CheckpointRefused, "answered 403: .*exceeded quota: bytes", behind)
    assert "a policy or quota refuses" in error.remedy


def test_write_immutable(state_fixture: StateFixture) -> None:
    state_fixture.patch(immutable=True)
    error = refusal(state_fixture, CheckpointRefused, "answered 422: .*immutable")
    assert "`immutable: true`" in error.remedy


def test_write_crowded(state_fixture: StateFixture) -> None:
    """A person put a large entry next to the document, which itself is within its limits."""
    state_fixture.patch(data={"notes": "x" * 900_000})
    before = state_fixture.body()
    with pytest.raises(CheckpointTooLarge, match=r"answered 422: .*Too long") as caught:
        state_fixture.store().write("x" * 200_000, expected=before["metadata"]["resourceVersion"])
    assert "remove foreign keys from ConfigMap orders-state" in caught.value.remedy
    assert state_fixture.body() == before


def test_write_too_large(state_fixture: StateFixture, proxy: ApiProxy, behind: Any) -> None:
    """A document that no ConfigMap could hold is refused before it is sent."""
    store = state_fixture.store(behind)
    found = store.read()
    coordinator = CheckpointCoordinator(
        job(state_fixture.uid, attempt=4), commits=None, group_offsets=None, now=lambda: NOW,  # type: ignore[arg-type]
        writer=DocumentWriter(store, document(state_fixture.uid), found.version),
    )  # fmt: skip
    splits = tuple(KafkaPartitionSplit(TopicPartition("t" * 200, number), 0, 1 << 40) for number in range(40_000))
    before = state_fixture.body()
    with pytest.raises(CheckpointTooLarge, match=r"needs \d+ bytes, the limit is 786432") as caught:
        coordinator.begin(splits)
    assert "fewer partitions per job" in caught.value.remedy
    assert caught.value.fatal
    assert [method for method, _ in proxy.seen] == ["GET"]
    assert state_fixture.body() == before


# -- a whole job, on a real broker, whose state is behind the proxy ----------------------------------------------------


@pytest.fixture
def store(state_fixture: StateFixture, behind: Any) -> ConfigMapStore:
    """Not claimed yet."""
    state_fixture.write(None)
    return state_fixture.store(behind)


@pytest.fixture
def story(
    broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str], store: ConfigMapStore
) -> Iterator[Story]:
    """While it runs."""
    made = Story(
        broker, make_topic(3, "in"), make_topic(2, "out"), unique, client, per_checkpoint=20, store=store
    )  # fmt: skip
    made.produce(90)
    made.start(2)
    made.checkpoint()
    yield made
    made.close()


def test_a_job_continues_through_every_answer_that_is_lost(story: Story, proxy: ApiProxy) -> None:
    for _ in range(2):
        proxy.spoil("PATCH", Spoil.LOSE)
        story.checkpoint()
        assert story.failure is None
    proxy.spoil("PATCH", Spoil.LOSE)
    story.start(3)
    assert story.failure is None
    story.finish(3)
    assert [status for method, status in proxy.seen if method == "PATCH"].count(0) == 3


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_job_whose_write_was_not_answered_settles_it_in_the_next_attempt(
    story: Story, store: ConfigMapStore, proxy: ApiProxy, took_effect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server is away for longer than the deadline: nothing is committed by the attempt that does not know."""
    before = story.document
    proxy.spoil("PATCH", Spoil.LOSE if took_effect else Spoil.DROP, *[Spoil.DROP] * 20)
    with monkeypatch.context() as shorter:
        shorter.setattr(store, "_deadline", 1)
        story.checkpoint()
    assert isinstance(story.failure, CheckpointStoreUnavailable)
    assert story.document.checkpoint_id == before.checkpoint_id + took_effect
    pending = story.document.committables
    assert len(visibility.open_transactions(story.client, story.prefix)) == 2, "neither committed nor aborted"
    proxy.forget()
    story.start(2)
    assert story.recovery is not None
    if took_effect:
        assert story.recovery.committed == len(pending) == 2
        assert story.recovery.aborted == 0
    else:
        assert story.recovery.aborted == 2
        assert story.document.offsets == before.offsets
    story.finish()


@pytest.mark.parametrize("may_look", [True, False])
def test_a_job_without_an_answer_and_without_rights_aborts_nothing_final(
    story: Story, proxy: ApiProxy, may_look: bool
) -> None:
    before = story.document.checkpoint_id
    no_look = (lambda: None) if may_look else lambda: proxy.spoil("GET", Refuse(403, "forbidden"))
    proxy.spoil("PATCH", Spoil.LOSE, Refuse(403, "forbidden"), then=no_look)
    story.checkpoint()
    if may_look:
        assert story.failure is None
    else:
        assert isinstance(story.failure, CheckpointStoreUnavailable), "an error that leaves transactions as they are"
    assert story.document.checkpoint_id == before + 1
    story.finish()


def test_a_job_that_was_superseded_while_it_had_no_answer_commits_nothing(
    story: Story, proxy: ApiProxy, state_fixture: StateFixture
) -> None:
    claimed = encode(replace(story.document, attempt=2, committables=()))
    proxy.spoil("PATCH", Refuse(503), then=lambda: state_fixture.write(claimed))
    story.checkpoint()
    assert isinstance(story.failure, CheckpointConflict)
    assert len(visibility.open_transactions(story.client, story.prefix)) == 2, "neither committed nor aborted"
    story.start(2)
    assert isinstance(story.failure, CheckpointConflict), "the number of the attempt is taken"
    story.finish()
