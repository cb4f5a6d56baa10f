"""What the bench sees: when an object was there for the first time, and the CPU time of its API server."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import urllib3

from tests.support.kubernetes.api_client import ApiClient


class FirstSeen:
    """Watches a collection in a thread of its own.

    :param path: of the collection. :param wanted: gives the job that an object concerns; empty for none.
    :ivar at: monotonic seconds by job.
    """

    def __init__(self, api: ApiClient, path: str, wanted: Callable[[Mapping[str, Any]], str]) -> None:
        self._api, self._path, self._wanted = api, path, wanted
        self.at: dict[str, float] = {}
        self._ended = threading.Event()
        self._version = str(api.call("GET", f"{path}?limit=1")["metadata"]["resourceVersion"])
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The watch ends with its next event, or with its time."""
        self._ended.set()

    def _run(self) -> None:
        try:
            self._watch()
        except urllib3.exceptions.HTTPError:
            if not self._ended.is_set():  # the API server has ended behind the bench
                raise

    def _watch(self) -> None:
        while not self._ended.is_set():
            for line in self._api.stream(f"{self._path}?watch=1&resourceVersion={self._version}&timeoutSeconds=60"):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    msg = f"the watch of {self._path} ends: {event['object'].get('message')}"
                    raise RuntimeError(msg)
                self._version = event["object"]["metadata"]["resourceVersion"]
                job = self._wanted(event["object"])
                if job:
                    self.at.setdefault(job, time.monotonic())
                if self._ended.is_set():
                    return


SERVER = ("kube-apiserver", "etcd")
"""Children of the bench that answer requests."""
_NAME_LENGTH = 15
"""Characters of a program's name that the kernel keeps."""


def server_seconds() -> float:
    """CPU time that API server and etcd have used."""
    found = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text(encoding="utf-8").partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        fields = rest.split()
        if int(fields[1]) == os.getpid() and name in {each[:_NAME_LENGTH] for each in SERVER}:
            found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found
