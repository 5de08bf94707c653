"""The message that Slack gets for each kind of content: its text, and its blocks."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.slack.samples import SAMPLES

from costguard.slack.render import render


def texts() -> Mapping[str, str]:
    payloads = {}
    for name, sample in SAMPLES.items():
        message = render(sample)
        content = json.dumps({"text": message.text, "blocks": message.blocks}, indent=1, ensure_ascii=False)
        payloads[f"slack/{name}.json"] = f"{content}\n"
    return payloads
