"""Texts that are nested deeply are refused, in a process with the operator's limit of frames."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from kafkasparkjob_operator import __main__ as operator
from kafkasparkjob_operator.observation.observation import attempt_record
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.errors import CheckpointCorrupt

sys.setrecursionlimit(operator._FRAMES)
levels = int(sys.argv[1])
for opening, end in (('{"a":', "}"), ("[", "]")):
    nested = opening * levels + "1" + end * levels
    for text in (nested, '{"formatVersion":' + nested + "}"):
        try:
            decode(text, job_uid="uid")
        except CheckpointCorrupt as refused:
            assert len(refused.message) < 1000
        else:
            raise AssertionError
    for text in (nested, '{"generation":1,"spec":{},"references":' + nested + "}", '{"generation":' + nested + "}"):
        labels = {"kafkaspark.io/attempt": "1"}
        attempt_record({"metadata": {"labels": labels, "uid": "u"}, "data": {"resource-spec.json": text}})
"""


@pytest.mark.parametrize("levels", [900, 9_990, 14_000, 45_000, 100_000])
def test_a_nested_text_is_refused(levels: int) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, str(levels)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"status {ran.returncode}: {ran.stderr[-2000:]}"
