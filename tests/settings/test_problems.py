"""Wrong settings are described: the file, the line, the key, what was given and what was expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.settings.reading import refused

from costguard.errors import SettingsError
from costguard.settings import load, setting_keys, validate
from costguard.settings.messages import key_lines, line_of
from costguard.settings.sections import keys_in, pattern_of

GOOD = '[watch]\nprojects = ["ml-training"]\n'
BUDGET = GOOD + "[budgets.x]\nlimit = 10\nperiod = 'day'\n"


def lines(error: SettingsError) -> list[str]:
    return [line.strip().rpartition("/")[2] for line in error.message.splitlines()[1:]]


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Every problem is reported, in the order of the file, each with file, line, key, what was given and expected."""
    error = refused(
        tmp_path,
        '[watch]\nprojects = ["ml-training", "ML"]\nevry = "1m"\nparallel = true\n'
        '[presets.t4]\nlimit = "8 hours"\n[budgets.all]\nscope = { preset = "a10" }\nlimit = 9.5\n',
    )
    assert lines(error) == [
        'costguard.toml:2: watch.projects[1]: given "ML", expected a Google Cloud project id such as ml-training-prod '
        "(the id, not the name or the number)",
        "costguard.toml:3: watch.evry: no such key (did you mean every?); "
        "expected one of every, exclude, folders, organization, parallel, projects, tpu_nodes, vertex, "
        "vertex_regions, vms_without_gpu",
        "costguard.toml:4: watch.parallel: given true, expected a whole number",
        'costguard.toml:6: presets.t4.limit: given "8 hours", expected a time with its unit, such as 90s, 15m, 8h, 3d, '
        '1w or 1h30m (did you mean 8h?), or "never"',
        'costguard.toml:7: budgets.all.period: missing; expected "day", "week" or "month"',
        'costguard.toml:8: budgets.all.scope.preset: given "a10", expected a preset: t4, a100, multi-gpu, other '
        "(did you mean a100?)",
        "costguard.toml:9: budgets.all.limit: given 9.5, expected US dollars, as a whole number or in quotes: 2500 or "
        '"99.50" (did you mean "9.5"?)',
    ]
    assert error.message.startswith("There are 7 problems in the settings:")
    assert "costguard config check" in error.what_next


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[log]\nlevel = "INFO"\n', 'costguard.toml:2: log.level: given "INFO", expected "debug", "info", "warning"'),
        ("[watch]\nprojects = []\n", "costguard.toml:2: watch.projects: given an empty list, expected at least one"),
        ('[watch]\nprojects = "ml"\n', 'costguard.toml:2: watch.projects: given "ml", expected a list, such as ["one"'),
        ('[watch]\nprojects = ["ml-one", "ml-one"]\n', "costguard.toml:2: watch.projects: given a list, expected each"),
        ("", "costguard.toml: watch: missing; expected a section [watch] with projects"),
        ("watch = 3\n", "costguard.toml:1: watch: given 3, expected a table"),
        ("[watch]\n", "costguard.toml:1: watch.projects: missing; expected the projects to watch"),
        ("[watch]\nexclude = ['a-*']\n", "costguard.toml:1: watch.projects: missing; expected the projects to watch"),
        (
            "[watch]\norganization = 'acme.com'\n",
            'costguard.toml:2: watch.organization: given "acme.com", expected the number of an organisation, such as',
        ),
        (
            "[watch]\norganization = 123\n",
            "costguard.toml:2: watch.organization: given 123, expected text in quotes",
        ),
        (
            "[watch]\nfolders = ['7', 'organizations/7']\n",
            'costguard.toml:2: watch.folders[1]: given "organizations/7", expected the number of a folder, such as',
        ),
        (
            "[watch]\nfolders = ['7', 'folders/7']\n",
            "costguard.toml:2: watch.folders: given a list, expected each folder once (folders/7 is",
        ),
        (
            GOOD + "exclude = ['Lab*']\n",
            'costguard.toml:3: watch.exclude[0]: given "Lab*", expected a project id, or a pattern of them',
        ),
        (
            GOOD + "exclude = ['ml-*']\n",
            "costguard.toml:3: watch.exclude: given a list, expected patterns that leave a project to watch",
        ),
        (
            "[watch]\nfolders = ['7']\nexclude = ['*']\n",
            "costguard.toml:3: watch.exclude: given a list, expected patterns that leave a project to watch",
        ),
        (GOOD + 'every = "2h"\n', 'costguard.toml:3: watch.every: given "2h", expected a time from 10s to 1h'),
        (GOOD + "parallel = 0\n", "costguard.toml:3: watch.parallel: given 0, expected at least 1"),
        (GOOD + "parallel = 65\n", "costguard.toml:3: watch.parallel: given 65, expected at most 64"),
        (GOOD + "every = 07:32:00\n", "costguard.toml:3: watch.every: given 07:32:00, expected a time with its unit"),
        (GOOD + "[watches]\n", "costguard.toml:3: watches: no such key (did you mean watch?); expected one of access"),
        (
            GOOD + "[runs]\n",
            "costguard.toml:3: runs: no such key; expected one of access, bill, budgets, checkpoints, compute",
        ),
        (GOOD + "[presets.cpu]\n", "costguard.toml:3: presets.cpu.limit: missing; expected how long a VM may run"),
        (GOOD + "[presets.t4]\nzones = []\n", "costguard.toml:4: presets.t4.zones: no such key; expected one of desc"),
        (GOOD + "[presets.T4]\nlimit = '8h'\n", 'costguard.toml:3: presets.T4: given "T4", expected a name of small'),
        (GOOD + "presets.t4.match.gpu_types = ['T4']\n", "watch.presets: no such key here; expected it in a section"),
        (
            GOOD + "[presets.t4]\nmatch.gpu_count_min = 2\n",
            "expected gpu_count_min (2) no larger than gpu_count_max (1)",
        ),
        (
            GOOD + "[presets.t4]\nmatch.gpu_types = ['T4']\n",
            'presets.t4.match.gpu_types[0]: given "T4", expected an acc',
        ),
        (
            GOOD + "[presets.v9]\nlimit = '8h'\nmatch.accelerator = 'v9z'\n",
            'presets.v9.match.accelerator: given "v9z", expected an accelerator type: a GPU as Google writes it',
        ),
        (
            GOOD + "[presets.t4]\nlaunch.gpu_type = 'v6e'\n",
            'presets.t4.launch.gpu_type: given "v6e", expected an acc',
        ),
        (GOOD + "[presets.other]\nmatch.gpu_count_min = 2\n", "costguard.toml:4: presets.other.match: no such key"),
        (
            GOOD + "[owners]\nclusters = { 'train/' = 'ana@example.com' }\n",
            'costguard.toml:4: owners.clusters.train/: given "train/", expected a cluster\'s name, such as train',
        ),
        (GOOD + "[owners]\nmap = { ana = 'ana' }\n", 'costguard.toml:4: owners.map.ana: given "ana", expected a mail'),
        (GOOD + "[budgets.x]\nscope = { project = 'nope' }\n", "expected a watched project: ml-training"),
        (
            BUDGET + "scope = { label = 'team=a' }\n",
            'given "team=a", expected a label named in [spend] labels: none is',
        ),
        (
            BUDGET + "scope.label = 'experimnt=a'\n[spend]\nlabels = ['experiment']\n",
            "expected a label named in [spend] labels: experiment (did you mean experiment?)",
        ),
        (BUDGET + "scope.label = 'experiment'\n", "expected a label with its value, such as experiment=a"),
        (
            BUDGET + "scope.label = 'owner=ada'\nat_limit = 'refuse'\n[spend]\nlabels = ['owner']\n",
            "expected scope.owner: the label that names owners holds no job back",
        ),
        (GOOD + "[budgets.x]\nscope = 'all'\n", 'costguard.toml:4: budgets.x.scope: given "all", expected a table'),
        (BUDGET + "thresholds = [0.5]\n", 'different whole percents of the limit, in quotes: ["50%", "80%", "100%"]'),
        (BUDGET + "thresholds = ['50%', '50%']\n", "expected different whole percents"),
        (BUDGET + "forecast_thresholds = '80%'\n", 'budgets.x.forecast_thresholds: given "80%", expected different'),
        (BUDGET + "thresholds = ['0%']\n", "expected percents from 1% to 1000%"),
        (BUDGET + "at_limit = 'stop'\n", 'given "stop", expected "tell", "refuse" or "stop-spot"'),
        (BUDGET + "at_limit = 'tel'\n", "did you mean tell?"),
        (
            GOOD + "[spend]\nlabels = ['a', 'a']\n",
            "spend.labels: given a list, expected at most 8 different label keys",
        ),
        (GOOD + f"[spend]\nlabels = {list('abcdefghi')}\n", "expected at most 8 different label keys, such as"),
        (GOOD + "[spend]\nlabels = ['Team']\n", 'spend.labels[0]: given "Team", expected a label key: small letters'),
        (GOOD + "[spend]\nlabels = ['goog-gke']\n", "expected labels that do not begin with goog-, which Google's"),
        (
            GOOD + "[compute]\nendpoint = '127.0.0.1:1'\n",
            'costguard.toml:4: compute.endpoint: given "127.0.0.1:1", exp',
        ),
    ],
)
def test_each_kind_of_problem(tmp_path: Path, text: str, sentence: str) -> None:
    """A wrong key, unit, type, range or reference is reported with what to write instead."""
    assert sentence in refused(tmp_path, text).message


