"""The variables and options of launchers on several VMs are a table, which torchrun and Accelerate read themselves."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from costguard_vm.agent.gang.launchers import OWN, VARIABLES, RoundFacts, host_file, launch_command, launch_variables
from costguard_vm.agent.settings import GangPlace, place_of, read_settings

TRAINERS = Path(__file__).parents[2] / ".cache" / "trainers" / "venv" / "bin"  # of `make trainers`
FACTS = RoundFacts(
    node=1,
    nodes=3,
    port=29400,
    round=4,
    addresses=["10.0.0.5", "10.0.0.6", "10.0.0.7"],
    secret="s{e}cret",
    gpus=8,
    name="nightly-7f3a",
    interface="ens4",
    hosts="/runs/step/hosts",
)
WHERE = ["--main_process_ip", "10.0.0.5", "--main_process_port", "29400"]
MASTER = ["--master_addr", "10.0.0.5", "--master_port", "29400"]
DEEP = ["--hostfile", "/runs/step/hosts", "--no_ssh", "--node_rank", "1", *MASTER]
STANDARD = ["--deepspeed_multinode_launcher", "standard"]
MANY = ["--num_machines", "3", "--machine_rank", "1", *WHERE, "--num_processes", "24"]


def test_the_variables_by_launcher() -> None:
    """Each launcher finds its own names, and the secret may hold braces."""
    made = launch_variables(FACTS, [])
    assert {name: made[name] for name in VARIABLES[OWN]} == {
        "COSTGUARD_NODE_RANK": "1",
        "COSTGUARD_NODES": "3",
        "COSTGUARD_NODE_ADDRESSES": "10.0.0.5,10.0.0.6,10.0.0.7",
        "COSTGUARD_ROUND": "4",
        "COSTGUARD_GANG_SECRET": "s{e}cret",
    }
    assert {name: made[name] for name in VARIABLES["torchrun"]} == {
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": "10.0.0.5:29400",
        "PET_RDZV_ID": "nightly-7f3a-4",
        "PET_MASTER_ADDR": "10.0.0.5",
        "PET_MASTER_PORT": "29400",
        "PET_MAX_RESTARTS": "0",
    }
    assert (made["MASTER_ADDR"], made["MASTER_PORT"], made["NODE_RANK"]) == ("10.0.0.5", "29400", "1")
    assert made["JAX_COORDINATOR_ADDRESS"] == "10.0.0.5:29400"
    assert (made["JAX_NUM_PROCESSES"], made["JAX_PROCESS_ID"]) == ("3", "1")
    assert (made["NCCL_SOCKET_IFNAME"], made["GLOO_SOCKET_IFNAME"]) == ("ens4", "ens4")


def test_ranks_are_given_where_a_vm_runs_one_process() -> None:
    """RANK would be the same for all of a VM's processes, if it had more."""
    assert "RANK" not in launch_variables(FACTS, [])
    one = launch_variables(FACTS._replace(gpus=1), [])
    assert (one["RANK"], one["WORLD_SIZE"]) == ("1", "3")


def test_the_users_variables_stay() -> None:
    """Our own are set all the same, since a script finds its place by them."""
    made = launch_variables(FACTS, ["NCCL_SOCKET_IFNAME", "PET_MAX_RESTARTS", "COSTGUARD_NODE_RANK"])
    assert "NCCL_SOCKET_IFNAME" not in made
    assert "PET_MAX_RESTARTS" not in made
    assert made["COSTGUARD_NODE_RANK"] == "1"
    assert "GLOO_SOCKET_IFNAME" not in launch_variables(FACTS._replace(interface=""), [])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["torchrun", "train.py", "--nodes", "9"], ["torchrun", "train.py", "--nodes", "9"]),
        (["python", "train.py", "accelerate", "launch"], ["python", "train.py", "accelerate", "launch"]),
        (["accelerate", "env"], ["accelerate", "env"]),
        (["accelerate", "launch", "t.py"], ["accelerate", "launch", *MANY, "--multi_gpu", "t.py"]),
        (
            ["uv", "run", "accelerate", "launch", "--num-processes=6", "--use_fsdp", "t.py", "--num_machines", "1"],
            [
                "uv",
                "run",
                "accelerate",
                "launch",
                *MANY[:-2],
                "--num-processes=6",
                "--use_fsdp",
                "t.py",
                "--num_machines",
                "1",
            ],
        ),
        (
            ["/opt/bin/accelerate-launch", "--config_file", "a.yaml", "-m", "train", "--machine_rank", "7"],
            ["/opt/bin/accelerate-launch", *MANY[:-2], "--config_file", "a.yaml", "-m", "train", "--machine_rank", "7"],
        ),
        (
            ["python", "-m", "accelerate.commands.launch", "--use_deepspeed", "t.py"],
            ["python", "-m", "accelerate.commands.launch", *MANY, *STANDARD, "--use_deepspeed", "t.py"],
        ),
        (["deepspeed", "t.py", "--master_port", "1"], ["deepspeed", *DEEP, "t.py", "--master_port", "1"]),
        (
            ["deepspeed", "--master_port=1", "--no_ssh", "t.py"],
            ["deepspeed", *DEEP[:2], *DEEP[3:-2], "--master_port=1", "--no_ssh", "t.py"],
        ),
    ],
)
def test_the_arguments_by_launcher(given: list[str], wanted: list[str]) -> None:
    """The user's own options stay, and a script's are not taken for them."""
    assert launch_command(given, FACTS) == wanted


