"""The sandbox's own routes of the audit log: the sink, what was written, and what happens to entries on their way."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.audit.log import AuditLog
from costguard_sandbox.faults import BadFault
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import bad_request
from costguard_sandbox.gce.routes.call import ApiCall, control

_SHOWN = 1000


def routes(cloud: Cloud, audit: AuditLog) -> list[Route]:
    def log(call: ApiCall) -> Any:
        """POST {"topic": "projects/P/topics/T"} sends entries from now on to it; "" ends that. GET shows the newest."""
        if call.method == "POST":
            topic = call.body.get("topic")
            if not isinstance(topic, str) or topic.count("/") not in (0, 3):
                raise bad_request('"topic" must be projects/P/topics/T, or "" for no sink')
            audit.send_to(topic)
        counts = {"lost": len(audit.lost), "doubled": audit.doubled, "torn": audit.torn, "foreign": audit.foreign}
        newest = list(audit.written)[-_SHOWN:] if call.method == "GET" else []
        return {"topic": audit.topic, "written": len(audit.written), **counts, "entries": newest}

    def faults(call: ApiCall) -> Any:
        if call.method == "DELETE":
            return {"cleared": audit.faults.clear(call.query.get("kind"))}
        if call.method == "POST":
            values = dict(call.body)
            try:
                return audit.faults.add(str(values.pop("kind", "")), **values).shown()
            except BadFault as wrong:
                raise bad_request(str(wrong)) from None
        return {"faults": [fault.shown() for fault in audit.faults.listed()]}

    return [
        control("/sandbox/audit", log, cloud, ("GET", "POST")),
        control("/sandbox/audit/faults", faults, cloud, ("GET", "POST", "DELETE")),
    ]
