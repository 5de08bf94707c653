"""The variables and arguments by which launchers form one training of several VMs. Pure.

The launchers run unchanged, and what they read was looked up in their sources:

- torchrun 2.15 reads each of its options from PET_ and the option's name (torch/distributed/argparse_util.py). The
  rendezvous "static" gives ranks by the node's number, and its store is at the endpoint on node 0
  (torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py). It restarts nothing by itself: a rank that fails ends
  the round on all VMs.
- torch.distributed by itself reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (torch/distributed/rendezvous.py,
  env://); Lightning 2.6 the first two and NODE_RANK (lightning_fabric/plugins/environments/lightning.py).
- JAX 0.10 reads the coordinator's address alone (jax/_src/distributed.py): a script passes the other two to
  jax.distributed.initialize, from JAX_NUM_PROCESSES and JAX_PROCESS_ID or the names of our own.
- `accelerate launch` 1.15 reads none of its options for several machines from the environment
  (accelerate/commands/launch.py, accelerate/utils/launch.py).
- `deepspeed` neither (deepspeed/launcher/runner.py): with --no_ssh it starts the processes of its own node, whose place
  is that in the host file, and without a host file it knows of one node.
- NCCL and Gloo find other VMs through the interface that the variable names.
"""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple, Sequence

OWN = "costguard"
VARIABLES: Mapping[str, Mapping[str, str]] = {
    OWN: {
        "COSTGUARD_NODE_RANK": "{node}",
        "COSTGUARD_NODES": "{nodes}",
        "COSTGUARD_NODE_ADDRESSES": "{addresses}",
        "COSTGUARD_ROUND": "{round}",
        "COSTGUARD_GANG_SECRET": "{secret}",
    },
    "torchrun": {
        "PET_NNODES": "{nodes}",
        "PET_NODE_RANK": "{node}",
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": "{main}:{port}",
        "PET_RDZV_ID": "{name}-{round}",
        "PET_MASTER_ADDR": "{main}",
        "PET_MASTER_PORT": "{port}",
        "PET_MAX_RESTARTS": "0",
    },
    "torch.distributed and lightning": {
        "MASTER_ADDR": "{main}",
        "MASTER_PORT": "{port}",
        "NODE_RANK": "{node}",
        "NNODES": "{nodes}",
    },
    "jax": {
        "JAX_COORDINATOR_ADDRESS": "{main}:{port}",
        "JAX_NUM_PROCESSES": "{nodes}",
        "JAX_PROCESS_ID": "{node}",
    },
}
# Of a command that is one process on each VM: with more, its launcher gives each its own.
ONE_PROCESS: Mapping[str, str] = {"RANK": "{node}", "WORLD_SIZE": "{nodes}"}
INTERFACE: Mapping[str, str] = {"NCCL_SOCKET_IFNAME": "{interface}", "GLOO_SOCKET_IFNAME": "{interface}"}
# Options by the program that they are for, and the words after its name.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "accelerate": ("launch",),
    "accelerate-launch": (),
    "accelerate.commands.launch": (),
    "deepspeed": (),
    "deepspeed.launcher.runner": (),
}
# Of accelerate's ways to run several processes, the one for GPUs is chosen where no other is.
WAYS = ("cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "config_file")


class RoundFacts(NamedTuple):
    """A VM's place in a round, whose `name` is the same on all its VMs. `hosts` is the path of the host file."""

    node: int
    nodes: int
    port: int
    round: int
    addresses: Sequence[str]
    secret: str
    gpus: int = 0
    name: str = ""
    interface: str = ""
    hosts: str = ""


def launch_variables(facts: RoundFacts, given: Sequence[str]) -> dict[str, str]:
    """Returns the command's variables. Those that the user gave stay the user's, except our own."""
    words = {
        **facts._asdict(),
        "main": facts.addresses[0],
        "addresses": ",".join(facts.addresses),
    }
    tables = [
        *VARIABLES.values(),
        *([ONE_PROCESS] if facts.gpus <= 1 else []),
        *([INTERFACE] if facts.interface else []),
    ]
    made = {name: text.format(**words) for table in tables for name, text in table.items()}
    return {name: text for name, text in made.items() if name in VARIABLES[OWN] or name not in given}


def host_file(facts: RoundFacts) -> str:
    """Returns the text of DeepSpeed's host file, in the order of the nodes."""
    return "".join(f"{address} slots={max(1, facts.gpus)}\n" for address in facts.addresses)


def launch_command(argv: Sequence[str], facts: RoundFacts) -> list[str]:
    """Returns the command with the options that its launcher reads from nowhere else, but for those that it has."""
    program, at = _program(argv)
    if not program:
        return list(argv)
    given = _options(argv[at:])
    options = _accelerate(facts, given) if program.startswith("accelerate") else _deepspeed(facts)
    words = [word for name, value in options.items() if name not in given for word in (f"--{name}", value) if word]
    return [*argv[:at], *words, *argv[at:]]


def _program(argv: Sequence[str]) -> tuple[str, int]:
    """Returns the launcher's name and where its options begin; "" without one that needs any."""
    for at, word in enumerate(argv):
        name = os.path.basename(word)
        after = PROGRAMS.get(name)
        if after is not None and tuple(argv[at + 1 : at + 1 + len(after)]) == after:
            return name, at + 1 + len(after)
        if name.endswith(".py"):
            break
    return "", 0


def _options(argv: Sequence[str]) -> list[str]:
    """Returns the names of the options before the script, which may have some of the same names."""
    names = []
    for word in argv:
        if word.endswith(".py") or word == "--":
            break
        if word.startswith("--"):
            names.append(word[2:].partition("=")[0].replace("-", "_"))
        if word in ("-m", "--module"):
            break
    return names


def _accelerate(facts: RoundFacts, given: Sequence[str]) -> dict[str, str]:
    processes = {} if "config_file" in given else {"num_processes": str(facts.nodes * max(1, facts.gpus))}
    way = {"multi_gpu": ""} if facts.gpus and not set(WAYS) & set(given) else {}
    starts = {"deepspeed_multinode_launcher": "standard"} if "use_deepspeed" in given else {}
    return {
        "num_machines": str(facts.nodes),
        "machine_rank": str(facts.node),
        "main_process_ip": facts.addresses[0],
        "main_process_port": str(facts.port),
        **processes,
        **way,
        **starts,
    }


def _deepspeed(facts: RoundFacts) -> dict[str, str]:
    return {
        "hostfile": facts.hosts,
        "no_ssh": "",
        "node_rank": str(facts.node),
        "master_addr": facts.addresses[0],
        "master_port": str(facts.port),
    }
