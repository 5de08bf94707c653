"""Every option of a job, each declared once: the API, the commands, files, the launch form and Flyte tasks have it.

A new option is a row here, a field of `JobSpec`, and, where its VM needs it, a setting of the agent.
"""

from __future__ import annotations

from costguard.model.options.code_and_data import CHECKPOINTS, CODE, DATA
from costguard.model.options.cost_and_time import COST
from costguard.model.options.option import Option
from costguard.model.options.vm_and_limits import VM
from costguard.model.options.watch import WATCH

JOB_OPTIONS: tuple[Option, ...] = (*CODE, *CHECKPOINTS, *DATA, *VM, *COST, *WATCH)
