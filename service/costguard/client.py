"""The Python client under the name that it had before it became a package of its own: `costguard_client`."""

from __future__ import annotations

from costguard_client import AsyncClient, AsyncJob, Client, JobHandle, JobNotSucceeded

__all__ = ["AsyncClient", "AsyncJob", "Client", "JobHandle", "JobNotSucceeded"]
