"""Collects Slack messages: one for each kind of content and of event, and a conversation in the product's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.golden import conversation
from tests.golden.databases import migrated
from tests.messages import every_event
from tests.slack.samples import SAMPLES

from costguard.slack.render import render


def texts() -> Mapping[str, str]:
    payloads = {"slack/conversation.txt": conversation.text()}
    with migrated() as database:
        composed = {f"events/{name}": content for name, content in every_event.contents(database).items()}
    for name, sample in {**SAMPLES, **composed}.items():
        message = render(sample)
        content = json.dumps({"text": message.text, "blocks": message.blocks}, indent=1, ensure_ascii=False)
        payloads[f"slack/{name}.json"] = f"{content}\n"
    return payloads
