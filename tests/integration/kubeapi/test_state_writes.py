"""Writes of the document that do not go through: a conflict, a lost answer, refusals, and an API server that is away.

What a healthy API server does not do when asked, a proxy before it does. The rows are those of docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from kafkasparkjob_operator.resources.access import role, role_binding
from sparkapp.checkpoint.config_map import ConfigMapStore
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.model.checkpoint_codec import encode
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CheckpointTooLarge,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.sink.transaction_client import TransactionClient
from tests.support import visibility
from tests.support.api_client import ApiClient, ApiError, await_that
from tests.support.api_proxy import ApiProxy, Refuse, Spoil, serving
from tests.support.operator_process import Place
from tests.support.protocol_story import Story
from tests.support.state_site import NAME, NOW, StateSite, document, job

TEXT = "a text that is written"


@pytest.fixture
def site(api: ApiClient, core: Any, place: Place) -> StateSite:
    return StateSite(api, core, place.namespace)


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


def refusal(site: StateSite, kind: type[CheckpointError], words: str, core: Any = None) -> CheckpointError:
    """A write fails like that, and changes nothing."""
    before = site.body()
    with pytest.raises(kind, match=words) as caught:
        site.store(core).write(TEXT, expected=before["metadata"]["resourceVersion"])
    assert type(caught.value) is kind
    assert site.body() == before
    return caught.value


def test_write_conflict(site: StateSite) -> None:
    """Another writer in between: whoever comes later has been superseded, and the other's text stays."""
    store = site.store()
    found = store.read()
    site.write("of a newer attempt")
    with pytest.raises(CheckpointConflict, match="orders-state was changed by somebody else") as caught:
        store.write(TEXT, expected=found.version)
    assert (caught.value.reason, caught.value.fatal) == ("Superseded", False)
    assert store.read().text == "of a newer attempt"


def test_C10_a_change_beside_the_document_is_no_conflict(site: StateSite) -> None:
    """A label, an annotation, another key: the precondition is the whole ConfigMap's, and the document is as it was."""
    store = site.store()
    version = store.read().version
    site.patch(metadata={"labels": {"team": "shop"}})
    version = store.write(TEXT, expected=version)
    site.patch(metadata={"annotations": {"note": "x"}}, data={"other": "y"})
    store.write("the next one", expected=version)
    assert store.read().text == "the next one"
    body = site.body()
    assert (body["metadata"]["labels"]["team"], body["metadata"]["annotations"]["note"]) == ("shop", "x")
    assert body["data"]["other"] == "y"


def test_C10_a_label_does_not_hide_another_writer(site: StateSite) -> None:
    store = site.store()
    found = store.read()
    site.write("of a newer attempt")
    site.patch(metadata={"labels": {"team": "shop"}})
    assert store.read().text == "of a newer attempt", "looked at from another thread, under its own version"
    with pytest.raises(CheckpointConflict):
        store.write(TEXT, expected=found.version)
    assert store.read().text == "of a newer attempt"


def test_write_answer_lost(site: StateSite, proxy: ApiProxy, behind: Any) -> None:
    """The write took effect and is not reported as failed; its version is good for the next one."""
    store = site.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE)
    version = store.write(TEXT, expected=found.version)
    assert proxy.seen[1:] == [("PATCH", 0), ("PATCH", 409), ("GET", 200)]
    assert store.read().text == TEXT
    store.write("the next one", expected=version)


