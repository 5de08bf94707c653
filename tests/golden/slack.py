"""What Slack gets: the message for each kind of content, and a day of conversation in the product's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.golden import conversation
from tests.slack.samples import SAMPLES

from costguard.slack.render import render


def texts() -> Mapping[str, str]:
    payloads = {"slack/conversation.txt": conversation.text()}
    for name, sample in SAMPLES.items():
        message = render(sample)
        content = json.dumps({"text": message.text, "blocks": message.blocks}, indent=1, ensure_ascii=False)
        payloads[f"slack/{name}.json"] = f"{content}\n"
    return payloads
