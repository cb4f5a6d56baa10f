"""Debian's Prometheus, which reads pods of the local cluster each second."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localcluster.machine.ports import free_ports
from tests.support.kubernetes.api_client import await_that


@dataclass(frozen=True)
class Target:
    """A pod to read.

    :param name: of the scrape job.
    :param labels: that the chart's monitor would give each series.
    """

    name: str
    pod: Mapping[str, Any]
    port: int
    labels: Mapping[str, str]


@contextmanager
def prometheus(folder: Path, *targets: Target) -> Iterator[str]:
    """The address of a server that reads these pods, with its files in the folder."""
    subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["dpkg", "-x", str(next(folder.glob("*.deb"))), "."], cwd=folder, check=True)
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": each.name, "honor_labels": True,
             "static_configs": [
                 {"targets": [f"{each.pod['status']['podIP']}:{each.port}"], "labels": dict(each.labels)}
             ]}
            for each in targets
        ],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = ["usr/bin/prometheus", f"--web.listen-address={address}", "--config.file=prometheus.yml"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            await_that("Prometheus answers", lambda: _is_ready(address), pause=0.5)
            yield address
        finally:
            process.terminate()


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=20):
            return True
    except OSError:
        return False


def answer(address: str, query: str) -> list[Any]:
    """The series of an expression now."""
    asked = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(asked, timeout=20) as response:
        found = json.load(response)
    assert found["status"] == "success", found
    return list(found["data"]["result"])
