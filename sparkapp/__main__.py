"""``python -m sparkapp run``: the driver of one attempt, in the pod made for it; and the commands for people."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job import Job
from sparkapp.model.job_codec import decode_job
from sparkapp.model.report import Outcome, Termination, encode_termination, termination_of
from sparkapp.spark.log_tail import LogTail
from sparkapp.tools import checkpoints, transactions

if TYPE_CHECKING:
    from sparkapp.spark.driver import Surroundings
    from sparkapp.spark.jvm import Jvm

LOG = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and runs it; the exit status is 0 only for an orderly end."""
    parser = argparse.ArgumentParser(prog="sparkapp", description="Runs a KafkaSparkJob, or looks after one.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the attempt described in --job until it fails or is asked to stop")
    run.add_argument(
        "--job", type=Path, default=Path(names.JOB_DIRECTORY) / names.JOB_KEY, help="the job's description"
    )
    run.add_argument(
        "--state",
        type=Path,
        help="a file for the checkpoint instead of the job's ConfigMap (development without Kubernetes)",
    )
    run.add_argument("--folder", type=Path, help="Spark's query log; name a volume where operators keep state")
    checkpoints.add_commands(commands)
    transactions.add_commands(commands)
    options = parser.parse_args(arguments)
    if "answer" in options:
        return int(options.answer(options))
    logging.basicConfig(
        level=os.environ.get("KAFKASPARK_LOG_LEVEL", "INFO"), stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )  # fmt: skip
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING)
    tail = LogTail()
    logging.getLogger().addHandler(tail)
    termination = _run(options)
    if termination.outcome is Outcome.FAILED and not termination.log:
        termination = replace(termination, log=tail.text)
    _last_word(termination)
    # Spark's and librdkafka's threads must not keep a finished attempt alive.
    logging.shutdown()
    os._exit(1 if termination.outcome is Outcome.FAILED else 0)


def _run(options: argparse.Namespace) -> Termination:
    try:
        job = _read_job(options.job)
        # Before the heavy imports: where the seconds of a start go is told by the log's times, see bench/recovery.py.
        LOG.info("attempt %d of %s/%s begins", job.attempt, job.namespace, job.name)
        from sparkapp.spark.fork_server import ForkServer
        from sparkapp.spark.jvm import Jvm
        from sparkapp.spark.settings import session_settings

        settings = session_settings(job, directory=options.job.parent)
        forks = ForkServer()
        jvm = Jvm(settings, forks.environment)
        from sparkapp.spark.driver import Driver, run_until_signalled

        surroundings = _surroundings(job, options, settings, jvm)
        # The last moment of a single thread.
        forks.start()
        return run_until_signalled(Driver(job, surroundings))
    except Exception as error:
        LOG.exception("the attempt could not start")
        return termination_of(error)


def _read_job(path: Path) -> Job:
    try:
        return decode_job(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"the job's description cannot be read: {error}"
        raise ConfigurationError(msg) from error


def _surroundings(job: Job, options: argparse.Namespace, settings: Mapping[str, str], jvm: Jvm) -> Surroundings:
    from sparkapp.checkpoint.config_map import ConfigMapRetainedStore, ConfigMapStore, ReportWriter, core_api
    from sparkapp.checkpoint.retained import FolderRetainedStore, RetainedStore
    from sparkapp.checkpoint.store import CheckpointStore, FileStore
    from sparkapp.spark.driver import Surroundings
    from sparkapp.spark.session import close_session, create_session

    turn = None
    store: CheckpointStore
    retained: RetainedStore
    write_report: Callable[[str], None]
    if options.state is not None:
        store, write_report = FileStore(options.state), _ignore
        retained = FolderRetainedStore.beside(options.state)
    else:
        api = core_api()
        store = ConfigMapStore(api, namespace=job.namespace, job=job.name)
        retained = ConfigMapRetainedStore(api, namespace=job.namespace, job=job.name)
        write_report = ReportWriter(api, namespace=job.namespace, job=job.name).write
        if os.environ.get(names.AWAITS_TURN_VARIABLE) == "true":
            from sparkapp.checkpoint.pod_turn import PodTurn

            pod = names.driver_pod(job.name, job.attempt)
            turn = PodTurn(api, namespace=job.namespace, job=job.name, attempt=job.attempt, pod=pod)
    folder: Path | None = options.folder
    if folder is None and job.spec.state_claim:
        folder = Path(names.STATE_DIRECTORY) / job.uid
    return Surroundings(
        store=store,
        retained=retained,
        turn=turn,
        write_report=write_report,
        open_session=partial(create_session, settings, jvm),
        jvm_status=jvm.exit_status,
        give_up=_give_up,
        close_session=close_session,
        folder=folder or Path(tempfile.mkdtemp(prefix="kafkaspark-")),
        stateful_allowed=folder is not None,
        credentials=Path(os.environ.get("KAFKASPARK_CREDENTIALS", names.CREDENTIALS_DIRECTORY)),
    )


def _give_up(termination: Termination) -> None:
    """The driver's watchdog: a process whose main thread hangs ends here, and its JVM with it."""
    _last_word(termination)
    os._exit(1)


def _ignore(_: str) -> None:
    """Without Kubernetes nobody reads reports."""


def _last_word(termination: Termination) -> None:
    text = encode_termination(termination)
    try:
        Path(os.environ.get("KAFKASPARK_TERMINATION_LOG", names.TERMINATION_LOG)).write_text(text, encoding="utf-8")
    except OSError:
        sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
