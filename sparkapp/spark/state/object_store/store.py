"""The requests of a driver to the object store that has its query state, by Arrow's client.

Executors write there by Hadoop's client. The driver needs its own before the JVM is there. Hadoop's does not offer a
copy within the store, nor a list of all objects below a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyarrow import fs

from sparkapp.clients.progress import UNWATCHED, Progress
from sparkapp.model.errors import StateStoreUnusable
from sparkapp.model.job.sections.state_storage import S3Storage
from sparkapp.spark.state.listed_folder import ListedFolder

_THREADS = 16
_TRIES = 6
"""Of a request; with the pauses between them a minute, as long as a store may be busy without a failed attempt."""
_WHOLE_WRITES: Mapping[str, Any] = {"allow_delayed_open": True}
"""A small object is written by one request. Arrow's stubs do not have the option."""
_CONNECT_SECONDS, _REQUEST_SECONDS = 5.0, 30.0
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The folder of one job in a bucket.

    :param storage: where it is. :param folder: of the job, with the bucket.
    :param progress: counts the answers: a start that copies a large state shows its progress by it.
    """

    storage: S3Storage
    folder: str
    _files: Any = field(repr=False, compare=False)
    progress: Progress = field(default=UNWATCHED, repr=False, compare=False)

    @classmethod
    def of(cls, storage: S3Storage, job_uid: str, progress: Progress = UNWATCHED) -> ObjectStore:
        """Called by the driver; asks the store nothing yet."""
        if storage.endpoint:
            # By default Amazon's client sends checksums in a form that most other stores refuse.
            os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
        is_plain, address = storage.endpoint.startswith("http:"), storage.endpoint.rpartition("://")[2]
        files = fs.S3FileSystem(
            region=storage.region, scheme="http" if is_plain else "https", endpoint_override=address or None,
            force_virtual_addressing=bool(address) and not storage.path_style_access,
            connect_timeout=_CONNECT_SECONDS, request_timeout=_REQUEST_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES), background_writes=False,
            **_WHOLE_WRITES,
        )  # fmt: skip
        return cls(storage, storage.folder(job_uid), files, progress)

    def of_job(self, job_uid: str) -> ObjectStore:
        """The folder of another job in the same place."""
        return replace(self, folder=self.storage.folder(job_uid))

    @property
    def uri(self) -> str:
        """For Hadoop's client."""
        return f"s3a://{self.folder}"

    def sizes(self, below: str) -> dict[str, int]:
        """Bytes of each object of a folder, by its path below the folder; empty where there is none.

        :raises StateStoreUnusable: the store did not answer.
        """
        base = f"{self.folder}/{below}"
        with self._asking():
            found = self._files.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
        return {each.path.removeprefix(f"{base}/"): each.size for each in found if each.type is fs.FileType.File}

    def listed(self, below: str) -> ListedFolder:
        """The same as a folder. An object that is gone when it is read is an error of the store, and not of the state.

        A driver that was replaced may just write it again, and the next list has what is there then.
        """
        return ListedFolder.of(below, self.sizes(below), self._read_listed)

    def folders(self) -> list[str]:
        """Names of the folders of the job.

        :raises StateStoreUnusable: the store did not answer.
        """
        with self._asking():
            found = self._files.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        # A store may list a folder twice: by its objects, and by an empty object of its name.
        return sorted({each.base_name for each in found if each.type is fs.FileType.Directory})

    def require_bucket(self) -> None:
        """Called where a list is empty: that of a bucket that does not exist is empty, too.

        :raises StateStoreUnusable: it does not exist, or the store did not answer.
        """
        with self._asking():
            found = self._files.get_file_info(self.storage.bucket)
            if found.type is fs.FileType.NotFound:
                msg = "the bucket does not exist"
                raise OSError(msg)

    def read(self, path: str) -> bytes:
        """The content of an object.

        :raises FileNotFoundError: there is none. :raises StateStoreUnusable: the store did not answer.
        """
        with self._asking(), self._files.open_input_stream(f"{self.folder}/{path}") as stream:
            return bytes(stream.read())

    def _read_listed(self, path: str) -> bytes:
        """:raises StateStoreUnusable: the store did not give it, or it is gone."""
        try:
            return self.read(path)
        except FileNotFoundError as error:
            msg = f"{self.uri}/{path} was listed and is gone"
            raise StateStoreUnusable(msg) from error

    def write(self, path: str, content: bytes) -> None:
        """Replaces an object: after any failure it is as before, or has the content.

        :raises StateStoreUnusable: it may or may not be written.
        """
        with self._asking(), self._files.open_output_stream(f"{self.folder}/{path}") as stream:
            stream.write(content)

    def copy(self, paths: Mapping[str, str], *, of: ObjectStore | None = None) -> None:
        """Copies objects within the store; their content does not come here.

        :param paths: of the sources, by the paths of the copies.
        :param of: the folder of the job that has the sources; None for this.
        :raises FileNotFoundError: one of them is gone. :raises StateStoreUnusable: some may be missing.
        """
        base = (of or self).folder

        def copied(target: str) -> None:
            with self._asking():
                self._files.copy_file(f"{base}/{paths[target]}", f"{self.folder}/{target}")

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(copied, paths))

    def delete(self, paths: Iterable[str]) -> None:
        """Removes objects, also where some are gone already.

        :raises StateStoreUnusable: some may be left.
        """

        def deleted(path: str) -> None:
            with suppress(FileNotFoundError), self._asking():
                self._files.delete_file(f"{self.folder}/{path}")

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(deleted, paths))

    def remove(self, below: str) -> None:
        """Removes a folder with all objects in it.

        :raises StateStoreUnusable: some may be left.
        """
        with suppress(FileNotFoundError), self._asking():
            self._files.delete_dir(f"{self.folder}/{below}")

    def remove_all(self) -> str:
        """Removes the folder of the job; called by the last attempt of a deleted job.

        :returns: what was done, as a text for people.
        :raises StateStoreUnusable: some of it may be left.
        """
        with suppress(FileNotFoundError), self._asking():
            self._files.delete_dir(self.folder)
        return f"s3://{self.folder} is removed"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
            self.progress.count()
        except FileNotFoundError:
            raise
        except OSError as error:
            msg = f"the store of query state, {self.storage.shown}, cannot be used: {str(error)[:_SHOWN]}"
            raise StateStoreUnusable(msg) from error
