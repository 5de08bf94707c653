"""Which function answers which method of the Web API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costguard_sandbox.slack.methods import app, chat, conversations, people
from costguard_sandbox.slack.methods.call import Call

METHODS: Mapping[str, Callable[[Call], dict[str, Any]]] = {
    "apps.connections.open": app.connections_open,
    "auth.test": app.auth_test,
    "chat.delete": chat.delete,
    "chat.postEphemeral": chat.post_ephemeral,
    "chat.postMessage": chat.post_message,
    "chat.update": chat.update,
    "conversations.history": conversations.history,
    "conversations.info": conversations.info,
    "conversations.join": conversations.join,
    "conversations.list": conversations.list_,
    "conversations.open": conversations.open_,
    "conversations.replies": conversations.replies,
    "users.info": people.info,
    "users.list": people.list_,
    "users.lookupByEmail": people.lookup_by_email,
    "views.open": app.views_open,
}
