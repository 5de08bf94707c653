"""A `docker` for the VMs of the tests: notes each call, and answers with what Docker really printed."""

from __future__ import annotations

import json
from typing import Any

from tests.agent.vm import Vm

IMAGE = "europe-docker.pkg.dev/ml/train/bert:1.4"
DIGEST = "sha256:" + "a" * 64
PINNED = f"{IMAGE}@{DIGEST}"

# Recorded: github.com/ivangabriele/dockfish/issues/13 and github.com/moby/moby/issues/36915.
NO_TAG = (
    "Error response from daemon: manifest for ivangabriele/dockfish:latest not found: manifest unknown: "
    "manifest unknown"
)
NO_REPOSITORY = (
    "Error response from daemon: pull access denied for ndtar, repository does not exist or may require 'docker login'."
)
# Recorded: github.com/docker/cli/issues/4922, `docker inspect` of a container whose command is not in its image.
NEVER_STARTED = {
    "Status": "created",
    "Running": False,
    "Paused": False,
    "Restarting": False,
    "OOMKilled": False,
    "Dead": False,
    "Pid": 0,
    "ExitCode": 127,
    "Error": "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create "
    'failed: unable to start container process: exec: "/hello": stat /hello: no such file or directory: unknown',
    "StartedAt": "0001-01-01T00:00:00Z",
    "FinishedAt": "0001-01-01T00:00:00Z",
}
RAN = {**NEVER_STARTED, "Status": "exited", "Error": "", "StartedAt": "2024-03-06T22:22:23.174639333Z"}
# tini 0.19 prints this where the command is not there, and ends with 127 (src/tini.c).
INIT_FAILED = "[FATAL tini (7)] exec /nonexistent failed: No such file or directory"

_SCRIPT = """
import json, os, pathlib, signal, subprocess, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
given = sys.stdin.read() if "login" in arguments else ""
with open(here / "calls", "a") as file:
    note = {"arguments": arguments, "stdin": given, "token": os.environ.get("API_KEY")}
    config = pathlib.Path(arguments[1], "config.json") if arguments[0] == "--config" else here / "none"
    note["config"] = config.read_text() if config.exists() else ""
    file.write(json.dumps(note) + "\\n")
plan = json.loads((here / "plan").read_text())
def answer(name):
    code, text = plan[name]
    print(text, file=sys.stderr if code else sys.stdout, flush=True)
    sys.exit(code)
if "pull" in arguments:
    left = plan["pulls"]
    if left:
        plan["pull"], plan["pulls"] = left[0], left[1:]
        (here / "plan").write_text(json.dumps(plan))
    answer("pull")
elif "image" in arguments:
    answer("image")
elif "inspect" in arguments:
    # The Go template of `docker container inspect`: the document's field is State.
    if arguments[arguments.index("--format") + 1] != "{{json .State}}":
        sys.exit("template parsing error")
    answer("container")
elif "run" in arguments:
    if plan["run"]:
        answer("run")
    images = ("europe-docker", "busybox", "costguard-setup:")
    image = next(n for n, word in enumerate(arguments) if word.startswith(images))
    entrypoint = [arguments[n + 1] for n, word in enumerate(arguments[:image]) if word == "--entrypoint"]
    named = {arguments[n + 1] for n, word in enumerate(arguments[:image]) if word == "--env"}
    variables = {name: value for name, value in os.environ.items() if name in named | {"PATH"}}
    stdin = None if "--interactive" in arguments else subprocess.DEVNULL
    # of a group of its own, as a container is
    child = subprocess.Popen(
        [*entrypoint, *arguments[image + 1:]], start_new_session=True, env=variables, stdin=stdin
    )
    (here / "container").write_text(str(child.pid))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)
elif "commit" in arguments:
    answer("commit")
elif "kill" in arguments:
    os.kill(int((here / "container").read_text()), 9)
"""


def put_docker(vm: Vm, digest: str = DIGEST, config: dict[str, Any] | None = None, **answers: Any) -> None:
    """`answers` are pairs of exit code and text by what is asked: pull, image, container, run, commit; `pulls` a list.

    Without one for `run` the command really runs.
    """
    repository = IMAGE.rpartition(":")[0]
    pulled = f"1.4: Pulling from ml/train/bert\nDigest: {digest}\nStatus: Downloaded newer image for {IMAGE}\n{IMAGE}"
    inspected = json.dumps(
        [
            {
                "Id": "sha256:" + "f" * 64,
                "RepoTags": [IMAGE],
                "RepoDigests": [f"{repository}@{digest}"],
                "Config": config or {},
            }
        ]
    )
    plan: dict[str, Any] = {
        "pull": (0, pulled),
        "pulls": [],
        "image": (0, inspected),
        "container": (0, json.dumps(RAN)),
        "run": None,
        "commit": (0, "sha256:" + "c" * 64),
    }
    vm.tool("docker", _SCRIPT)
    (vm.tools / "plan").write_text(json.dumps({**plan, **answers}))


def calls(vm: Vm, verb: str = "") -> list[dict[str, Any]]:
    """Returns the calls with this word among their arguments, in their order."""
    lines = (vm.tools / "calls").read_text().splitlines()
    return [call for call in map(json.loads, lines) if not verb or verb in call["arguments"]]
