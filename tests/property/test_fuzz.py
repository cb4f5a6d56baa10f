"""Every decoder under damaged input, as long as CI has time for it; by the hour: ``python -m tests.fuzz``."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.targets import TARGETS

EXAMPLES = {"utf8": 5_000, "columns": 40, "avro": 300, "protobuf": 300, "state": 2_000, "report": 5_000}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_input_does_more_than_it_may(name: str) -> None:
    with TARGETS[name]() as check:
        for seed in range(EXAMPLES[name]):
            try:
                check(Random(seed))
            except Exception as error:
                error.add_note(f"python -m tests.fuzz --target {name} --seed {seed}")
                raise
