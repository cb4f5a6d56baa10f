"""Arguments of transactional ids by hint that cannot be; group H has the arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.errors import InvalidArgument
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    TransactionalIdGenerator,
    TransactionalIdHint,
    check_prefix,
    number_of,
)

NO_NUMBERS = [1.5, 1.0, True, None, "1"]


@pytest.mark.parametrize("wrong", NO_NUMBERS)
def test_H17_a_hint_has_whole_numbers(wrong: Any) -> None:
    for numbers in ((wrong, 0), (0, wrong)):
        with pytest.raises(InvalidArgument, match="must be a whole number"):
            TransactionalIdHint(*numbers)


@pytest.mark.parametrize("wrong", NO_NUMBERS)
@pytest.mark.parametrize("name", ["parallelism", "pool_size"])
def test_H17_a_hint_advances_by_whole_numbers(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} must be a whole number"):
        FIRST_HINT.advance(**{"parallelism": 2, "pool_size": 5, name: wrong})


@pytest.mark.parametrize("wrong", NO_NUMBERS)
@pytest.mark.parametrize("name", ["subtask", "parallelism", "pool_size", "safe_scale_down_factor"])
def test_H17_a_generator_has_whole_numbers(name: str, wrong: Any) -> None:
    arguments: dict[str, Any] = {"prefix": "p", "subtask": 0, "parallelism": 2, "pool_size": 5, name: wrong}
    with pytest.raises(InvalidArgument, match=f"{name} must be a whole number"):
        TransactionalIdGenerator(**arguments)


@pytest.mark.parametrize("wrong", NO_NUMBERS)
def test_H17_ids_begin_at_a_whole_number(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="next_free must be a whole number"):
        TransactionalIdGenerator(prefix="p", subtask=0, parallelism=1, pool_size=5).ids_to_use(next_free=wrong)


@pytest.mark.parametrize("wrong", [None, 5, b"p"])
def test_H17_prefix_and_id_are_texts(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        TransactionalIdGenerator(prefix=wrong, subtask=0, parallelism=1, pool_size=5)
    with pytest.raises(InvalidArgument):
        check_prefix(wrong)
    with pytest.raises(InvalidArgument):
        number_of(wrong, "p")
    with pytest.raises(InvalidArgument):
        number_of("p-1", wrong)
