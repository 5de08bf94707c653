"""The exceptions of Costguard.

Most errors are one of five kinds, which callers and HTTP tell apart (web/problems.py has the table). A class of its own
exists only where a caller decides by it.

CostguardError
├── Missing                  there is no such thing, or none that this caller may see
├── Forbidden                this caller may not
│   └── SignInRefused        an identity could not be verified
│       └── SignInUnavailable   nor can it be now: keys or provider do not answer
├── Conflict                 it is not in the state that this needs, or the key is taken
├── Invalid                  the request itself is wrong; `fields` say where
├── Unavailable              something that is needed does not answer
│   └── StoreError           the database did not do what was asked
│       ├── DatabaseUnreachable  no connection, or no permission
│       │   └── DatabaseSilent   no answer in time
│       └── LeaseLost        another daemon acts now; what was begun must not be finished
├── SettingsError            the settings file or an environment variable is wrong
├── CloudError
│   ├── CredentialsRefused   expired, revoked or absent
│   ├── PermissionDenied     the service account may not do this
│   ├── NotFound             no such project, zone or instance
│   ├── RateLimited          Google's quota for the API is used up
│   ├── CloudUnavailable     no answer, a 5xx, or a broken connection
│   ├── RequestRefused       Google refuses it for what it says (400), and will again
│   │   └── NoticeRefused    for the notice of a preemption, which this VM cannot have
│   ├── AlreadyExists        the name is taken (409)
│   └── BadAnswer            an answer that is not what the API promises
├── SlackError
│   ├── SlackRefused         the token is revoked, or lacks a scope: nothing can be sent
│   ├── ChannelRefused       this channel is archived, unknown, or without the app
│   ├── SlackLimited         too fast; wait `retry_after`
│   ├── SlackUnavailable     no connection; nothing was done
│   └── SlackUncertain       the answer was lost; it may have been done
├── CheckpointError
│   ├── CheckpointLocationWrong        no such kind of location, or a pattern that cannot be
│   ├── CheckpointLocationMissing      no such bucket or folder
│   ├── CheckpointLocationRefused      no credentials, no permission, or another region
│   └── CheckpointLocationUnavailable  throttled, a 5xx, or no answer
├── WebhookError             no connection to the receiver, or no answer in time
├── TrackerError             an experiment tracker takes nothing now; some of what was sent may have been taken
│   └── TrackerRunRefused    it does not take this one run, and will not by itself
├── PriceSourceError         the price catalogue could not be read
└── ServerUnreachable        the CLI found no Costguard server
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

# Names of errors that programs tell apart, with what /problems/NAME says.
KINDS: Mapping[str, str] = {
    "job-refused": "The job cannot be taken in as it was asked for; `errors` names every part of the body.",
    "job-over": "The job has ended already.",
    "no-code": "The archive of code is not there, or so old that it has to be uploaded again.",
    "no-code-place": "The server's settings name no place for code.",
    "sweep-refused": "The sweep cannot be taken in, or resumed, as it was asked for; `errors` names every part.",
    "schedule-refused": "The schedule cannot be created as it was asked for; `errors` names every part.",
    "schedule-over": "The schedule has ended for good.",
    "run-open": "An earlier run of the schedule is not over, and its runs do not overlap.",
    "too-many-schedules": "Its owner has as many schedules as one may have.",
    "sweep-over": "The sweep has ended already.",
    "sweep-open": "The sweep is still being cancelled.",
    "nothing-to-resume": "No member of the sweep failed or was left over, or those that were named did not fail.",
    "stage-in-use": "Open jobs use the staged copy of the data.",
    "no-disk": "No disk of the job is kept that could be deleted.",
    "kept-by-another": "A managed instance group or a service of Google keeps this, so it is never stopped.",
    "key-taken": "This Idempotency-Key came with something else before.",
    "name-refused": "It is not known, or not allowed, in whose name this was asked.",
    "vm-not-as-seen": "It, or its run, is not as the caller saw it: there is nothing left to do.",
    "not-yours": "The caller may not do this to this VM or resource, job, sweep or schedule.",
    "token-refused": "The token cannot be made as it was asked for.",
    "too-many-streams": "This token or session has as many streams open as one may.",
}


class CostguardError(Exception):
    """An error that a person can mend; `what_next` says how.

    `kind` names it in the API, as /problems/KIND explains it. `fields` are parts of the request, each with its message.
    """

    def __init__(
        self, message: str, what_next: str = "", *, kind: str = "", fields: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.what_next = what_next
        self.kind = kind
        self.fields = tuple(fields)

    def __str__(self) -> str:
        return f"{self.message} {self.what_next}".strip()


class Missing(CostguardError):
    """There is no such thing, or none that this caller may see."""


class Forbidden(CostguardError):
    """This caller may not do it."""


class SignInRefused(Forbidden):
    """An identity could not be verified."""


class SignInUnavailable(SignInRefused):
    """It cannot be verified now: the keys or the provider do not answer."""


class Conflict(CostguardError):
    """It is not in the state that this needs, or its key came with something else before. Nothing was changed."""


class Invalid(CostguardError):
    """The request itself is wrong. Nothing was changed."""


class Unavailable(CostguardError):
    """Something that is needed does not answer."""


class StoreError(Unavailable):
    """The database did not do what was asked. Nothing of the transaction was kept, unless it was silent."""


class DatabaseUnreachable(StoreError):
    """No connection to the database, or no permission to use it."""


class DatabaseSilent(DatabaseUnreachable):
    """The database did not answer in time; what was asked may have been done."""


class LeaseLost(StoreError):
    """Another daemon holds the lease; this one must not write or act."""


class SettingsError(CostguardError):
    """The settings file or an environment variable is wrong."""


class CloudError(CostguardError):
    """Google Cloud did not do what was asked. `retry_after`: the seconds after which it says to ask again; 0: none.

    `refusal` is its kind, as costguard.refusals has it; "" where no answer came.
    """

    retry_after = 0.0
    refusal = ""
    _code = "bad_answer"

    @property
    def code(self) -> str:
        """The short, stable word under which it is counted: of a denial, its kind."""
        return self._code


class CredentialsRefused(CloudError):
    """The credentials are expired, revoked or absent."""

    _code = "credentials"


class PermissionDenied(CloudError):
    """The service account may not do this in this project."""

    @property
    def code(self) -> str:
        return self.refusal or "permission"


class NotFound(CloudError):
    """There is no such project, zone or instance."""

    _code = "not_found"


class RateLimited(CloudError):
    """Google's quota for API calls is used up for the moment."""

    _code = "rate_limit"


