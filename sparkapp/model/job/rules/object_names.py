"""The names of Secrets, ConfigMaps and claims in a job's fields: Kubernetes gives no others to its objects.

The operator puts such names into pods, into Roles and into the paths of its requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkapp.model import names
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.access.registry_access import RegistryAuthentication
from sparkapp.model.job.access.security import Authentication, Tls, TrustedCertificate
from sparkapp.model.job.spec import JobSpec


def check_object_name(name: str, where: str) -> None:
    """Called for each field that names an object, also by the operator for the fields that only it needs.

    :param where: path of the field.
    :raises ConfigurationError: no object can have the name.
    """
    require(
        names.is_object_name(name),
        where,
        f"{name[: names.MAX_OBJECT_NAME]!r} cannot be the name of an object: use at most {names.MAX_OBJECT_NAME}"
        " lower case letters, digits, '-' and '.'",
    )


def check_object_names(spec: JobSpec) -> None:
    """
    :raises ConfigurationError: naming the field whose name no object can have.
    """
    for where, name in _named(spec):
        if name:
            check_object_name(name, where)


def _named(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Path and value of each field that names an object; empty where the job does not set it."""
    yield "spec.transform.python.configMapRef.name", spec.transform.config_map
    yield "spec.transform.arrow.configMapRef.name", spec.transform.arrow.config_map
    yield "spec.checkpoint.stateVolume.claimName", spec.state_claim
    yield from _of_access(spec.kafka.tls, spec.kafka.authentication, "spec.kafka")
    registry = spec.source.schema_registry
    if registry is not None:
        yield from _of_access(registry.tls, registry.authentication, "spec.source.schemaRegistry")


def _of_access(
    tls: Tls | None, who: Authentication | RegistryAuthentication | None, path: str
) -> Iterator[tuple[str, str]]:
    if tls is not None:
        yield from _of_certificates(tls.trusted_certificates, f"{path}.tls.trustedCertificates")
    if who is None:
        return
    secrets = {
        "passwordSecret": who.password_secret, "certificateAndKey": who.certificate_and_key,
        "accessToken": who.access_token,
    }  # fmt: skip
    for field, secret in secrets.items():
        if secret is not None:
            yield f"{path}.authentication.{field}.secretName", secret.secret_name
    if isinstance(who, Authentication):
        if who.client_secret is not None:
            yield f"{path}.authentication.clientSecret.secretName", who.client_secret.secret_name
        yield from _of_certificates(who.tls_trusted_certificates, f"{path}.authentication.tlsTrustedCertificates")


def _of_certificates(certificates: tuple[TrustedCertificate, ...], path: str) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(certificates):
        yield f"{path}[{index}].secretName", entry.secret_name
