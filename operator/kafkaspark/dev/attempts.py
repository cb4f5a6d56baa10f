"""Attempts of a job on a broker, as processes of this machine: ``sparkapp run`` with the checkpoint in a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from kafkaspark.local.code import Files, place
from sparkapp.model import names
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job
from sparkapp.model.report import Report, Termination, decode_report, decode_termination
from sparkapp.spark.launch.user_modules import VARIABLE

_REPOSITORY = Path(names.__file__).parents[2]
_ATTEMPTS = "attempts.json"
"""UID of the job and number of its last attempt."""
_QUIET = frozenset({"DEBUG", "INFO"})


class Attempts:
    """The attempts of a job, one after the other. Each continues at the last checkpoint of the attempt before.

    :param folder: keeps checkpoint, state and the numbers of attempts from one command to the next.
    :param say: prints a line of the job's log.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self._say = say
        self._process: subprocess.Popen[str] | None = None
        self._printing: threading.Thread | None = None
        self._uid = ""
        for name in ("code", "query"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def start(self, job: Job, files: Files, environment: Mapping[str, str]) -> None:
        """Begins the next attempt, after :meth:`stop` of the last.

        :raises OSError: the folder cannot be written.
        """
        self._uid, last = self._known()
        job = replace(job, uid=self._uid, attempt=last + 1)
        known = {"uid": job.uid, "attempt": job.attempt}
        (self.folder / _ATTEMPTS).write_text(json.dumps(known), encoding="utf-8")
        description = self.folder / names.JOB_KEY
        description.write_text(encode_job(job), encoding="utf-8")
        place(files, self.folder / "code")
        for name in ("report", "termination"):
            (self.folder / name).unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "sparkapp", "run", "--job", str(description), "--state", str(self.folder / "state"),
            "--folder", str(self.folder / "query"), "--report", str(self.folder / "report"),
        ]  # fmt: skip
        variables = {
            **environment, **os.environ, VARIABLE: str(self.folder / "code"),
            "KAFKASPARK_TERMINATION_LOG": str(self.folder / "termination"), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")])),
        }  # fmt: skip
        # A session of its own: Ctrl-C is for this process, which drains the job.
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="backslashreplace", start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None, "a pipe"
        self._printing = threading.Thread(target=self._print, args=(self._process.stdout,), daemon=True)
        self._printing.start()

    @property
    def is_running(self) -> bool:
        """Whether the process of the attempt has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def report(self) -> Report | None:
        """The attempt's last report; None before the first."""
        with suppress(OSError):
            return decode_report((self.folder / "report").read_text(encoding="utf-8"), job_uid=self._uid)
        return None

    def stop(self) -> Termination | None:
        """Drains the attempt and waits for its end; how it ended, None if there was none."""
        if self._process is None:
            return None
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        if self._printing is not None:
            self._printing.join()
        self._process = None
        with suppress(OSError):
            return decode_termination((self.folder / "termination").read_text(encoding="utf-8"))
        return None

    def _known(self) -> tuple[str, int]:
        """UID of the job and number of its last attempt."""
        with suppress(OSError, ValueError):
            found = json.loads((self.folder / _ATTEMPTS).read_text(encoding="utf-8"))
            return str(found["uid"]), int(found["attempt"])
        return str(uuid.uuid4()), 0

    def _print(self, output: IO[str]) -> None:
        for line in output:
            shown = shown_line(line.rstrip("\n"))
            if shown:
                self._say(shown)


def shown_line(line: str) -> str:
    """What a person sees of a line of the job's output: warnings, and what the user's code prints; else nothing."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "message" not in entry:
        return line
    return "" if entry.get("level") in _QUIET else f"{entry.get('level')}: {entry['message']}"