class CloudUnavailable(CloudError):
    """No answer, a 5xx answer or a broken connection."""

    _code = "unavailable"


class KeptByAnother(CloudError):
    """A managed instance group or a service of Google keeps this VM: Costguard asks nothing of Google about it."""


class RequestRefused(CloudError):
    """Google refuses the request for what it says, and will refuse it again; `message` holds its words."""


class NoticeRefused(RequestRefused):
    """Google refuses the notice of a preemption that was asked for with a VM; without it the VM may be had."""


class AlreadyExists(CloudError):
    """Something with this name is there already."""


class BadAnswer(CloudError):
    """An answer that is not what the API promises."""

    def __init__(self, message: str, what_next: str = "") -> None:
        hint = "Check the endpoint, and that no proxy answers in its place; it is asked again at the next pass."
        super().__init__(message, what_next or hint)


class SlackError(CostguardError):
    """Slack did not do what was asked; `code` is its own word for why."""

    def __init__(self, message: str, what_next: str = "", code: str = "") -> None:
        super().__init__(message, what_next)
        self.code = code


class SlackRefused(SlackError):
    """The token is revoked or lacks a scope: nothing can be sent until a person mends it."""


class ChannelRefused(SlackError):
    """This channel is archived, unknown, or does not have the app in it. Others may work."""


class SlackLimited(SlackError):
    """The calls come too fast. Nothing was done; it may be tried again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, "It is sent again by itself.", "ratelimited")
        self.retry_after = retry_after


class SlackUnavailable(SlackError):
    """There was no connection, or Slack says that it did nothing."""


class SlackUncertain(SlackError):
    """The answer was lost or says that something broke half-way: it may have been done."""


class CheckpointError(CostguardError):
    """Checkpoints could not be looked at; what lies there is not known."""


class CheckpointLocationWrong(CheckpointError):
    """The given text is no location that checkpoints can be read from, or cannot be looked for there."""


class CheckpointLocationTooLarge(CheckpointLocationWrong):
    """It holds more files than one run's folder: nothing was looked for."""


class CheckpointLocationMissing(CheckpointError):
    """There is no such bucket or folder."""


class CheckpointLocationRefused(CheckpointError):
    """There are no credentials for it, or they do not allow to list and read it."""


class CheckpointLocationUnavailable(CheckpointError):
    """It was asked too often, it answered with a 5xx, or it did not answer."""


class WebhookError(CostguardError):
    """An event did not reach its receiver; where no answer came, it may have been taken."""


class TrackerError(CostguardError):
    """An experiment tracker takes nothing now: no answer, a 5xx, or credentials that it refuses.

    Some of what was sent may have been taken. `at_least` is how long it wants to be left alone.
    """

    def __init__(self, message: str, what_next: str = "", *, at_least: timedelta = timedelta()) -> None:
        super().__init__(message, what_next)
        self.at_least = at_least


class TrackerRunRefused(TrackerError):
    """The tracker does not take this run: there is none, it was deleted, or the credentials do not reach it."""


class PriceSourceError(CostguardError):
    """The price catalogue could not be read; the last good prices stay."""


class ServerUnreachable(CostguardError):
    """The CLI found no Costguard server at the address it was given."""
