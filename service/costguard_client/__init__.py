"""A client of Costguard's REST API: `Client`, and `AsyncClient` for asyncio.

    from costguard_client import Client

    with Client() as client:  # COSTGUARD_URL and COSTGUARD_TOKEN, or the saved profile
        job = client.launch(preset="t4", command=["python", "train.py"], ceiling="20").wait()

Requests and answers are typed by `client.api.schemas`, which is generated from the API's document, as is every call in
`client.api.operations`: `client.call(operations.list_events(job="j7k2m9q4"))`. Errors are the five kinds of
`costguard.errors`, with the field that each is about, and `ServerUnreachable`.
"""

from __future__ import annotations

from costguard_client.clients import AsyncClient, Client
from costguard_client.jobs import AsyncJob, JobHandle, JobNotSucceeded

__all__ = ["AsyncClient", "AsyncJob", "Client", "JobHandle", "JobNotSucceeded"]
