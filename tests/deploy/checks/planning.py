"""Plans of deploy/terraform by Terraform itself, with a stand-in for its providers, which needs no account."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.deploy.checks.provider_schema import RANDOM, Bindings
from tests.deploy.terraform import TERRAFORM, blocks, terraform

_STAND_IN = Path(__file__).with_name("stand_in_provider.py")
_RANDOM_VERSION = "3.7.2"


@dataclass(frozen=True)
class Planner:
    """A copy of deploy/terraform in which `init` was run, and the environment that Terraform needs there."""

    folder: Path
    environ: Mapping[str, str]
    plans: dict[str, dict[str, Any]] = field(default_factory=dict)  # by their variables

    def plan(self, **variables: Any) -> dict[str, Any]:
        """The plan, as `terraform show -json` has it. Raises AssertionError with Terraform's words for a refusal."""
        text = json.dumps(variables, sort_keys=True)
        if text not in self.plans:
            file = self.folder / "variables.json"
            file.write_text(text)
            self.run("plan", "-input=false", f"-var-file={file}", "-out=plan")
            self.plans[text] = json.loads(self.run("show", "-json", "plan"))
        return self.plans[text]

    def run(self, *arguments: str) -> str:
        command = [terraform(), f"-chdir={self.folder}", *arguments, *(["-no-color"] if arguments[0] != "show" else [])]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def planner_in(folder: Path, environment: Path) -> Planner:
    """Copies what the module reads, and writes the stand-ins where Terraform looks for providers."""
    root = TERRAFORM.parents[1]
    shutil.copytree(TERRAFORM, folder / "deploy/terraform", ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    for file in (*root.glob("deploy/iam-role*.yaml"), root / "deploy/costguard.service", root / "requirements.txt"):
        shutil.copy(file, folder / file.relative_to(root))
    bindings = Bindings(environment)
    kinds = {name: {labels[0] for _, labels, _ in blocks(name)} for name in ("resource", "data")}
    mirror, python = folder / "mirror", environment.absolute() / "bin/python"
    _write_provider(mirror, "google", bindings.version, bindings.schema(kinds["resource"], kinds["data"]), python)
    _write_provider(mirror, "random", _RANDOM_VERSION, RANDOM, python)
    settings = folder / "terraform.rc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n')
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    planner = Planner(
        folder / "deploy/terraform",
        {**environ, "TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"},
    )
    planner.run("init", "-input=false")
    return planner


def _write_provider(mirror: Path, name: str, version: str, schema: Mapping[str, Any], python: Path) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
    place = mirror / f"registry.terraform.io/hashicorp/{name}/{version}/{platform.system().lower()}_{machine}"
    place.mkdir(parents=True)
    (place / "schema.json").write_text(json.dumps(schema))
    program = place / f"terraform-provider-{name}_v{version}"
    program.write_text(f'#!/bin/sh\nexec "{python}" "{_STAND_IN}" "{place / "schema.json"}"\n')
    program.chmod(0o755)
