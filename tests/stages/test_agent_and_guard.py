"""The agent's code against the real API and ledger: a job pays once for its input, whatever becomes of its VMs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.agent.counting_proxy import counting_proxy
from tests.agent.s3_server import S3Server, s3_server
from tests.agent.staged import BATCH, FILES, FRESH, K, StagedGround, VmLost
from tests.api.conftest import Standstill, deps_of
from tests.api.rows import NOW
from tests.authenticators import keyed
from tests.jobs import job_rows
from tests.serving import serving
from tests.stages.staged import job

from costguard.access.rules import JobRules
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.jobs.rows import attempts
from costguard.model.attempt import AttemptState
from costguard.model.data import StageRules
from costguard.model.job import JobInput
from costguard.model.money import Money
from costguard.spend import downloads
from costguard.stages import stage_rows
from costguard.stages.stage import StageState
from costguard_vm.agent.transfers.staging import PROBES

TOKENS = AgentTokens(b"k" * 32)
PRICE = Money.of(9)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "served", FRESH) as server:
        (server.folder / "acme").mkdir()
        yield server


@dataclass
class ServedGuard:
    """Stands in for the agents' guard of tests: the address is of the real API, and the token of one attempt."""

    url: str
    token: str = ""
    over: set[str] = field(default_factory=set)


def test_two_vms_are_lost_and_the_ledger_has_what_left_the_source(
    tmp_path: Path, s3: S3Server, sqlite_database: Database
) -> None:
    """The third VM takes what is staged; the ledger's dollars are those of the bytes, and less than two downloads."""
    place = (tmp_path / "stage").as_uri()
    rules = StageRules(place)
    deps = deps_of(sqlite_database)
    agents = AgentEvents(sqlite_database, Standstill(), TOKENS, lambda: None)
    deps = replace(deps, rules=replace(deps.rules, jobs=JobRules(stage=rules)), authenticator=keyed("another"))
    with serving(create_app(replace(deps, agent_events=agents))) as url, counting_proxy(s3.url) as proxy:
        ground = StagedGround(tmp_path, s3, proxy, ServedGuard(url))  # type: ignore[arg-type]
        ground.batch_bytes = BATCH
        with sqlite_database.write() as connection:
            names = job(connection, vms=1, inputs=(JobInput(ground.source, "/data", PRICE, staged=True),))
        for number in (1, 2, 3):
            ground.guard.token = TOKENS.of(names[-1])
            until = proxy.total + K // 3 if number < 3 else None

            def wait(seconds: float, until: int | None = until) -> None:
                if until is not None and proxy.total > until:
                    raise VmLost

            more = {"stages": {str(tmp_path / names[-1] / "data"): rules.address_in("us-central1")}}
            if number < 3:
                with pytest.raises(VmLost):
                    ground.fetch(names[-1], wait=wait, **more)
                with sqlite_database.write() as connection:
                    (last,) = [one for one in attempts.of_jobs(connection, ["j1"])["j1"] if one.name == names[-1]]
                    assert attempts.change(connection, last.id, [last.state], state=AttemptState.OVER, ended_at=NOW)
                    made = job_rows.attempt(
                        connection, "j1", number + 1, state=AttemptState.RUNNING, made_at=NOW, heard_at=NOW
                    )
                names.append(made.name)
            else:
                assert ground.fetch(names[-1], wait=wait, **more) == FILES
        assert K < proxy.total <= K + 2 * 2 * BATCH + 3 * PROBES
        with sqlite_database.read() as connection:
            paid = downloads.of_jobs(connection, ["j1"])["j1"]
            (stage,) = stage_rows.stored(connection)
    assert (stage.state, stage.staged, stage.holder) == (StageState.WHOLE, K, "")
    counted = paid.nanos * K // PRICE.nanos
    assert proxy.total - 3 * PROBES - 1 <= counted + 3 <= K + 2 * 2 * BATCH + 3
