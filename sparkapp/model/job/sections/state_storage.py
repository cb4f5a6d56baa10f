"""``spec.checkpoint.state.storage``: an object store that holds the state of the transform's operators."""

from __future__ import annotations

from sparkapp.model.encoding.schema import Rule, at, part, text_of
from sparkapp.model.job.forms import OBJECT, OBJECT_KEY

ACCESS_KEY_VARIABLE = "AWS_ACCESS_KEY_ID"
SECRET_KEY_VARIABLE = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - a variable's name
"""Where the clients of driver and executors look for credentials: variables of the pods, from the Secret."""

_BUCKET = text_of(
    3,
    63,
    Rule(
        "self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')",
        "checkpoint.state.storage.s3.bucket has 3 to 63 lower case letters, digits, '.' and '-'; write a folder of"
        " the bucket into prefix",
    ),
)
_PREFIX = text_of(
    0,
    512,
    Rule(
        "self.matches('^([A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*)?$')",
        "checkpoint.state.storage.s3.prefix has names separated by '/', of letters, digits, '.', '_', '=' and '-', and"
        " neither begins nor ends with '/'",
    ),
)
_ENDPOINT = text_of(
    0,
    2048,
    Rule(
        "self.matches('^(https?://[A-Za-z0-9.-]+(:[0-9]+)?)?$')",
        "checkpoint.state.storage.s3.endpoint is the address of the store alone, as http://seaweedfs.storage:8333",
    ),
)
_REGION = text_of(1, 64, pattern="^[a-z0-9-]+$")


@part
class S3Credentials:
    """``s3.credentials``. The names of keys are those of the variables, as most tools have them."""

    secret_name: str = at("Name of a Secret in the job's namespace.", form=OBJECT)
    access_key_id: str = at(
        "Key of the Secret that holds the access key id.", default=ACCESS_KEY_VARIABLE, form=OBJECT_KEY
    )
    secret_access_key: str = at(
        "Key of the Secret that holds the secret access key.", default=SECRET_KEY_VARIABLE, form=OBJECT_KEY
    )

    @property
    def variables(self) -> dict[str, str]:
        """The keys of the Secret, by the variables of a pod that gets them."""
        return {ACCESS_KEY_VARIABLE: self.access_key_id, SECRET_KEY_VARIABLE: self.secret_access_key}


@part
class S3Storage:
    """``spec.checkpoint.state.storage.s3``.

    :param endpoint: empty for Amazon's of the region.
    :param credentials: None for what the pods have anyway: variables of their own, or the identity of the node.
    """

    bucket: str = at("Name of the bucket.", form=_BUCKET)
    prefix: str = at(
        "Beginning of the keys. Each job has a folder with the UID of its resource below it.", default="", form=_PREFIX
    )
    endpoint: str = at(
        "Address of the store with its protocol, for a store other than Amazon's.", default="", form=_ENDPOINT
    )
    region: str = at("Region of the bucket.", default="us-east-1", form=_REGION)
    path_style_access: bool = at(
        "Requests that have the bucket in the path, and not in the host name. Most stores other than Amazon's need it.",
        default=False,
    )
    credentials: S3Credentials | None = at(
        "Access key in a Secret, which driver and executors get as variables. Without it they use what their"
        " environment has.",
        default=None,
    )

    def folder(self, job_uid: str) -> str:
        """The folder of a job as a path, which begins with the bucket."""
        return "/".join(filter(None, (self.bucket, self.prefix, job_uid)))

    @property
    def shown(self) -> str:
        """For messages: where a person looks."""
        where = f"s3://{self.bucket}/{self.prefix}".rstrip("/")
        return f"{where} at {self.endpoint}" if self.endpoint else where
