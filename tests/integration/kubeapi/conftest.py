"""A real API server for these tests, and an operator that runs outside of it as a process."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.kubernetes.pki import Authority, write_kubeconfig
from tests.support.kubernetes.admission_policies import AdmissionPolicies
from tests.support.kubernetes.api_client import REPOSITORY, ApiClient
from tests.support.kubernetes.api_server import api_server, programs
from tests.support.kubernetes.chart_images import IMAGES
from tests.support.kubernetes.operator_process import OperatorProcess, Place, Running


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig of an API server that ends with the tests."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with api_server(folder, programs(folder / "bin")) as made:
        yield made


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> ApiClient:
    """The API server, with the resource's definition installed."""
    client = ApiClient(kubeconfig)
    client.install_definition()
    return client


@pytest.fixture
def core(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The application's client, as a command finds it: with a person's kubeconfig."""
    from sparkapp.checkpoint.kubernetes.config_map import core_api

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
    return core_api()


@pytest.fixture(scope="session")
def chart(kubeconfig: Path) -> Callable[..., list[dict[str, Any]]]:
    """``chart("key=value", …)`` renders the chart as release "kafkaspark-operator" in namespace "kafkaspark-system".

    It has the images of :data:`tests.support.kubernetes.chart_images.IMAGES`, which have no default.
    """
    helm = kubeconfig.parent / "bin" / "helm"

    def render(*values: str) -> list[dict[str, Any]]:
        command = [helm, "template", "kafkaspark-operator", REPOSITORY / "charts/kafkaspark-operator"]
        command += ["--namespace", "kafkaspark-system"]
        command += [part for value in (*IMAGES, *values) for part in ("--set", value)]
        text = subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True).stdout
        return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]

    return render


@pytest.fixture(scope="session")
def policies(api: ApiClient, chart: Callable[..., list[dict[str, Any]]]) -> AdmissionPolicies:
    """The chart's admission policies, in force."""
    installed = AdmissionPolicies(api, chart())
    installed.enforce()
    return installed


@pytest.fixture(scope="session")
def make_namespace(
    api: ApiClient, chart: Callable[..., list[dict[str, Any]]], policies: AdmissionPolicies
) -> Callable[[str, str], None]:
    """``make_namespace(name, account)``: Kubernetes admits nothing but restricted pods there; the chart's rights."""
    # The chart gives the same rights in each namespace.
    manifests = chart("watchNamespaces={jobs}", "rbac.aggregateClusterRoles=false")
    rights = [each for each in manifests if each["kind"] in {"Role", "RoleBinding"}]

    def make(name: str, account: str) -> None:
        _create_namespace(api, name)
        subject = {"kind": "User", "name": account, "apiGroup": "rbac.authorization.k8s.io"}
        for manifest in rights:
            # The lease is in the jobs' namespace here; the chart puts it in the operator's.
            meta = {"name": manifest["metadata"]["name"], "namespace": name}
            body = {**manifest, "metadata": meta} | ({"subjects": [subject]} if "subjects" in manifest else {})
            plural = f"{manifest['kind'].lower()}s"
            api.apply(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/{plural}/{meta['name']}", body)
        policies.confine_operator(name, account)

    return make


def _create_namespace(api: ApiClient, name: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


@pytest.fixture
def namespace(api: ApiClient, policies: AdmissionPolicies) -> str:
    """A namespace of this test's own, without an operator; the admission policies for drivers are in force."""
    name = _new_name()
    _create_namespace(api, name)
    return name


def _new_name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def make_place(make_namespace: Callable[[str, str], None], kubeconfig: Path) -> Callable[[], Place]:
    """Makes a namespace, and an operator's identity for it."""

    def make() -> Place:
        name = _new_name()
        account = f"system:serviceaccount:{name}:operator"
        make_namespace(name, account)
        folder = kubeconfig.parent
        authority = Authority(folder / "pki", folder / "openssl.log")
        certificate = authority.issue(f"operator-{name}", f"/O=system:authenticated/CN={account}")
        path = folder / f"operator-{name}.kubeconfig"
        server = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        write_kubeconfig(path, server, authority.pair, certificate)
        return Place(namespace=name, kubeconfig=path)

    return make


@pytest.fixture(scope="session")
def running(make_place: Callable[[], Place], kubeconfig: Path) -> Iterator[Running]:
    """One operator for all tests that do not stop it."""
    place = make_place()
    with operators(place, kubeconfig.parent) as start:
        operator = start()
        operator.await_leading()
        yield Running(place, operator)


@pytest.fixture
def place(make_place: Callable[[], Place]) -> Place:
    """A namespace of this test's own, for tests that start and stop operators."""
    return make_place()


@pytest.fixture
def start_operator(place: Place, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """``start_operator(**settings)`` runs one more operator for this test's namespace; all end with the test."""
    with operators(place, tmp_path) as start:
        yield start


@contextlib.contextmanager
def operators(place: Place, folder: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts operators and ends them; none of them may have met anything that it did not expect."""
    started: list[OperatorProcess] = []

    def start(**settings: str) -> OperatorProcess:
        log = folder / f"operator-{len(started)}.log"
        given = {"lease_name": "kafkaspark-operator", **settings}
        started.append(OperatorProcess(place.kubeconfig, place.namespace, log, given))
        return started[-1]

    yield start
    for each in started:
        each.stop()
        print(each.log[-8000:])  # shown where the test has failed
    for each in started:
        assert "Traceback" not in each.log, each.log
