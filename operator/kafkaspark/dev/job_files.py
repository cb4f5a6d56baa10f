"""The files of a job that is run while somebody writes it: reads them, and knows what has changed since."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from kafkaspark.dev.watch import Signatures, files_of, signatures
from kafkaspark.local.input_file import read_records
from kafkaspark.local.project import Project, read_project
from kafkaspark.local.records import Record


class JobFiles:
    """What each round reads.

    :param options: of ``kafkaspark dev``.
    :param also_watched: files whose change begins another round, next to those of the job.
    """

    def __init__(self, options: argparse.Namespace, also_watched: Iterable[Path] = ()) -> None:
        self._options = options
        self._also_watched = tuple(also_watched)
        self.watched: Signatures = signatures([options.file, *self._also_watched])
        """Of the files that the last round has read, before it read them."""

    def begin(self) -> None:
        """A round begins: a change from now on begins another."""
        self.watched = signatures(self.watched)

    def read(self) -> tuple[Project, list[Record]]:
        """The job with its code, and the records of the input, if there is one.

        :raises InputUnreadable: a file cannot be read.
        :raises ConfigurationError: the operator refuses the job.
        """
        options = self._options
        project = read_project(options.file, name=options.name, namespace=options.namespace, environ=os.environ)
        now = signatures([*self._also_watched, *files_of(project, options.file)])
        self.watched = {file: self.watched.get(file, signature) for file, signature in now.items()}
        return project, read_records(options.input, values_only=options.values) if options.input else []