def test_secrets_are_never_repeated(tmp_path: Path) -> None:
    """Where a secret stands in the wrong place, the error says where it belongs and does not show it."""
    error = refused(
        tmp_path,
        'token = "hunter2"\n' + GOOD + '[database]\nurl = "postgresql://u:hunter2@h/d"\n'
        '[server]\ntoken = "hunter2"\n[compute]\nendpoint = "ftp://u:hunter2@h"\n',
        COSTGUARD_TOKEN="hunter2",
    )
    assert "hunter2" not in str(error)
    assert "costguard.toml:1: token: no such key" in error.message
    assert "COSTGUARD_TOKEN: expected at least 16" in error.message
    assert "costguard.toml:5: database.url: holds a password" in error.message
    assert "costguard.toml:7: server.token: no such key; secrets come from the environment" in error.message
    wrong_url = refused(tmp_path, GOOD, COSTGUARD_DATABASE_URL="mysql://u:hunter2@h/d")
    assert "hunter2" not in str(wrong_url)
    assert "COSTGUARD_DATABASE_URL: given an address (not shown" in wrong_url.message


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "[::]:80", "192.0.2.7:8765"])
def test_open_address_needs_a_token(tmp_path: Path, listen: str) -> None:
    """Nothing but this machine may reach a server without a token."""
    text = GOOD + f'[server]\nlisten = "{listen}"\n'
    assert f"others could reach {listen}" in refused(tmp_path, text).message


