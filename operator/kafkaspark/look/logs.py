"""``kafkaspark logs JOB``: the log of the current driver, of an earlier attempt or of an executor."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from kafkaspark.cluster.options import add_job_options
from kafkaspark.cluster.user_cluster import UserCluster
from kafkaspark.look.overview import printable
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused

_TAB = "\t"
_EXAMPLES = """\
examples:
  kafkaspark logs orders-upper --follow
  kafkaspark logs orders-upper --executor 1 --tail 200
  kafkaspark logs orders-upper --raw | jq 'select(.level == "ERROR")'
"""


def add_commands(commands: Any) -> None:
    """Registers ``logs``; called by ``kafkaspark.__main__`` once.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "show the log of a job's driver or of an executor"
    command = commands.add_parser(
        "logs", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_job_options(command)
    command.add_argument("--attempt", type=int, metavar="N", help="by default the current one")
    command.add_argument("--executor", type=int, metavar="N", help="an executor's log; by default the driver's")
    command.add_argument("--tail", type=int, default=100, metavar="N", help="last lines, by default 100; -1 for all")
    command.add_argument("--follow", "-f", action="store_true", help="wait for further lines")
    command.add_argument("--raw", action="store_true", help="the JSON objects as they are logged")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    try:
        cluster = UserCluster.of_context(options.context)
        namespace = options.namespace or cluster.namespace
        pod = _pod(cluster, namespace, options)
        query = {"follow": "true"} if options.follow else {}
        if options.tail >= 0:
            query["tailLines"] = str(options.tail)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/log"
        lines: Iterable[str] = cluster.lines(path, query)
        for line in lines if options.raw else readable(lines):
            print(line, flush=options.follow)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.stderr.close()
    return 0


def _pod(cluster: UserCluster, namespace: str, options: argparse.Namespace) -> str:
    job = cluster.job(namespace, options.job)
    attempt = options.attempt or ((job.get("status") or {}).get("attempt") or {}).get("id")
    if not attempt:
        msg = f"job {namespace}/{options.job} has had no attempt"
        raise CommandRefused(msg, remedy=f"kafkaspark status {options.job} --namespace {namespace}")
    if options.executor is None:
        return names.driver_pod(options.job, int(attempt))
    wanted = {names.LABEL_ATTEMPT: str(attempt), names.LABEL_ROLE: names.ROLE_EXECUTOR}
    found = []
    for pod in cluster.pods(namespace, options.job):
        labels = pod["metadata"].get("labels") or {}
        if all(labels.get(name) == value for name, value in wanted.items()):
            number = labels.get(_EXECUTOR_LABEL, "")
            if number == str(options.executor):
                return str(pod["metadata"]["name"])
            found.append(number)
    msg = f"attempt {attempt} has no executor {options.executor}; it has {', '.join(sorted(found)) or 'none'}"
    raise CommandRefused(msg, remedy=f"kafkaspark status {options.job} --namespace {namespace}")


_EXECUTOR_LABEL = "spark-exec-id"
"""Spark's own label of an executor's number."""


def readable(lines: Iterable[str]) -> Iterator[str]:
    """Lines of a log for the eye: time, level, message, and the exception below. Other lines stay as they are."""
    for line in lines:
        try:
            entry = json.loads(line)
            text = f"{entry['time']} {entry['level']:<7} {entry['logger']}: {entry['message']}"
        except (ValueError, KeyError, TypeError):
            yield printable(line, keep=_TAB)
            continue
        yield printable(text, keep=_TAB)
        yield from (f"    {printable(each, keep=_TAB)}" for each in str(entry.get("exception") or "").splitlines())
