"""``spec.transform``: from the records that are read to those that are written."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from sparkapp.model.encoding.schema import Described, ObjectDefault, Rule, at, part, text_of
from sparkapp.model.job.forms import OBJECT


class OutputMode(StrEnum):
    """The output of an aggregation: final rows, or every change. Without an aggregation both are the same."""

    APPEND = "append"
    UPDATE = "update"


_FUNCTION = text_of(
    0,
    253,
    Rule(
        "self.matches('^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$')",
        "write module:function, for instance enrich:transform for the function transform of enrich.py",
    ),
)


@part
class ArrowTransform:
    """A function over Arrow batches; at most one of ``function`` and ``factory`` is set.

    :param function: called with each batch, and with a context if it takes one.
    :param config_map: as in :class:`Transform`.
    """

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "configMapRef": Described(
            "ConfigMap whose keys are the files of the module. Without it the image has the module."
        )
    }

    function: str = at(
        "Name of the function as module:function. It takes a pyarrow.RecordBatch, and returns a"
        " RecordBatch, several of them, or None.",
        default="",
        form=_FUNCTION,
    )
    factory: str = at(
        "Name of a function or class as module:factory. It is called without arguments once per"
        " subtask, and returns the function. The close method of what it returns is called at the end.",
        default="",
        form=_FUNCTION,
    )
    config_map: str = at("Name of the ConfigMap.", default="", path="configMapRef.name", required=True, form=OBJECT)

    @property
    def name(self) -> str:
        """``module:function`` or ``module:factory``; empty without an Arrow function."""
        return self.function or self.factory


@part
class Transform:
    """At most one of ``function``, ``arrow`` and ``sql``; none of them passes records through.

    :param config_map: ConfigMap whose keys are the module files; empty means that the image has the module.
    """

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "python": Described("Python function from DataFrame to DataFrame."),
        "python.configMapRef": Described(
            "ConfigMap whose keys are the files of the module. Without it the image has the module."
        ),
        "sql": Described("SQL query."),
    }

    function: str = at(
        "Name of the function as module:function, for instance enrich:transform.",
        default="",
        path="python.function",
        required=True,
        form=_FUNCTION,
    )
    config_map: str = at(
        "Name of the ConfigMap.", default="", path="python.configMapRef.name", required=True, form=OBJECT
    )
    arrow: ArrowTransform = at(
        "Python function from an Arrow batch of records to Arrow batches, for both engines.",
        default_factory=ArrowTransform,
        object_default=ObjectDefault.NONE,
    )
    sql: str = at('Query over the view "source".', default="", form=text_of(1, 32768), path="sql.query", required=True)
    output_mode: OutputMode = at(
        "Output of an aggregation. append writes final rows, update writes every change. Without an"
        " aggregation both are the same.",
        default=OutputMode.APPEND,
    )

    @property
    def passes_through(self) -> bool:
        """Whether records pass through unchanged."""
        return not (self.function or self.arrow.name or self.sql)

    @property
    def code(self) -> str:
        """The ConfigMap of the modules, whichever function it is for; empty where the image has them."""
        return self.config_map or self.arrow.config_map
