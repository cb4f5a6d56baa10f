"""kubectl with types, always against the cluster of its environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from clusterjob.environment import ClusterEnvironment
from localcluster.errors import SetupError

Object = dict[str, Any]
"""A Kubernetes object as JSON."""

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Labels of a namespace that admits restricted pods only."""
JOBS_NAMESPACE = {"kafkaspark.io/jobs": "enabled", **RESTRICTED}
"""Labels of a namespace for jobs."""
_REQUEST_SECONDS = 120.0


class CommandFailed(SetupError):
    """kubectl or helm ended with an error; ``stderr`` is its error message."""

    def __init__(self, command: Sequence[str], stderr: str) -> None:
        super().__init__(f"{' '.join(command)}: {stderr or 'failed without a message'}")
        self.stderr = stderr


class Kubectl:
    """A namespace (or none) of a cluster."""

    def __init__(self, environment: ClusterEnvironment, namespace: str = "") -> None:
        self._environment = environment
        self.namespace = namespace

    def within(self, namespace: str) -> Kubectl:
        """The same cluster, another namespace."""
        return Kubectl(self._environment, namespace)

    def command(self, *arguments: str) -> list[str]:
        """The whole command line, for callers that run it themselves."""
        scope = [f"--namespace={self.namespace}"] if self.namespace else []
        return [self._environment.kubectl, f"--kubeconfig={self._environment.kubeconfig}", *scope, *arguments]

    def process_environment(self) -> dict[str, str]:
        """The environment that a command of :meth:`command` needs."""
        return self._environment.process_environment()

    def run(self, *arguments: str, stdin: str = "", seconds: float = _REQUEST_SECONDS) -> str:
        """Runs kubectl and returns its output.

        :raises CommandFailed: it ended with an error, or the time is up.
        """
        try:
            done = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=seconds, check=False,
                env=self.process_environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise CommandFailed(["kubectl", *arguments], f"did not end within {seconds:.0f} s") from late
        if done.returncode != 0:
            raise CommandFailed(["kubectl", *arguments], done.stderr.strip())
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Creates or updates objects.

        :raises CommandFailed: the API server refuses an object; ``stderr`` has its message.
        """
        body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.run("apply", "--filename=-", stdin=json.dumps(body))

    def get(self, kind: str, name: str) -> Object | None:
        """An object, or None if it does not exist."""
        text = self.run("get", kind, name, "--output=json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """Every object of a kind that has the labels."""
        found = json.loads(self.run("get", kind, f"--selector={selector}", "--output=json"))
        return list(found["items"])

    def delete(self, kind: str, name: str, *, wait: bool = True, seconds: float = 600.0) -> None:
        """Deletes an object, if it exists.

        :param wait: until the object is gone, finalizers included.
        """
        flags = ["--ignore-not-found", f"--wait={str(wait).lower()}", f"--timeout={seconds:.0f}s"]
        self.run("delete", kind, name, *flags, seconds=seconds + 10)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """Sends a merge patch."""
        self.run("patch", kind, name, "--type=merge", f"--patch={json.dumps(change)}")

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Scales through the scale subresource, as ``kubectl scale`` does."""
        self.run("scale", kind, name, f"--replicas={replicas}")

    def kill_processes(self, pod: str, container: str) -> None:
        """Sends SIGKILL to every process of a container but its init, which ends after them.

        The kernel does this to a pod that is out of memory: neither Python nor the JVM can report anything. The kernel
        ignores signals to process 1 from inside the container.
        """
        try:
            self.run("exec", pod, f"--container={container}", "--", "bash", "-c", "kill -9 -1")
        except CommandFailed as failure:
            # The container may end before the answer comes back.
            if "exit code 137" not in failure.stderr and "not found" not in failure.stderr:
                raise

    def signal_processes(self, pod: str, container: str, signal: str) -> None:
        """Sends a signal to every process of a container but its init.

        STOP freezes Python and the JVM, CONT resumes them.
        """
        self.run("exec", pod, f"--container={container}", "--", "bash", "-c", f"kill -{signal} -1")

    def ensure_namespace(self, name: str) -> None:
        """Creates a namespace for jobs if it does not exist, and waits for the service account that pods in it need.

        The operator watches it, and it admits restricted pods only.
        """
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": JOBS_NAMESPACE}})
        self.within(name).run("wait", "--for=create", "serviceaccount/default", "--timeout=120s")

    def logs(self, pod: str, *, lines: int = 30) -> str:
        """The last lines of a pod's log, or the error that prevents reading them. Never raises."""
        try:
            return self.run("logs", pod, f"--tail={lines}", "--all-containers")
        except SetupError as error:
            return error.what
