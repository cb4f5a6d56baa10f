"""Spark as an attempt runs it: a real driver with its token, and its executors, for which a test plays the kubelet.

The driver creates the executors' pods on a real API server. The test starts each as a process with the image's
entrypoint and the pod's variables. Addresses of 127.0.0.0/8 stand for the addresses of pods. Executors reach each other
through a relay that records what they send.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from localcluster.machine.ports import free_ports
from sparkapp.model import names
from sparkapp.model.job.codec import decode_job
from sparkapp.spark.launch.settings import CLASSES_VARIABLE, session_settings
from tests.support.jobs.local_job import environment
from tests.support.kubernetes.api_client import REPOSITORY, ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob

ENTRYPOINT = REPOSITORY / "images" / "sparkapp" / "entrypoint"
TINI = """#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift
exec "$@" ${BIND_ADDRESS:+--bind-address $BIND_ADDRESS}
"""
"""Stands for the program that the image runs everything under."""


class Block(NamedTuple):
    """A block of a block manager."""

    host: str
    port: int
    executor: str
    name: str


class Relay:
    """Carries connections from one address to another and keeps every byte."""

    def __init__(self, address: tuple[str, int], target: tuple[str, int]) -> None:
        self._target = target
        self._parts: list[bytes] = []
        self._door = socket.create_server(address)
        self._start(self._accept)

    @property
    def recorded(self) -> bytes:
        """What went through, in both directions."""
        return b"".join(self._parts)

    def close(self) -> None:
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(self._target)
                self._start(self._carry, client, server)
                self._start(self._carry, server, client)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._parts.append(data)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    @staticmethod
    def _start(function: Any, *arguments: Any) -> None:
        threading.Thread(target=function, args=arguments, daemon=True).start()


class SparkAttempt:
    """The first attempt of a job whose driver's pod exists.

    :param folder: for everything that the pods have on their volumes.
    """

    def __init__(self, api: ApiClient, job: LiveJob, folder: Path, certificates: Path) -> None:
        self.api, self.job, self.folder = api, job, folder
        self.processes: list[subprocess.Popen[str]] = []
        self.relays: list[Relay] = []
        self.pods: list[dict[str, Any]] = []
        self.secret_file = self._mount()
        self._certificates = certificates
        (folder / "bin").mkdir()
        (folder / "bin" / "tini").write_text(TINI)
        (folder / "bin" / "tini").chmod(0o755)
        self.secret = self.secret_file.read_text()

    def _mount(self) -> Path:
        """Writes the driver's volumes as its kubelet would; returns the file with the secret."""
        base = f"/api/v1/namespaces/{self.job.namespace}"
        record = self.job.record(1)
        (self.folder / "job").mkdir()
        for name, text in record["data"].items():
            (self.folder / "job" / name).write_text(text)
        found = self.api.call("GET", f"{base}/secrets/{names.spark_secret(self.job.name, self.job.uid(), 1)}")
        file = self.folder / "secret" / names.SPARK_SECRET_KEY
        file.parent.mkdir()
        file.write_bytes(base64.b64decode(found["data"][names.SPARK_SECRET_KEY]))
        return file

    def settings(self, **others: str) -> dict[str, str]:
        """The settings of the attempt's session, with paths of this machine, and with those of the test."""
        host, port = self.api.host.removeprefix("https://").split(":")
        pod = {"KAFKASPARK_POD_IP": "127.0.0.1", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        job = decode_job((self.folder / "job" / names.JOB_KEY).read_text())
        with patch.dict(os.environ, pod | {CLASSES_VARIABLE: environment()[CLASSES_VARIABLE]}):
            settings = session_settings(job, directory=self.folder / "job")
        (self.port,) = free_ports(1)
        return {
            **{name: self._on_this_machine(value) for name, value in settings.items()},
            "spark.kubernetes.authenticate.oauthTokenFile": str(self._token()),
            "spark.kubernetes.authenticate.caCertFile": str(self._certificates),
            "spark.blockManager.port": str(self.port),
            # Two executors of one machine would read each other's files, and a canary must not be compressed.
            "spark.shuffle.readHostLocalDisk": "false",
            "spark.shuffle.compress": "false",
            "spark.broadcast.compress": "false",
            **others,
        }

    def _on_this_machine(self, value: str) -> str:
        mounted = ((names.JOB_DIRECTORY, self.folder / "job"), (names.SPARK_SECRET_DIRECTORY, self.secret_file.parent))
        for path, folder in mounted:
            value = value.replace(path, str(folder))
        return value

    def _token(self) -> Path:
        pod = self.job.await_driver(1, hold=False)
        account = f"/api/v1/namespaces/{self.job.namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        answer = self.api.call("POST", f"{account}/token", {"spec": {"boundObjectRef": reference}})
        file = self.folder / "token"
        file.write_text(answer["status"]["token"])
        return file

    def start_driver(self, settings: Mapping[str, str], program: str) -> None:
        """Starts the driver's program, which finds the settings in a file; its executors do not start."""
        file = self.folder / "settings.json"
        file.write_text(json.dumps(settings))
        self.driver = self._run([sys.executable, "-c", program, str(file)], "driver", {})

    def start(self, settings: Mapping[str, str], program: str) -> None:
        """Starts the driver's program, and an executor for each pod that it creates."""
        self.start_driver(settings, program)
        count = int(settings["spark.executor.instances"])
        selector = f"{names.LABEL_JOB}={self.job.name},{names.LABEL_ROLE}={names.ROLE_EXECUTOR}"

        def created() -> list[dict[str, Any]]:
            assert self.driver.poll() is None, self.log("driver")[-4000:]
            found = self.api.items(self.job.pods_path, selector)
            return found if len(found) == count else []

        self.pods = await_that("the executors' pods", created)
        for number, pod in enumerate(self.pods, 10):
            address, bound = f"127.0.0.{number}", f"127.0.1.{number}"
            self.relays.append(Relay((address, self.port), (bound, self.port)))
            name = pod["metadata"]["name"]
            self._run([str(ENTRYPOINT), "executor"], name, self.variables(pod, address) | {"BIND_ADDRESS": bound})

    def variables(self, pod: Mapping[str, Any], address: str) -> dict[str, str]:
        """The environment of an executor's container, as its pod describes it."""
        given = {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}
        return given | {"SPARK_EXECUTOR_POD_IP": address, "SPARK_EXECUTOR_POD_NAME": pod["metadata"]["name"]}

    def outsider(self, name: str, **variables: str) -> subprocess.Popen[str]:
        """One more executor, which no driver has asked for, on a network that reaches the driver.

        :param variables: instead of the first executor's; an empty value removes it.
        """
        given = self.variables(self.pods[0], "127.0.0.9") | variables
        return self._run([str(ENTRYPOINT), "executor"], name, {name: value for name, value in given.items() if value})

    @property
    def application(self) -> str:
        """Spark's id of the application, as the executors' pods show it."""
        return self.variables(self.pods[0], "")["SPARK_APPLICATION_ID"]

    def blocks_of_shuffles(self, number: int) -> list[Block]:
        """The first reducer's block of each file that an executor has written; the largest comes last.

        :param number: of the executor, from 0.
        """
        meta = self.pods[number]["metadata"]
        files = (self.folder / f"{meta['name']}-local").rglob("shuffle_*_0.data")
        address, executor = f"127.0.0.{number + 10}", meta["labels"]["spark-exec-id"]
        largest_last = sorted(files, key=lambda path: path.stat().st_size)
        return [Block(address, self.port, executor, file.stem) for file in largest_last]

    def _run(self, command: list[str], name: str, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        (self.folder / f"{name}-local").mkdir()
        given = {
            **environment(), "PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable,
            **variables, "SPARK_LOCAL_DIRS": str(self.folder / f"{name}-local"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }  # fmt: skip
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command, env=given, cwd=self.folder, text=True, stdin=subprocess.PIPE, stderr=log,
                start_new_session=True,
                stdout=subprocess.PIPE if name == "driver" else log,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self, name: str) -> str:
        """What a process has written to its standard error."""
        return (self.folder / f"{name}.log").read_text()

    def ask(self, question: str) -> Any:
        """A line for the driver's program, and the line that it answers, in JSON."""
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(question + "\n")
        self.driver.stdin.flush()
        answer = self.driver.stdout.readline()
        assert answer, self.log("driver")[-4000:]
        return json.loads(answer)

    def close(self) -> None:
        for relay in self.relays:
            relay.close()
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
