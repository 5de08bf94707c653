"""Builds in the process of all forks, which load this module first, what each of them would build for itself.

The command line takes 50 ms of a processor, the digests of the programs for VMs 200 ms in a guard and in each process
that serves for it, and the agent's file 700 ms before the first VM is made.
"""

import typer.main
from tests.built_commands import build_once

from costguard.cli.app import app
from costguard.jobs.act.attempts.vm_tools import vm_tools
from costguard_vm.bundle import bundle

build_once()
typer.main.get_command(app)
vm_tools()
bundle()
