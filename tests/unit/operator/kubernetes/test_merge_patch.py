"""Merge patches lead from one object to the other, whatever the two are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkasparkjob_operator.kubernetes.merge_patch import merge_patch
from tests.support.fakes.kubernetes import merged

JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


@given(before=OBJECTS, after=OBJECTS)
def test_a_merge_patch_leads_from_one_to_the_other(before: dict[str, object], after: dict[str, object]) -> None:
    assert merged(before, merge_patch(before, after)) == after
    assert merge_patch(after, after) == {}