def test_an_answer_that_was_lost_to_another_writer_is_a_conflict(
    site: StateSite, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours took effect, and was claimed by a newer attempt before we could ask: it decides what becomes of it."""
    store = site.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE)
    monkeypatch.setattr("sparkapp.checkpoint.config_map.time.sleep", lambda _: site.write("claimed"))
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
def test_write_answer_lost_then_refused(site: StateSite, proxy: ApiProxy, behind: Any, status: int) -> None:
    """Rights that are taken away, or a limit that is set, right after the write: the document is there, and counts."""
    store = site.store(behind)
    found = store.read()
    proxy.spoil("PATCH", Spoil.LOSE, REFUSALS[status][0])
    version = store.write(TEXT, expected=found.version)
    assert proxy.seen[1:] == [("PATCH", 0), ("PATCH", status), ("GET", 200)]
    assert store.read().text == TEXT
    store.write("the next one", expected=version)


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_after_a_try_that_did_not_arrive_is_one(
    site: StateSite, proxy: ApiProxy, behind: Any, status: int
) -> None:
    store = site.store(behind)
    found = store.read()
    refuse, kind = REFUSALS[status]
    proxy.spoil("PATCH", Spoil.DROP, refuse)
    with pytest.raises(kind):
        store.write(TEXT, expected=found.version)
    assert store.read() == found, "it was asked for"


@pytest.mark.parametrize("refused", [Refuse(403, "forbidden"), Refuse(422, "immutable")])
def test_a_refusal_after_a_lost_answer_that_nobody_may_look_at_leaves_it_to_the_next_attempt(
    site: StateSite, proxy: ApiProxy, behind: Any, refused: Refuse
) -> None:
    store = site.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE, refused)
    proxy.spoil("GET", Refuse(403, "forbidden, too"))
    with pytest.raises(CheckpointStoreUnavailable, match=f"answered {refused.status}.* may have taken effect"):
        store.write(TEXT, expected=version)
    assert store.read().text == TEXT


def test_a_refusal_after_a_lost_answer_and_another_writer_is_a_conflict(
    site: StateSite, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE, Refuse(403, "forbidden"))
    monkeypatch.setattr("sparkapp.checkpoint.config_map.time.sleep", lambda _: site.write("claimed"))
    with pytest.raises(CheckpointConflict):
        store.write(TEXT, expected=version)


def test_a_document_that_is_deleted_after_a_lost_answer_is_gone(
    site: StateSite, proxy: ApiProxy, behind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = site.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", Spoil.LOSE)
    monkeypatch.setattr("sparkapp.checkpoint.config_map.time.sleep", lambda _: site.delete())
    with pytest.raises(CheckpointMissing):
        store.write(TEXT, expected=version)


def test_write_busy(site: StateSite, proxy: ApiProxy, behind: Any) -> None:
    """An API server that restarts, sheds load or has no leader costs time and nothing else."""
    store = site.store(behind)
    proxy.spoil("GET", Refuse(503))
    version = store.read().version
    proxy.spoil("PATCH", Refuse(429), Refuse(500), Spoil.DROP, Refuse(503))
    store.write(TEXT, expected=version)
    assert [status for method, status in proxy.seen if method == "PATCH"] == [429, 500, 0, 503, 200]
    assert store.read().text == TEXT


@pytest.mark.parametrize("spoil", [Spoil.DROP, Spoil.LOSE])
def test_write_away(site: StateSite, proxy: ApiProxy, behind: Any, spoil: Spoil) -> None:
    """For longer than the deadline: whether it took effect is not known here; the next attempt reads what is there."""
    store = site.store(behind)
    version = store.read().version
    proxy.spoil("PATCH", spoil)
    proxy.away = spoil is Spoil.DROP
    proxy.spoil("PATCH", *[Spoil.DROP] * 10)
    with pytest.raises(CheckpointStoreUnavailable, match="no answer from the API server within 1 s") as caught:
        site.store(behind, deadline=1).write(TEXT, expected=version)
    assert (caught.value.reason, caught.value.fatal) == ("CheckpointStoreUnavailable", False)
    assert "the job restarts by itself" in caught.value.remedy
    proxy.away = False
    assert store.read().text == (TEXT if spoil is Spoil.LOSE else site.text)


def test_write_deleted_meanwhile(site: StateSite) -> None:
    """While an attempt runs: it stops, and does not make the ConfigMap again."""
    found = site.store().read()
    site.delete()
    with pytest.raises(CheckpointMissing, match="ConfigMap orders-state is gone") as caught:
        site.store().write(TEXT, expected=found.version)
    assert "checkpoint list" in caught.value.remedy
    assert site.body() == {}


def test_write_denied(site: StateSite, kubeconfig: Path) -> None:
    """By RBAC, which somebody took away."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{site.namespace}"
    for plural, manifest in (("roles", role(site.identity)), ("rolebindings", role_binding(site.identity))):
        del manifest["metadata"]["ownerReferences"]
        site.api.call("POST", f"{rbac}/{plural}", manifest)
    core = driver(kubeconfig, site.namespace)

    def attempt() -> CheckpointError | None:
        try:
            site.store(core).write(TEXT, expected=site.body()["metadata"]["resourceVersion"])
        except CheckpointError as error:
            return error
        return None

    await_that("the driver may write", lambda: attempt() is None)
    site.api.call("DELETE", f"{rbac}/rolebindings/{NAME}-driver")
    await_that("the driver may not write", attempt)
    error = refusal(site, CheckpointRefused, 'answered 403: .*cannot patch resource "configmaps"', core)
    assert (error.reason, error.fatal) == ("CheckpointRefused", False)
    account = f"system:serviceaccount:{site.namespace}:orders-driver"
    assert f"kubectl auth can-i patch configmap/orders-state -n {site.namespace} --as {account}" in error.remedy
    with pytest.raises(CheckpointRefused, match="cannot get resource"):
        site.store(core).read()


def test_write_quota(site: StateSite, proxy: ApiProxy, behind: Any) -> None:
    """A real quota counts ConfigMaps and lets a full namespace's be updated; a policy's refusal keeps its words."""
    quotas = f"/api/v1/namespaces/{site.namespace}/resourcequotas"
    full = {"hard": {"configmaps": "2"}, "used": {"configmaps": "2"}}
    site.api.call("POST", quotas, {"metadata": {"name": "few"}, "spec": {"hard": full["hard"]}})
    # Nobody counts here but this test.
    site.api.merge(f"{quotas}/few/status", {"status": full})

    def refused() -> bool:
        try:
            site.api.call("POST", site.maps, {"metadata": {"generateName": "more-"}})
        except ApiError as error:
            return "exceeded quota" in error.message
        return False

    await_that("the quota is in force", refused)
    store = site.store(behind)
    store.write(TEXT, expected=store.read().version)
    assert store.read().text == TEXT
    proxy.spoil("PATCH", Refuse(403, 'configmaps "orders-state" is forbidden: exceeded quota: bytes'))
    error = refusal(site, CheckpointRefused, "answered 403: .*exceeded quota: bytes", behind)
    assert "a policy or quota refuses it" in error.remedy


def test_write_immutable(site: StateSite) -> None:
    site.patch(immutable=True)
    error = refusal(site, CheckpointRefused, "answered 422: .*immutable")
    assert "`immutable: true`" in error.remedy


def test_write_crowded(site: StateSite) -> None:
    """Somebody put something big beside the document, which itself is within its limits."""
    site.patch(data={"notes": "x" * 900_000})
    before = site.body()
    with pytest.raises(CheckpointTooLarge, match=r"answered 422: .*Too long") as caught:
        site.store().write("x" * 200_000, expected=before["metadata"]["resourceVersion"])
    assert "take out of ConfigMap orders-state what is not the job's" in caught.value.remedy
    assert site.body() == before


def test_write_too_large(site: StateSite, proxy: ApiProxy, behind: Any) -> None:
    """A document that no ConfigMap could hold is refused before it is sent."""
    store = site.store(behind)
    found = store.read()
    coordinator = CheckpointCoordinator(
        job(site.uid, attempt=4), store=store, document=document(site.uid), version=found.version,
        pre_commits=None, committer=None, group_offsets=None, now=lambda: NOW,  # type: ignore[arg-type]
    )  # fmt: skip
    splits = tuple(KafkaPartitionSplit(TopicPartition("t" * 200, number), 0, 1 << 40) for number in range(40_000))
    before = site.body()
    with pytest.raises(CheckpointTooLarge, match=r"needs \d+ bytes, the limit is 786432") as caught:
        coordinator.begin(splits)
    assert "fewer partitions per job" in caught.value.remedy
    assert caught.value.fatal
    assert [method for method, _ in proxy.seen] == ["GET"]
    assert site.body() == before


# -- a whole job, on a real broker, whose state is behind the proxy ----------------------------------------------------


@pytest.fixture
def store(site: StateSite, behind: Any) -> ConfigMapStore:
    """Not claimed yet."""
    site.write(None)
    return site.store(behind)


@pytest.fixture
def story(
    broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str], store: ConfigMapStore
) -> Iterator[Story]:
    """In the middle of its life."""
    made = Story(
        broker, make_topic(3, "in"), make_topic(2, "out"), unique, client, per_checkpoint=20, store=store
    )  # fmt: skip
    made.produce(90)
    made.start(2)
    made.checkpoint()
    yield made
    made.close()


def test_a_job_goes_on_through_every_answer_that_is_lost(story: Story, proxy: ApiProxy) -> None:
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
def test_a_job_whose_answer_was_lost_and_whose_rights_are_gone_aborts_nothing_that_is_final(
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
    story: Story, proxy: ApiProxy, site: StateSite
) -> None:
    claimed = encode(replace(story.document, attempt=2, committables=()))
    proxy.spoil("PATCH", Refuse(503), then=lambda: site.write(claimed))
    story.checkpoint()
    assert isinstance(story.failure, CheckpointConflict)
    assert len(visibility.open_transactions(story.client, story.prefix)) == 2, "neither committed nor aborted"
    story.start(2)
    assert isinstance(story.failure, CheckpointConflict), "the number of the attempt is taken"
    story.finish()
