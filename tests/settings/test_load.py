"""The settings as a whole: what a file and an environment give."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.settings.reading import read

from costguard.errors import SettingsError
from costguard.ledger.owner import classify
from costguard.model.budget import LabelFilter, Period, Scope
from costguard.model.instance import Shape
from costguard.model.money import Money
from costguard.settings import example, load, setting_keys, validate

SMALLEST = '[watch]\nprojects = ["ml-training"]\n'
TOKEN = "a-token-that-nobody-guesses"


def test_projects_are_enough(tmp_path: Path) -> None:
    """A file that names projects is whole; everything else has a default."""
    settings = read(tmp_path, SMALLEST)
    assert settings.watch.projects == ("ml-training",)
    assert settings.watch.every == timedelta(minutes=1)
    assert settings.watch.vms_without_gpu == "watch"
    assert (settings.server.host, settings.server.port, settings.server.is_loopback) == ("127.0.0.1", 8765, True)
    assert settings.database.url.get_secret_value() == "sqlite:///costguard.db"
    assert settings.compute.endpoint is None
    assert settings.token is None


def test_shipped_presets(tmp_path: Path) -> None:
    """t4, a100 and multi-gpu ship with limits; other comes last with a limit of its own."""
    presets = read(tmp_path, SMALLEST).preset_list()
    assert [preset.name for preset in presets] == ["t4", "a100", "multi-gpu", "other"]
    assert all(preset.limit for preset in presets)
    for gpu, count, expected in [
        ("nvidia-tesla-t4", 1, "t4"),
        ("nvidia-tesla-t4", 2, "multi-gpu"),
        ("nvidia-a100-80gb", 1, "a100"),
        (None, 0, "other"),
    ]:
        assert classify({}, Shape("n1-standard-4", 4, 15360, gpu, count), presets) == expected


def test_single_keys_of_a_shipped_preset(tmp_path: Path) -> None:
    """A key in the file replaces that key alone, inside `match` too."""
    text = SMALLEST + '[presets.t4]\nlimit = "4h"\nmatch.labels = { stage = "dev" }\n'
    t4 = read(tmp_path, text).preset_list()[0]
    assert t4.limit == timedelta(hours=4)
    assert t4.description
    assert t4.match.gpu_types == {"nvidia-tesla-t4"}
    assert t4.match.labels == {"stage": "dev"}


@pytest.mark.parametrize(
    ("written", "matched"),
    [
        ('accelerator = "v6e"', {"v6e"}),
        ('accelerator = "nvidia-l4"', {"nvidia-l4"}),
        ('accelerator = "tpu7x"\nmatch.gpu_types = ["v5p", "nvidia-l4"]', {"tpu7x", "v5p", "nvidia-l4"}),
    ],
)
def test_an_accelerator_is_a_gpu_or_a_tpu(tmp_path: Path, written: str, matched: set[str]) -> None:
    """The word is the same for both, and the list of GPU types goes on to work."""
    presets = read(tmp_path, SMALLEST + f'[presets.mine]\nlimit = "4h"\nmatch.{written}\n').preset_list()
    assert {one.name: one.match.gpu_types for one in presets}["mine"] == matched


def test_order_of_presets(tmp_path: Path) -> None:
    """The file's presets are tried first, in its order; then the shipped ones that it leaves alone."""
    text = SMALLEST + '[presets.z]\nlimit = "never"\n[presets.other]\nlimit = "1h"\n[presets.a100]\nlimit = "2h"\n'
    presets = read(tmp_path, text).preset_list()
    assert [preset.name for preset in presets] == ["z", "a100", "t4", "multi-gpu", "other"]
    assert presets[0].limit is None


