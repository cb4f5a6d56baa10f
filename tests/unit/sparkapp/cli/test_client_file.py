"""A file of client properties: what has no effect, and what would leave TLS out or weaken it, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.cli.client_file import read_properties
from sparkapp.model.errors import CommandRefused


def written(folder: Path, *lines: str) -> Path:
    file = folder / "client.properties"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_a_file_with_tls(tmp_path: Path) -> None:
    lines = (
        "# of the team", "security.protocol = SASL_SSL", "ssl.ca.location=/ca.crt", "sasl.password=a=b",
        "ssl.endpoint.identification.algorithm=https", "enable.ssl.certificate.verification=TRUE",
    )  # fmt: skip
    assert read_properties(written(tmp_path, *lines), allow_insecure=False) == {
        "security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.crt", "sasl.password": "a=b",
        "ssl.endpoint.identification.algorithm": "https", "enable.ssl.certificate.verification": "TRUE",
    }  # fmt: skip


def test_credentials_without_tls_only_on_purpose(tmp_path: Path) -> None:
    file = written(tmp_path, "security.protocol=sasl_plaintext", "sasl.password=hunter2")
    with pytest.raises(CommandRefused, match="sends credentials without TLS") as caught:
        read_properties(file, allow_insecure=False)
    assert "--allow-insecure" in caught.value.remedy
    assert read_properties(file, allow_insecure=True)["sasl.password"] == "hunter2"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("enable.ssl.certificate.verification=false", "ssl.ca.location"),
        ("ssl.endpoint.identification.algorithm=none", "ssl.ca.location"),
        ("sasl.oauthbearer.method=oidc", "tokenFile"),
        ("sasl.jaas.config=x", "sasl.username"),
        ("nothing", "client property"),
    ],
)
@pytest.mark.parametrize("allow_insecure", [True, False])
def test_a_line_that_is_refused_whatever_is_allowed(
    tmp_path: Path, line: str, remedy: str, allow_insecure: bool
) -> None:
    with pytest.raises(CommandRefused, match="line 1") as caught:
        read_properties(written(tmp_path, line), allow_insecure=allow_insecure)
    assert remedy in caught.value.remedy
