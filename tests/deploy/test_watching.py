"""Watchers of the guard are tested against what the guard really tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.api.scraped import Scrape, full_scrape
from tests.deploy import promtool
from tests.deploy.test_deploy import parsed

from costguard.db.transaction import Database

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
OF_THE_SCRAPE = {"job", "instance"}  # labels that Prometheus itself adds
_METRIC = re.compile(r"\b((?:costguard|process)_\w+|up)\b(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")


def queries(thing: Any) -> Iterator[tuple[str, str]]:
    """Each query of the dashboard with the text of its legend."""
    if isinstance(thing, dict):
        if "expr" in thing:
            yield thing["expr"], thing.get("legendFormat", "")
        for value in thing.values():
            yield from queries(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from queries(value)


def alerts() -> list[dict[str, Any]]:
    return [rule for group in parsed("prometheus-alerts.yaml")["groups"] for rule in group["rules"]]


def wrongs(query: str, scrape: Scrape) -> Iterator[str]:
    """The parts of a query that name no exported metric."""
    labels, labels_here = scrape.labels, set(OF_THE_SCRAPE)
    for pair in ("()", "{}", "[]"):
        if query.count(pair[0]) != query.count(pair[1]):
            yield f"unbalanced {pair}"
    for name, matchers in _METRIC.findall(query):
        if name != "up" and name not in labels:
            yield f"no metric {name}"
            continue
        labels_here |= labels.get(name, set())
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in labels.get(name, set()) | OF_THE_SCRAPE:
                yield f"no label {label} of {name}"
    for label in re.findall(r"\w+", " ".join(_BY.findall(query))):
        if label not in labels_here:
            yield f"no label {label}"


@pytest.fixture
def scrape(sqlite_database: Database) -> Scrape:
    return full_scrape(sqlite_database)


def test_what_is_asked_for_is_told(scrape: Scrape) -> None:
    """Each metric and label in the dashboard's queries, variables and legends and in the alerts is in a real scrape."""
    expressions = list(queries(BOARD))
    assert len(expressions) > 40
    expressions += [(rule["expr"], " ".join(rule["annotations"].values())) for rule in alerts()]
    assert [(query, wrong) for query, _ in expressions for wrong in wrongs(query, scrape)] == []
    for query, legend in expressions:
        shown = {*re.findall(r"\{\{(\w+)\}\}", legend), *re.findall(r"\$labels\.(\w+)", legend)}
        grouped = set(re.findall(r"\w+", " ".join(_BY.findall(query))))
        assert shown <= grouped | OF_THE_SCRAPE, (query, legend)
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
            assert label in scrape.labels[metric] | OF_THE_SCRAPE


def test_everything_that_is_told_of_the_guard_is_shown(scrape: Scrape) -> None:
    """No family is exported that neither the dashboard nor an alert makes use of."""
    used = " ".join([*(query for query, _ in queries(BOARD)), *(rule["expr"] for rule in alerts())])
    # What every process tells of itself is there in full, for anyone who needs it.
    ours = {name for name in scrape.types if name.startswith("costguard_") and "_process_" not in name}
    assert [name for name in sorted(ours) if name not in used] == []


def test_panels_have_their_places() -> None:
    """Ids are distinct, no panel lies on another or leaves the grid of 24, and each says what it shows and in what."""
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["title"], *(panel["gridPos"][side] for side in "xywh")) for panel in panels]
    assert all(x >= 0 and x + w <= 24 and w > 0 and h > 0 for _, x, _, w, h in places)
    for (one, ax, ay, aw, ah), (other, bx, by, bw, bh) in combinations(places, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay, (one, other)
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert [target["refId"] for target in panel["targets"]] == list("ABCDEFG"[: len(panel["targets"])])


def test_the_dashboard_belongs_to_nobody_s_grafana() -> None:
    """The chosen Prometheus is asked, and nothing of the Grafana where it was drawn is left in it."""
    text = json.dumps(BOARD)
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}", "costguard"}
    assert BOARD["templating"]["list"][0]["type"] == "datasource"
    assert "id" not in BOARD
    assert "://" not in text
    defined = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$(?!__)\{?([a-z]\w*)", text)) <= defined


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    """Prometheus's own promtool feeds figures to every alert: some that raise it, and some that do not."""
    tool = promtool.promtool()
    if tool is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(promtool.missing())
    for file in (DEPLOY / "prometheus-alerts.yaml", Path(__file__).with_name("alerts_test.yaml")):
        shutil.copy(file, tmp_path)
    done = subprocess.run(
        [tool, "test", "rules", "alerts_test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tested = re.findall(
        r"alertname: (\w+)\n *eval_time: \w+\n *exp_alerts", (tmp_path / "alerts_test.yaml").read_text()
    )
    assert set(tested) == {rule["alert"] for rule in alerts()}


def test_alerts_say_what_to_do() -> None:
    """Each has a name of its own, a severity, and two sentences: what is so, and where to look."""
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    for rule in alerts():
        assert re.fullmatch(r"Costguard[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert all(rule["annotations"][part].endswith(".") for part in ("summary", "description"))


def test_the_scrape_shows_a_token_from_a_file() -> None:
    """The example asks Costguard with a token of its own, brings the alerts along, and is named as they expect it."""
    config = parsed("prometheus.yaml")
    [scrape] = config["scrape_configs"]
    assert (DEPLOY / config["rule_files"][0]).exists()
    assert scrape["authorization"]["credentials_file"]
    assert f'job="{scrape["job_name"]}"' in next(rule["expr"] for rule in alerts() if rule["alert"] == "CostguardDown")
