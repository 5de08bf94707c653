"""Logs: one line an event, for people on a console or for machines as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.types import Processor


def configure(level: str, style: Literal["console", "json"], stream: TextIO = sys.stderr) -> None:
    """Send our own events and those of libraries through one formatter, to one stream."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Processor
    if style == "json":
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    else:
        # The plain formatter: rich traces print every local variable, and one of them may be a secret.
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # They tell of every run, every start and every run that was delayed, which our own lines say better; and of every
    # address that is asked, secrets in its path included.
    for name in ("alembic", "uvicorn", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("apscheduler").setLevel(max(logging.ERROR, root.level))
