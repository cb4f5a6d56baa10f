"""``python3 -m sparkapp run``: the driver of one attempt, in its pod; and the commands for users."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkapp.cli import checkpoints, transactions
from sparkapp.cli.table import answered
from sparkapp.model import names
from sparkapp.model.encoding.json_log import log_as_json
from sparkapp.model.errors import CheckpointError, CommandRefused, ConfigurationError
from sparkapp.model.job.client.security_properties import credentials_directory
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.report import AttemptOutcome, Scale, Termination, encode_termination, termination_of
from sparkapp.spark.reporting.log_tail import LogTail

if TYPE_CHECKING:
    from sparkapp.checkpoint.kubernetes.own_pod import OwnPod
    from sparkapp.checkpoint.retained import RetainedStore
    from sparkapp.checkpoint.store import CheckpointStore
    from sparkapp.spark.launch.environment import DriverEnvironment
    from sparkapp.spark.launch.jvm import Jvm
    from sparkapp.spark.launch.standby import Activation

LOG = logging.getLogger(__name__)


def main(
    arguments: Sequence[str] | None = None,
    *,
    prog: str = "sparkapp",
    description: str = "Runs a KafkaSparkJob, or shows and changes its checkpoints and transactions.",
    examples: str | None = None,
    people: Sequence[Callable[[Any], None]] = (),
) -> int:
    """Parses the command line and runs it; the exit status is 0 only for an orderly end.

    :param prog: name of the program. ``description`` is the beginning of its help, and ``examples`` the end.
    :param people: each registers commands for people, as :func:`sparkapp.cli.checkpoints.add_commands` does. Empty is
        those of ``sparkapp``, and lists ``run``, too, which is for the pod of a driver.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description=description, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for add_commands in people or (checkpoints.add_commands, transactions.add_commands):
        add_commands(commands)
    listed: dict[str, Any] = {} if people else {"help": "run the attempt in --job until it fails or is stopped"}
    run = commands.add_parser("run", **listed)
    run.add_argument(
        "--job", type=Path, default=Path(names.JOB_DIRECTORY) / names.JOB_KEY, help="file with the job's description"
    )
    run.add_argument(
        "--state",
        type=Path,
        help="file for the checkpoint, instead of the job's ConfigMap (for development without Kubernetes)",
    )
    run.add_argument(
        "--folder", type=Path, help="folder of Spark's query log; on a volume if the transform keeps state"
    )
    run.add_argument("--report", type=Path, help="file for the attempt's report, together with --state")
    options = parser.parse_args(arguments)
    if "answer" in options:
        return answered(options)
    log_as_json(os.environ.get("KAFKASPARK_LOG_LEVEL", "INFO"))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING)
    tail = LogTail()
    logging.getLogger().addHandler(tail)
    termination = _run(options)
    if termination.outcome is AttemptOutcome.FAILED and not termination.log:
        termination = replace(termination, log=tail.text)
    _write_termination(termination)
    # Spark's and librdkafka's threads must not keep a finished attempt alive.
    logging.shutdown()
    os._exit(1 if termination.outcome is AttemptOutcome.FAILED else 0)


def _run(options: argparse.Namespace) -> Termination:
    job: Job | None = None
    try:
        job = _read_job(options.job)
        # Before the heavy imports: bench/restart/__main__.py measures the phases of a start by the times of log lines.
        LOG.info("attempt %d of %s/%s begins", job.attempt, job.namespace, job.name)
        if job.settles_only:
            return _settle(job, options)
        from sparkapp.spark.launch.fork_server import ForkServer
        from sparkapp.spark.launch.jvm import Jvm
        from sparkapp.spark.launch.settings import session_settings

        settings = session_settings(job, directory=options.job.parent)
        forks = ForkServer()
        jvm = Jvm(settings, forks.environment)
        from sparkapp.spark.driver import Driver, run_until_signalled

        environment = _environment(job, options, settings, jvm)
        # Forks need a process with a single thread, and the driver starts threads.
        forks.start()
        return run_until_signalled(Driver(job, environment))
    except Exception as error:
        LOG.exception("attempt could not start")
        return termination_of(error, job=job)


def _settle(job: Job, options: argparse.Namespace) -> Termination:
    from sparkapp.spark.settling import settle

    # This attempt ends in seconds, or with the pod's grace period; a stop must not leave transactions open.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    store, retained, _ = _stores(job, options)
    return settle(
        job, store=store, retained=retained, credentials=credentials_directory(), folder=_state_folder(job, options)
    )


