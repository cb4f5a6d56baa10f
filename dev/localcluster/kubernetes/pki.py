"""Keys, certificates and kubeconfigs of the control plane, created by openssl and kept in the state folder."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.machine.commands import run

_DAYS = "3650"
# Elliptic keys: an RSA key of the same strength takes a second to create on a slow machine.
_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path

    @classmethod
    def named(cls, folder: Path, name: str) -> Certificate:
        """The pair of files of ``name``."""
        return cls(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")

    def exists(self) -> bool:
        """Whether both files exist: a crash may have left a single file."""
        return self.certificate.exists() and self.key.exists()


class Authority:
    """The certificate authority that every component of the cluster trusts."""

    def __init__(self, folder: Path, log: Path) -> None:
        """Opens the authority in ``folder``, or creates it there. openssl's messages go to ``log``."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._log = log
        self.pair = Certificate.named(folder, "ca")
        if not self.pair.exists():
            self._openssl(self.pair, "/CN=kafkaspark-local", ["basicConstraints=critical,CA:TRUE"])

    def issue(self, name: str, subject: str, alternative_names: Sequence[str] = ()) -> Certificate:
        """The certificate ``name``, for TLS clients and servers. It is issued for ``subject`` if it does not exist."""
        pair = Certificate.named(self._folder, name)
        if not pair.exists():
            extensions = ["extendedKeyUsage=serverAuth,clientAuth"]
            if alternative_names:
                extensions.append(f"subjectAltName={','.join(alternative_names)}")
            signed_by = ["-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key)]
            self._openssl(pair, subject, extensions, signed_by)
        return pair

    def signing_key(self, name: str) -> Certificate:
        """A key pair without certificate (``.key`` and ``.pub``), for service account tokens."""
        pair = Certificate(certificate=self._folder / f"{name}.pub", key=self._folder / f"{name}.key")
        if not pair.exists():
            run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", pair.key], log=self._log)
            run(["openssl", "ec", "-in", pair.key, "-pubout", "-out", pair.certificate], log=self._log)
        return pair

    def _openssl(
        self, pair: Certificate, subject: str, extensions: Sequence[str], signed_by: Sequence[str] = ()
    ) -> None:
        added = [argument for extension in extensions for argument in ("-addext", extension)]
        files = ["-keyout", str(pair.key), "-out", str(pair.certificate)]
        run(
            ["openssl", "req", "-x509", "-days", _DAYS, *_NEW_KEY, *files, "-subj", subject, *added, *signed_by],
            log=self._log,
        )


def write_kubeconfig(path: Path, server: str, authority: Certificate, user: Certificate) -> None:
    """Writes a kubeconfig with embedded certificates, readable by its owner alone."""

    def embedded(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    text = f"""\
apiVersion: v1
kind: Config
current-context: kafkaspark-local
contexts:
- name: kafkaspark-local
  context: {{cluster: kafkaspark-local, user: {user.certificate.stem}}}
clusters:
- name: kafkaspark-local
  cluster:
    server: {server}
    certificate-authority-data: {embedded(authority.certificate)}
users:
- name: {user.certificate.stem}
  user:
    client-certificate-data: {embedded(user.certificate)}
    client-key-data: {embedded(user.key)}
"""
    path.touch(mode=0o600)
    path.write_text(text)
