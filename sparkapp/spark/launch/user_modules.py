"""The folder of user modules from a ConfigMap: where it is in Python's search path, and which names it may have.

It is behind all other folders. So a user's ``logging.py`` hides no module from driver, daemon or worker. Python then
imports another module in its place, and the driver refuses such a name.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from sparkapp.model import names
from sparkapp.model.errors import TransformError

VARIABLE = "KAFKASPARK_CODE"
"""Names the folder outside a pod, and for Spark's workers; the settings of a session set it."""
_PYTHON_PATH = "PYTHONPATH"
_SHOWN = 5


def code_directory() -> str:
    """The folder of user modules from a ConfigMap; outside a pod ``KAFKASPARK_CODE`` names another folder."""
    return os.environ.get(VARIABLE, names.CODE_DIRECTORY)


def find_user_modules() -> None:
    """Has Python find the user's modules; called by the worker daemon, whose workers inherit it."""
    directory = code_directory()
    if Path(directory).is_dir() and directory not in sys.path:
        sys.path.append(directory)


def python_path() -> dict[str, str]:
    """The variable with which Python processes of the driver's JVM find the user's modules; empty without such modules.

    Called for the JVM. Spark starts such a process to ask a ``StatefulProcessor`` for its state, before any task.
    """
    directory = code_directory()
    if not Path(directory).is_dir():
        return {}
    return {_PYTHON_PATH: os.pathsep.join(filter(None, (os.environ.get(_PYTHON_PATH), directory)))}


def allow_decorators() -> None:
    """Has a module with ``@udf("string")`` import in a worker, which has no JVM to read the type.

    Called by the worker daemon, whose workers inherit it. A worker plans nothing, so nobody reads the type there.
    """
    from pyspark.sql.udf import UserDefinedFunction

    setattr(UserDefinedFunction, "returnType", property(lambda function: function._returnType))  # noqa: B010


def check_user_modules() -> None:
    """Called by the driver before it imports any of them. Nothing is checked once they can be found.

    :raises TransformError: a file has the name of a module of Python, of a package of the image or of ours.
    """
    directory = Path(code_directory())
    if str(directory) in sys.path or not directory.is_dir():
        return
    hidden = [(file, name) for file, name in sorted(_modules_in(directory)) if _is_taken(name)]
    if hidden:
        shown = ", ".join(f"{file} (module {name!r})" for file, name in hidden[:_SHOWN])
        msg = f"Python or a package of the image has a module of the same name as the user's {shown}"
        file, name = hidden[0]
        remedy = (
            f"rename {file} in the ConfigMap of spec.transform, for instance to my_{file}, and import my_{name};"
            " the job then restarts by itself"
        )
        raise TransformError(msg, remedy=remedy)


def _modules_in(directory: Path) -> Iterator[tuple[str, str]]:
    """Each file or folder that is a module, and the module's name. Kubernetes' own entries begin with two points."""
    for entry in directory.iterdir():
        name = entry.name if entry.is_dir() and _has_modules(entry) else inspect.getmodulename(entry.name)
        if name is not None and name.isidentifier() and name != "__pycache__":
            yield entry.name, name


def _is_taken(name: str) -> bool:
    if name in sys.stdlib_module_names:
        return True
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a description, as __main__
        return True
    if found is None or found.origin is not None:
        return found is not None
    # A folder without an __init__.py, as the package google is.
    return any(_has_modules(Path(folder)) for folder in found.submodule_search_locations or ())


def _has_modules(folder: Path) -> bool:
    return any(inspect.getmodulename(file.name) for file in folder.rglob("*"))
