"""Settings from the environment."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.settings import Settings, settings_from_environment
from sparkapp.model.errors import ConfigurationError


def test_settings_come_from_the_environment() -> None:
    settings = settings_from_environment(
        {
            "KAFKASPARK_OPERATOR_WATCH_NAMESPACES": "team-a, team-b,",
            "KAFKASPARK_OPERATOR_WORKERS": "3",
            "KAFKASPARK_OPERATOR_LEADER_ELECTION": "False",
            "KAFKASPARK_OPERATOR_TRANSACTIONAL_ID_PREFIXES": '{"team-a": ["legacy-"]}',
            "KAFKASPARK_OPERATOR_NETWORK_RULES": '{"driver": {"egress": [{}]}, "executor": {}}',
        }
    )
    assert settings.watch_namespaces == ("team-a", "team-b")
    assert (settings.workers, settings.leader_election) == (3, False)
    assert settings.resync_seconds == Settings().resync_seconds
    assert settings.transactional_id_prefixes == {"team-a": ("legacy-",)}
    assert settings.network_rules == {"driver": {"egress": [{}]}, "executor": {}}
    assert settings.identity


@pytest.mark.parametrize(
    "setting",
    [
        "WORKERS=0",
        "WORKERS=x",
        "LEADER_ELECTION=maybe",
        "HTTP_PORT=-1",
        "TRANSACTIONAL_ID_PREFIXES=legacy-",
        'TRANSACTIONAL_ID_PREFIXES={"a": "b"}',
        "NETWORK_RULES=[]",
        'NETWORK_RULES={"driver": {}}',
        'NETWORK_RULES={"driver": {"egres": []}, "executor": {}}',
        'NETWORK_RULES={"driver": {"egress": [1]}, "executor": {}}',
    ],
)
def test_settings_that_cannot_work_are_refused(setting: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(ConfigurationError, match=name):
        settings_from_environment({f"KAFKASPARK_OPERATOR_{name}": value})


def test_the_default_job_image_is_empty_unless_the_environment_has_one() -> None:
    assert settings_from_environment({}).default_job_image == ""
    given = {"KAFKASPARK_OPERATOR_DEFAULT_JOB_IMAGE": "kafkaspark/sparkapp:2"}
    assert settings_from_environment(given).default_job_image == "kafkaspark/sparkapp:2"