def test_not_toml(tmp_path: Path) -> None:
    """A syntax error names its line, at the end of the file too; nesting without end is one."""
    assert "not TOML" in refused(tmp_path, "a = " + "[" * 100_000).message
    assert "costguard.toml:3: not TOML" in refused(tmp_path, GOOD + "every 1m\n").message
    assert "costguard.toml:2: not TOML" in refused(tmp_path, '[watch]\nprojects = ["ml-training"\n').message


def test_unreadable_files(tmp_path: Path) -> None:
    """A file that is absent, a folder, or no text is an error that says what to do."""
    with pytest.raises(SettingsError, match="costguard init"):
        load(tmp_path / "absent.toml", {})
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path, {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="UTF-8"):
        load(tmp_path / "binary.toml", {})


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(
            ["watch", "presets", "budgets", "database", "owners", "token", "slack", "reminders", "teams", "access", "x"]
        ),
        _JUNK,
    )
)
def test_junk_is_refused_in_words(junk: dict[str, object]) -> None:
    """The answer is the settings or a SettingsError, whatever a file holds."""
    with pytest.raises(SettingsError, match="problem"):
        validate({"log": {"level": 0}, **junk}, {}, Path("costguard.toml"))


def test_lines_of_keys() -> None:
    """Keys are found under tables, dotted, quoted and inline, and not inside texts that run over lines."""
    text = "\n".join(
        [
            "top = 1",
            '[a."b c"]',
            "x.y = 2",
            'text = """',
            "z = 3",
            "[no]",
            '"""',
            "[[list]]",
            "inline = { k = 1 }",
            "z = 4",
        ]
    )
    lines = key_lines(text)
    assert lines[("a", "b c", "x", "y")] == 3
    assert lines[("list", "z")] == 10
    assert ("no",) not in lines
    assert line_of(("list", "inline", "k"), lines) == 9
    assert line_of(("absent",), lines) is None


def test_keys_and_patterns() -> None:
    """A name that the user chose stands as NAME in the list of keys."""
    assert "presets.NAME.match.gpu_types" in set(setting_keys())
    assert "slack.channel" in set(setting_keys())
    assert not {"token", "slack.token", "slack.signing_secret"} & set(setting_keys())
    assert pattern_of(("presets", "t4", "limit")) == "presets.NAME.limit"
    assert pattern_of(("budgets", "x", "scope", "owner")) == "budgets.NAME.scope.owner"
    assert keys_in(("presets", "t4", "match")) == [
        *("accelerator", "gpu_count_max", "gpu_count_min", "gpu_types", "labels")
    ]
    assert keys_in(("presets",)) == []


def test_what_next_names_a_command() -> None:
    """The way out is a command that exists."""
    with pytest.raises(SettingsError, match=re.escape("`costguard config check`")):
        validate({}, {}, Path("costguard.toml"))
