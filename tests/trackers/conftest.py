"""An MLflow server: the stand-in, or the real one of `make trackers`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.trackers.mlflow_server import Mlflow, MlflowFront, RealMlflow, StandInMlflow, real_server

ENVIRONMENT = "COSTGUARD_TRACKERS"  # names an environment that has MLflow and W&B's client


@pytest.fixture(scope="session")
def real_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mlflow | None]:
    """Runs a real MLflow; None where no environment is named."""
    environment = os.environ.get(ENVIRONMENT)
    if environment is None:
        yield None
        return
    with (
        real_server(Path(environment) / "bin/python", tmp_path_factory.mktemp("mlflow")) as url,
        closing(RealMlflow(url)) as mlflow,
    ):
        yield mlflow


@pytest.fixture
def server(real_mlflow: Mlflow | None) -> Iterator[MlflowFront]:
    with MlflowFront(real_mlflow or StandInMlflow()).listening() as listening:
        yield listening
