"""Tokens and what each may do, by the scope tables of https://docs.slack.dev/reference/scopes."""

from __future__ import annotations

from costguard_sandbox.slack.errors import SlackError, missing_scope

BOT_TOKEN = "xoxb-sandbox-costguard"  # noqa: S105  opens nothing but the sandbox
APP_TOKEN = "xapp-sandbox-costguard"  # noqa: S105
SIGNING_SECRET = "5a4db0x5a4db0x5a4db0x5a4db0x5a4d"  # noqa: S105
BOT_SCOPES = (
    "channels:history",
    "channels:join",
    "channels:read",
    "chat:write",
    "chat:write.public",
    "commands",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "users:read",
    "users:read.email",
)


class Tokens:
    """The two tokens of the app. A token that stopped being good says why at every call."""

    def __init__(self) -> None:
        self._scopes: dict[str, list[str]] = {}
        self._bad: dict[str, str] = {}
        self.reset()

    def reset(self) -> None:
        """Both tokens are good and hold every scope again."""
        self._scopes = {BOT_TOKEN: list(BOT_SCOPES), APP_TOKEN: ["connections:write"]}
        self._bad = {}

    def scopes(self, token: str) -> list[str]:
        return self._scopes.get(token, [])

    def check(self, token: str) -> None:
        """Raises not_authed without a token, invalid_auth for a strange one, or why this one is no longer good."""
        if not token:
            raise SlackError("not_authed")
        if token not in self._scopes:
            raise SlackError("invalid_auth")
        if token in self._bad:
            raise SlackError(self._bad[token])

    def need(self, token: str, *any_of: str) -> None:
        """Raises missing_scope unless the token has one of them."""
        held = self.scopes(token)
        if any_of and not set(any_of) & set(held):
            raise missing_scope(any_of[0], held)

    def take_away(self, *scopes: str, token: str = BOT_TOKEN) -> None:
        self._scopes[token] = [scope for scope in self._scopes[token] if scope not in scopes]

    def give(self, *scopes: str, token: str = BOT_TOKEN) -> None:
        self._scopes[token] = sorted({*self._scopes[token], *scopes})

    def spoil(self, reason: str = "token_revoked", token: str = BOT_TOKEN) -> None:
        """From now on every call is refused with `reason`, such as token_revoked, account_inactive or token_expired."""
        self._bad[token] = reason

    def restore(self, token: str = BOT_TOKEN) -> None:
        self._bad.pop(token, None)
