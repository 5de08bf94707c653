"""Settings of experiment trackers: where they are, and where their secrets come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.settings.reading import read, refused

from costguard.model.delivery.tracker import Tracker

GOOD = '[watch]\nprojects = ["ml-training"]\n'
MLFLOW = GOOD + "[trackers.mlflow]\n"
WANDB = GOOD + "[trackers.wandb]\n"
URL = 'url = "https://mlflow.example.com/"\n'


def test_secrets_come_from_the_environment_and_show_nowhere(tmp_path: Path) -> None:
    """The secrets may also come from files that variables name."""
    (tmp_path / "key").write_text("a-wandb-key\n")
    given = {"COSTGUARD_MLFLOW_TOKEN": "a-password", "COSTGUARD_WANDB_API_KEY_FILE": str(tmp_path / "key")}
    settings = read(tmp_path, MLFLOW + URL + 'user = "costguard"\n[trackers.wandb]\n', **given)
    mlflow, wandb = settings.trackers.mlflow, settings.trackers.wandb
    assert mlflow is not None
    assert wandb is not None
    assert (mlflow.url, mlflow.token.get_secret_value()) == ("https://mlflow.example.com", "a-password")
    assert (wandb.url, wandb.api_key.get_secret_value()) == ("https://api.wandb.ai", "a-wandb-key")
    assert settings.rules().jobs.trackers == {Tracker.MLFLOW, Tracker.WANDB}
    shown = f"{settings!r} {settings.model_dump()}"
    assert "a-password" not in shown
    assert "a-wandb-key" not in shown


def test_a_server_may_need_no_secret(tmp_path: Path) -> None:
    """MLflow has none unless it is set up."""
    assert read(tmp_path, MLFLOW + URL).rules().jobs.trackers == {Tracker.MLFLOW}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MLFLOW, "trackers.mlflow.url: missing; expected where its server is"),
        (MLFLOW + 'url = "http://mlflow.example.com"', "with http:// only on this computer"),
        (MLFLOW + 'url = "https://ana:pw@mlflow.example.com"', "an address without a user"),
        (MLFLOW + URL + 'user = "ana"', "needs the password of the user, in COSTGUARD_MLFLOW_TOKEN"),
        (MLFLOW + URL + 'token = "abc"', "no such key; it comes from the environment: COSTGUARD_MLFLOW_TOKEN"),
        (WANDB, "trackers.wandb: needs an API key of W&B, in COSTGUARD_WANDB_API_KEY"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, expected: str) -> None:
    """The mistake has the key, and what was expected."""
    assert expected in str(refused(tmp_path, text))