def _state_folder(job: Job, options: argparse.Namespace) -> Path | None:
    """The folder of all attempts' queries; None for a job without a volume."""
    folder: Path | None = options.folder
    return Path(names.STATE_DIRECTORY) / job.uid if folder is None and job.spec.state_claim else folder


def _read_job(path: Path) -> Job:
    try:
        return decode_job(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read the job's description: {error}"
        raise ConfigurationError(msg) from error


def _stores(job: Job, options: argparse.Namespace) -> tuple[CheckpointStore, RetainedStore, OwnPod | None]:
    """The stores of the checkpoints, and the driver's pod if they are ConfigMaps; None for a file."""
    from sparkapp.checkpoint.kubernetes.checkpoint_stores import ConfigMapRetainedStore, ConfigMapStore
    from sparkapp.checkpoint.kubernetes.config_map import core_api
    from sparkapp.checkpoint.kubernetes.incarnation import prove_incarnation
    from sparkapp.checkpoint.retained import FolderRetainedStore
    from sparkapp.checkpoint.store import FileStore

    if options.state is not None:
        return FileStore(options.state), FolderRetainedStore.next_to(options.state), None
    try:
        api = core_api()
    except CommandRefused as error:
        # No person has typed a wrong command here, so a restart may help.
        raise CheckpointError(error.message, remedy=error.remedy) from error
    pod = prove_incarnation(api, job, pod_uid=os.environ.get(names.POD_UID_VARIABLE, ""))
    store = ConfigMapStore(api, namespace=job.namespace, job=job.name, uid=job.uid)
    return store, ConfigMapRetainedStore(api, namespace=job.namespace, job=job.name, uid=job.uid), pod


def _environment(job: Job, options: argparse.Namespace, settings: Mapping[str, str], jvm: Jvm) -> DriverEnvironment:
    from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
    from sparkapp.spark.launch.environment import DriverEnvironment
    from sparkapp.spark.launch.session import close_session, create_core_session, create_session
    from sparkapp.spark.launch.settings import pods_log

    activation: Activation | None = None
    scale: Callable[[], Scale | None] | None = None
    store, retained, pod = _stores(job, options)
    write_report: Callable[[str], None] = _ignore if options.report is None else partial(_replace, options.report)
    if pod is not None:
        from sparkapp.checkpoint.kubernetes.incarnation import prove_modules
        from sparkapp.checkpoint.kubernetes.own_pod import PodScale
        from sparkapp.spark.launch.user_modules import code_directory

        prove_modules(options.job.parent, Path(code_directory()))
        report = ReportWriter(pod.api, namespace=job.namespace, job=job.name, uid=job.uid)
        write_report, scale = report.write, PodScale(pod)
        if os.environ.get(names.AWAITS_TURN_VARIABLE) == "true":
            from sparkapp.checkpoint.claim import has_drained
            from sparkapp.checkpoint.kubernetes.pod_activation import PodActivation

            drained = partial(has_drained, store, job_uid=job.uid, attempt=job.attempt)
            activation = PodActivation(pod, report=report, attempt=job.attempt, drained=drained)
    folder = _state_folder(job, options)
    is_continuous = chosen_engine(job.spec)[0] is Engine.CONTINUOUS
    open_session = create_core_session if is_continuous else create_session
    return DriverEnvironment(
        store=store,
        retained=retained,
        activation=activation,
        takes_over=activation is not None and os.environ.get(names.TAKES_OVER_VARIABLE) == "true",
        scale=scale,
        write_report=write_report,
        open_session=partial(open_session, settings, jvm),
        jvm_status=jvm.exit_status,
        pods_log=pods_log(),
        give_up=_give_up,
        close_session=close_session,
        folder=folder or Path(tempfile.mkdtemp(prefix="kafkaspark-")),
        stateful_allowed=folder is not None or job.spec.state_s3 is not None,
        credentials=credentials_directory(),
    )


def _give_up(termination: Termination) -> None:
    """Called by the driver's watchdog: ends a process whose main thread hangs, and with it the JVM."""
    _write_termination(termination)
    os._exit(1)


def _ignore(_: str) -> None:
    """The report writer of a job without Kubernetes: nobody reads reports."""


def _replace(file: Path, text: str) -> None:
    """The report writer of ``kafkaspark dev``, which reads the file while the job runs."""
    unfinished = file.with_suffix(".part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        LOG.warning("the report cannot be written: %s", error)


def _write_termination(termination: Termination) -> None:
    text = encode_termination(termination)
    try:
        Path(os.environ.get("KAFKASPARK_TERMINATION_LOG", names.TERMINATION_LOG)).write_text(text, encoding="utf-8")
    except OSError:
        sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
