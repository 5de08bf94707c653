"""The scripts of jobs: the parts of their requests that tell which script they run."""

from __future__ import annotations

from sqlalchemy import Connection, select

from costguard.db.tables import jobs
from costguard.model.job import JobCode, JobKind, JobSpec


def newest_scripts(connection: Connection, project: str, most: int) -> list[tuple[str, JobSpec]]:
    """Reads the ids of a project's newest trainings, each with the parts of its request that tell its script.

    Making whole requests of hundreds of rows takes a tenth of a second.
    """
    spec, code = jobs.c.spec, ("code", "sha256")
    parts = (jobs.c.id, jobs.c.owner, jobs.c.preset, spec["command"], spec["image"].as_string(), spec[code].as_string())
    query = select(*parts, spec[("code", "commit")].as_string()).where(
        jobs.c.project == project, jobs.c.kind == JobKind.TRAINING.value
    )
    rows = connection.execute(query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(most))
    return [
        (
            job_id,
            JobSpec(
                kind=JobKind.TRAINING,
                preset=preset,
                project=project,
                owner=owner,
                command=tuple(command or ()),
                image=image or "",
                code=None if sha256 is None else JobCode(sha256, 0, 0, commit=commit or ""),
            ),
        )
        for job_id, owner, preset, command, image, sha256, commit in rows
    ]