def test_budgets(tmp_path: Path) -> None:
    """A budget counts everything, or what fits all parts of its scope, in exact dollars."""
    text = SMALLEST + (
        '[budgets.all]\nlimit = 2500\nperiod = "month"\nthresholds = ["100%", "25%"]\nforecast_thresholds = []\n'
        '[budgets.one]\nscope = { preset = "a100", project = "ml-training" }\nlimit = "99.50"\nperiod = "week"\n'
    )
    everything, one = read(tmp_path, text).budget_list()
    assert (everything.scope, everything.limit, everything.period) == (Scope(), Money.of(2500), Period.MONTH)
    assert str(everything.scope) == "everything"
    assert (everything.thresholds, everything.forecast_thresholds) == ((25, 100), ())
    assert (one.thresholds, one.forecast_thresholds) == ((50, 80, 100), (100,))
    assert (one.scope, one.limit) == (Scope(project="ml-training", preset="a100"), Money.of("99.50"))
    assert str(one.scope) == "project ml-training, preset a100"


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("experiment=a", "a", "label experiment=a"),
        ("experiment:a", "a", "label experiment=a"),
        ("experiment=", "", "label experiment="),
        ("!experiment", None, "label !experiment"),
    ],
)
def test_budget_counts_a_label(tmp_path: Path, text: str, value: str | None, shown: str) -> None:
    """A value, the empty one, or none: which of them is unmistakable, in the file and in what people read."""
    (budget,) = read(
        tmp_path,
        SMALLEST
        + f"[spend]\nlabels = ['experiment']\n[budgets.x]\nlimit = 5\nperiod = 'day'\nscope.label = '{text}'\n",
    ).budget_list()
    assert (budget.scope, str(budget.scope)) == (Scope(label=LabelFilter("experiment", value)), shown)


def test_labels_of_spend_reach_the_rules(tmp_path: Path) -> None:
    """The labels keep the order in which the file names them; there are none unless it does."""
    named = read(tmp_path, SMALLEST + '[spend]\nlabels = ["experiment", "cost-center"]\n')
    assert named.rules().spend_labels == ("experiment", "cost-center")
    assert read(tmp_path, SMALLEST).rules().spend_labels == ()


def test_owner_rules(tmp_path: Path) -> None:
    """Label, domain and map reach the rules that find owners."""
    text = SMALLEST + '[owners]\nlabel = "who"\ndomain = "example.com"\nmap = { ana = "ana@example.org" }\n'
    text += 'clusters = { "train/t4" = "bo@example.com" }\n'
    rules = read(tmp_path, text).owners.rules
    assert (rules.label, rules.domain, rules.addresses) == ("who", "example.com", {"ana": "ana@example.org"})
    assert rules.clusters == {"train/t4": "bo@example.com"}


def test_environment_holds_the_secrets(tmp_path: Path) -> None:
    """The database's address in the environment wins over the file's, and no secret shows in the settings' text."""
    settings = read(
        tmp_path,
        SMALLEST + '[database]\nurl = "sqlite:///other.db"\n[server]\nlisten = "0.0.0.0:80"\n',
        COSTGUARD_DATABASE_URL="postgresql://me:hunter2@host/db",
        COSTGUARD_TOKEN=TOKEN,
    )
    assert settings.database.url.get_secret_value() == "postgresql+psycopg://me:hunter2@host/db"
    assert settings.token is not None
    assert settings.token.get_secret_value() == TOKEN
    assert "hunter2" not in repr(settings)
    assert TOKEN not in repr(settings) + settings.model_dump_json()


def test_empty_variables_are_no_variables(tmp_path: Path) -> None:
    """An environment file that leaves a variable empty has not set it."""
    settings = read(tmp_path, SMALLEST, COSTGUARD_TOKEN="", COSTGUARD_DATABASE_URL="")
    assert settings.token is None
    assert settings.database.url.get_secret_value() == "sqlite:///costguard.db"


