"""Steps of a job on its way to another revision, for tests of the operator."""

from __future__ import annotations

from typing import Any

from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, KEY, OperatorFixture

AUTO = {"rollback": "Auto"}
ABORT = {"drainTimeoutSeconds": 30, "drainFallback": "Abort"}
NEW = {"image": "kafkaspark/sparkapp:2"}
CODE = {"python": {"function": "a:b", "configMapRef": {"name": "code"}}}


def put_code(operator: OperatorFixture, text: str, name: str = "code") -> None:
    operator.kubernetes.objects["ConfigMap", KEY.namespace, name] = {
        "kind": "ConfigMap", "metadata": {"name": name, "namespace": KEY.namespace, "resourceVersion": text},
        "data": {"a.py": text},
    }  # fmt: skip


async def stable(**spec: Any) -> OperatorFixture:
    """A job whose first revision has become stable."""
    operator = OperatorFixture(**{"upgrade": AUTO, **spec})
    await operator.run()
    assert "stable" not in operator.status
    operator.wait(61)
    await operator.settle()
    assert operator.status["stable"]["revision"] == operator.status["attempt"]["revision"]
    return operator


async def upgraded(operator: OperatorFixture, **edit: Any) -> None:
    """The resource changes, and the driver of the second attempt is created."""
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]


async def next_attempt(operator: OperatorFixture, seconds: float = 0) -> None:
    operator.wait(seconds)
    await operator.settle()


def runs_old_image(operator: OperatorFixture, attempt: int) -> bool:
    pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return bool(pod["spec"]["containers"][0]["image"] == "kafkaspark/sparkapp:1")


async def gone_back(operator: OperatorFixture) -> None:
    """The second attempt fails, and the third runs the revision of before."""
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    assert runs_old_image(operator, 3)
    assert "backTo" in operator.refusal


async def times_out(operator: OperatorFixture, **edit: Any) -> None:
    """The resource changes, and the first attempt does not drain in time."""
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.driver_ends(1, code=137)
    await operator.settle()
    await operator.run(2)
    assert operator.drivers == ["orders-2-driver"]