def test_the_host_file_has_the_order_of_the_nodes() -> None:
    """It matches the pattern with which deepspeed/launcher/runner.py reads it: `^(\\S+)\\s+slots=(\\d+)`."""
    assert host_file(FACTS) == "10.0.0.5 slots=8\n10.0.0.6 slots=8\n10.0.0.7 slots=8\n"


@pytest.mark.skipif(not (TRAINERS / "torchrun").exists(), reason="`make trainers` installs torchrun")
def test_torchrun_reads_what_it_is_given() -> None:
    """torchrun's own parser makes the launch's configuration from the environment; an explicit option wins."""
    ask = (
        "import json, sys; from torch.distributed.run import config_from_args, parse_args\n"
        "one, _, _ = config_from_args(parse_args(sys.argv[1:]))\n"
        "print(json.dumps([one.min_nodes, one.max_nodes, one.rdzv_backend, one.rdzv_endpoint, one.run_id,"
        " one.rdzv_configs['rank'], one.max_restarts, one.nproc_per_node]))"
    )
    made = {**os.environ, **launch_variables(FACTS, []), "PET_NPROC_PER_NODE": "8"}
    for options, restarts in (([], 0), (["--max-restarts=3"], 3)):
        done = subprocess.run(
            [str(TRAINERS / "python"), "-c", ask, *options, "t.py"],
            env=made,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == [3, 3, "static", "10.0.0.5:29400", "nightly-7f3a-4", 1, restarts, 8]


@pytest.mark.skipif(not (TRAINERS / "accelerate").exists(), reason="`make trainers` installs accelerate")
def test_accelerate_reads_what_it_is_given() -> None:
    """Accelerate's own functions make torchrun's options of ours."""
    ask = (
        "import json, sys; from accelerate.commands.launch import _validate_launch_command, launch_command_parser\n"
        "from accelerate.utils import launch\n"
        "launch.is_port_in_use = lambda _: False\n"
        "args, _, _ = _validate_launch_command(launch_command_parser().parse_args(sys.argv[1:]))\n"
        "launch.prepare_multi_gpu_env(args)\n"
        "print(json.dumps([args.nnodes, args.node_rank, args.nproc_per_node, args.rdzv_endpoint, args.rdzv_backend]))"
    )
    words = launch_command(["accelerate", "launch", "t.py"], FACTS)[2:]
    done = subprocess.run(
        [str(TRAINERS / "python"), "-c", ask, *words],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["3", 1, "8", "10.0.0.5:29400", "static"]


@pytest.mark.parametrize(
    ("gang", "wrong"),
    [
        ({"node": "0", "nodes": "2"}, False),
        ({"node": "2", "nodes": "2"}, True),
        ({"nodes": "2"}, True),
        ({"node": "one", "nodes": "2"}, True),
        ({"node": "0", "nodes": "2", "port": "80"}, True),
    ],
)
def test_wrong_places_are_named(gang: dict[str, str], wrong: bool) -> None:
    """The mistake is reported as any other of the settings."""
    settings, problems = read_settings(
        json.dumps({"attempt": "a", "guard": "https://g", "command": ["c"], "gang": gang})
    )
    assert [problem.startswith("gang: ") for problem in problems] == [True] * wrong
    assert settings.gang == ({} if wrong else gang)


def test_a_place() -> None:
    """The first node alone publishes what all have made."""
    assert place_of({}) is None
    assert place_of({"node": "1", "nodes": "2"}) == GangPlace(1, 2, 29400, least=2)
    document = {"attempt": "a", "guard": "https://g", "command": ["c"], "outputs": {"gs://b/o": "/o"}}
    for node, outputs in (("0", {"gs://b/o": "/o"}), ("1", {})):
        assert read_settings(json.dumps({**document, "gang": {"node": node, "nodes": "2"}}))[0].outputs == outputs