def test_file_from_the_environment(tmp_path: Path) -> None:
    """COSTGUARD_CONFIG names the file where no path was given, and a path given wins over it."""
    file, wrong = tmp_path / "one.toml", str(tmp_path / "absent.toml")
    file.write_text(SMALLEST)
    assert load(None, {"COSTGUARD_CONFIG": str(file)}).watch.projects == ("ml-training",)
    assert load(file, {"COSTGUARD_CONFIG": wrong}).watch.projects == ("ml-training",)
    with pytest.raises(SettingsError, match=re.escape(wrong)):
        load(None, {"COSTGUARD_CONFIG": wrong})


def test_windows_files(tmp_path: Path) -> None:
    """A byte order mark and carriage returns are no reason to refuse a file."""
    file = tmp_path / "costguard.toml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALLEST.replace("\n", "\r\n").encode())
    assert load(file, {}).watch.projects == ("ml-training",)


def test_settings_do_not_change(tmp_path: Path) -> None:
    """The settings stay as they were read."""
    with pytest.raises(ValidationError, match="frozen"):
        read(tmp_path, SMALLEST).watch.parallel = 2


def test_example_is_the_defaults(tmp_path: Path) -> None:
    """The example as printed means exactly what a file with its projects alone means."""
    given = read(tmp_path, example().replace("my-project", "ml-lab-prod")).model_dump()
    assert given == read(tmp_path, '[watch]\nprojects = ["ml-lab-prod"]\n').model_dump()


def test_example_is_right_when_uncommented(tmp_path: Path) -> None:
    """Every line of the example that is switched off can be switched on, and no key is left out."""
    text = re.sub(r"^# (?=[a-z_.]+ = |\[)", "", example().replace("my-project", "ml-lab-prod"), flags=re.MULTILINE)
    certificates = tmp_path / "ca.pem"
    certificates.write_text("-----BEGIN CERTIFICATE-----\n")
    text = text.replace("/etc/costguard/ca.pem", str(certificates))
    secrets = {
        "COSTGUARD_SLACK_TOKEN": "xoxb-1",
        "COSTGUARD_OIDC_CLIENT_SECRET": "s3cret",
        "COSTGUARD_MLFLOW_TOKEN": "a password",
        "COSTGUARD_WANDB_API_KEY": "a key",
        "COSTGUARD_WEBHOOK_PAGER_SECRET": f"whsec_{'S' * 32}",
    }
    settings = validate(tomllib.loads(text), secrets, Path("example.toml"))
    assert settings.budget_list()
    assert settings.slack
    assert settings.teams
    missing = [key for key in setting_keys() if not re.search(rf"\b{key.rsplit('.', 1)[-1]} =", text)]
    assert not missing


def test_places_are_normalised_and_projects_need_not_be_listed(tmp_path: Path) -> None:
    """A number and its full name are the same place; excluded projects are left out even where they are listed."""
    file = tmp_path / "costguard.toml"
    file.write_text('[watch]\norganization = "123"\nfolders = ["folders/7", "8"]\n')
    scope = load(file, {}).watch.scope
    assert scope.places == ("organizations/123", "folders/7", "folders/8")
    assert scope.kept == ()
    file.write_text('[watch]\nprojects = ["ml-one", "lab-two"]\nexclude = ["lab-*", "ml-tw?"]\n')
    assert load(file, {}).watch.scope.kept == ("ml-one",)


def test_names_of_projects_are_not_checked_where_they_are_found(tmp_path: Path) -> None:
    """A budget may be of a project that no settings file lists, once an organisation is searched."""
    file = tmp_path / "costguard.toml"
    budget = '[budgets.all]\nscope = { project = "ml-far" }\nlimit = 9\nperiod = "day"\n'
    file.write_text(f'[watch]\nfolders = ["7"]\n{budget}[enforcement]\nprotect_projects = ["ml-away"]\n')
    assert load(file, {}).budget_list()[0].scope.project == "ml-far"
    file.write_text(f'[watch]\nprojects = ["ml-near"]\n{budget}')
    with pytest.raises(SettingsError, match="expected a watched project: ml-near"):
        load(file, {})
