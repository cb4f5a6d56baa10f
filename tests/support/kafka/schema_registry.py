"""A small schema registry: Confluent's REST interface over real HTTP, and writers for tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import fastavro
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from localcluster.kubernetes.pki import Certificate
from sparkapp.model.job.access.registry_access import RegistryAccess
from tests.support.kafka.tls.json_server import Request, Response, json_server

_GREATEST_ID = (1 << 31) - 1


@dataclass
class RegistryServer:
    """Schemas by id and by subject; ids begin at 1.

    :param broken: number of requests answered with 503 first.
    :param authorization: the Authorization header that it wants; by default it is open to everybody.
    :param elsewhere: sends every request to this URL instead.
    :param closed: subjects that refuse every further schema as incompatible.
    """

    url: str = ""
    broken: int = 0
    authorization: str | None = None
    elsewhere: str = ""
    closed: frozenset[str] = frozenset()
    requests: list[str] = field(default_factory=list)
    seen: list[str | None] = field(default_factory=list)
    """The Authorization header of each request."""
    connections: int = 0
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    @property
    def access(self) -> RegistryAccess:
        """How a job reaches it that shows no credentials."""
        return RegistryAccess(url=self.url)

    def register(
        self, subject: str, schema: object, *, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Adds a version to a subject and returns the schema's id."""
        body: dict[str, Any] = {"schema": schema if isinstance(schema, str) else json.dumps(schema)}
        if kind != "AVRO":
            body["schemaType"] = kind
        if references:
            body["references"] = list(references)
        return self._add(subject, body)

    def register_protobuf(
        self, subject: str, file: FileDescriptorProto, *, references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Adds a compiled file, which a registry hands out with ``format=serialized``."""
        compiled = base64.b64encode(file.SerializeToString()).decode()
        body = {"schema": f"// {file.name}", "schemaType": "PROTOBUF", "compiled": compiled}
        return self._add(subject, {**body, "references": list(references)})

    def _add(self, subject: str, body: dict[str, Any]) -> int:
        number = len(self.schemas) + 1
        self.schemas[number] = body
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, authorization: str | None, body: str = "") -> tuple[int, dict[str, Any]]:
        self.requests.append(path)
        self.seen.append(authorization)
        if self.authorization is not None and authorization != self.authorization:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.broken:
            self.broken -= 1
            return 503, {"error_code": 50301, "message": "starting"}
        path, _, query = path.partition("?")
        if body:
            return self._given(unquote(path).strip("/").split("/"), json.loads(body))
        answer = self._found(unquote(path).strip("/").split("/"))
        if answer[0] == 200 and parse_qs(query).get("format") == ["serialized"]:
            body = answer[1]
            if "compiled" not in body:
                return 422, {"error_code": 42201, "message": "format serialized is not supported"}
            return 200, {**body, "schema": body["compiled"]}
        return answer

    def _given(self, names: list[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A client asks for a schema by its text, or registers it."""
        *_, last = names
        subject = "/".join(names[1:-1] if last == "versions" else names[1:])
        same = [number for number in self.subjects.get(subject, []) if self._is_same(self.schemas[number], body)]
        if same:
            return 200, {"subject": subject, "version": 1, "id": same[0], **self.schemas[same[0]]}
        if last != "versions":
            code, what = (40403, "Schema") if subject in self.subjects else (40401, "Subject")
            return 404, {"error_code": code, "message": f"{what} not found"}
        if subject in self.closed:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        return 200, {"id": self._add(subject, {name: body[name] for name in ("schema", "schemaType") if name in body})}

    @staticmethod
    def _is_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
        kinds = {each.get("schemaType") or "AVRO" for each in (left, right)}
        if len(kinds) > 1 or kinds == {"PROTOBUF"}:
            return len(kinds) == 1 and bool(left["schema"] == right["schema"])
        return bool(json.loads(left["schema"]) == json.loads(right["schema"]))

    def _found(self, names: list[str]) -> tuple[int, dict[str, Any]]:
        match names:
            case ["schemas", "ids", number] if int(number) > _GREATEST_ID:
                pass  # no path of this interface, whose ids are integers of Java
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["schemas", "ids", _]:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ["subjects", *name, "versions", version] if "/".join(name) in self.subjects:
                ids = self.subjects["/".join(name)]
                index = len(ids) if version == "latest" else int(version)
                if index > len(ids):
                    return 404, {"error_code": 40402, "message": "Version not found"}
                return 200, {
                    "subject": "/".join(name),
                    "version": index,
                    "id": ids[index - 1],
                    **self.schemas[ids[index - 1]],
                }
            case ["subjects", *_]:
                return 404, {"error_code": 40401, "message": "Subject not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


def basic(user: str, password: str) -> str:
    """The header of a user with a password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def registry(
    *,
    host: str = "127.0.0.1",
    authorization: str | None = None,
    certificate: Certificate | None = None,
    clients: Path | None = None,
) -> Iterator[RegistryServer]:
    """A registry that listens until the block ends.

    :param host: the address that it listens at.
    :param certificate: its own; with one it speaks TLS only.
    :param clients: the authority of the client certificates that it asks for.
    """
    state = RegistryServer(authorization=authorization)

    def answer(request: Request) -> Response:
        status, body = state.answer(request.path, request.authorization, request.body)
        if state.elsewhere:
            return Response(302, body, location=state.elsewhere + request.path)
        return Response(status, body)

    def connected() -> None:
        state.connections += 1

    with json_server(answer, host=host, certificate=certificate, clients=clients, connected=connected) as url:
        state.url = url
        yield state


def framed(schema_id: int, schema: object, record: object) -> bytes:
    """A record as Confluent's serializer writes it."""
    out = BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, {}), record)
    return out.getvalue()


def framed_protobuf(schema_id: int, message: bytes, *indexes: int) -> bytes:
    """A serialized message as Confluent's serializer frames it; without indexes it is the file's first."""
    places = b"\x00" if not indexes else bytes(2 * number for number in (len(indexes), *indexes))
    return b"\x00" + schema_id.to_bytes(4, "big") + places + message
