"""Everything that Costguard raises on purpose.

CostguardError
├── SettingsError            the settings file or an environment variable is wrong
├── StoreError
│   ├── DatabaseUnreachable  no connection, or no permission
│   │   └── DatabaseSilent   no answer in time
│   ├── DatabaseLocked       another process holds SQLite's write lock
│   ├── DiskFull             the database could not grow
│   ├── DatabaseNewer        migrated by a later version than this one
│   ├── DatabaseOutdated     migrations have not been run
│   ├── DaemonActs           a guard acts on the database that is to be replaced
│   ├── DatabaseNotEmpty     a backup is not restored over what nobody said may go
│   ├── BackupExists         there is a file of this name already
│   ├── BackupUnusable       no backup, a damaged one, or one that cannot be written
│   ├── UnknownVmMissing     no unknown VM of this name is there
│   └── LeaseLost            another daemon acts now; what was begun must not be finished
├── CloudError
│   ├── CredentialsRefused   expired, revoked or absent
│   ├── PermissionDenied     the service account may not do this
│   ├── NotFound             no such project, zone or instance
│   ├── RateLimited          Google's quota for the API is used up
│   ├── CloudUnavailable     no answer, a 5xx, or a broken connection
│   ├── RequestRefused       Google refuses it for what it says (400), and will again
│   ├── AlreadyExists        the name is taken (409)
│   └── BadAnswer            an answer that is not what the API promises
├── SlackError
│   ├── SlackRefused         the token is revoked, or lacks a scope: nothing can be sent
│   ├── ChannelRefused       this channel is archived, unknown, or without the app
│   ├── SlackLimited         too fast; wait `retry_after`
│   ├── SlackUnavailable     no connection; nothing was done
│   └── SlackUncertain       the answer was lost; it may have been done
├── AccessError
│   ├── SignInRefused        who somebody is could not be verified
│   │   └── SignInUnavailable   nor can it be now: keys or provider do not answer
│   ├── TokenRefused         a token that cannot be made; says why
│   ├── TokenKeyTaken        this idempotency key came with another token before
│   ├── TokenUnknown         there is no such token, or it is another's
│   └── SessionUnknown       there is no such session, it is over, or it is another's
├── AttemptUnknown           a VM's agent without the token of a known attempt
├── JobError
│   ├── JobRefused           a job that cannot be taken in; `problems` say what to change
│   ├── JobKeyTaken          this idempotency key came with another request before
│   ├── JobUnknown           there is no such job
│   ├── JobIsOver            it ended already: there is nothing to cancel
│   └── JobNotTheirs         who asks for it may not
├── ActorError
│   ├── NotTheirName         only an admin acts in another's name
│   └── NobodyNamed          the master token speaks for nobody, and nobody was named
├── AskError
│   ├── VmUnknown            no such VM was ever seen
│   ├── VmNotTheirs          who asks may not do this to it
│   ├── VmNotAsSeen          it is gone, or not as who asked saw it: there is nothing left to do
│   ├── AskWrong             something cannot be asked like this
│   └── AskKeyTaken          this idempotency key came with something else before
├── CheckpointError
│   ├── CheckpointLocationWrong        no such kind of location, or a pattern that cannot be
│   ├── CheckpointLocationMissing      no such bucket or folder
│   ├── CheckpointLocationRefused      no credentials, no permission, or another region
│   └── CheckpointLocationUnavailable  throttled, a 5xx, or no answer
├── WebhookError
│   ├── WebhookUnreachable   no connection to the receiver, or no answer in time
│   └── WebhookUnknown       there is no webhook of this name in the settings
├── PriceSourceError         the price catalogue could not be read
└── ServerUnreachable        the CLI found no Costguard server
"""

from __future__ import annotations

from collections.abc import Sequence


class CostguardError(Exception):
    """Something went wrong that a person can mend; `what_next` says how."""

    def __init__(self, message: str, what_next: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.what_next = what_next

    def __str__(self) -> str:
        return f"{self.message} {self.what_next}".strip()


class SettingsError(CostguardError):
    """The settings file or an environment variable is wrong."""


class StoreError(CostguardError):
    """The database did not do what was asked."""


class DatabaseUnreachable(StoreError):
    """No connection to the database, or no permission to use it."""


class DatabaseNotPrivate(StoreError):
    """Others can read or change the SQLite file."""


class DatabaseSilent(DatabaseUnreachable):
    """The database did not answer in time; what was asked may have been done."""


class DatabaseLocked(StoreError):
    """Another process holds SQLite's write lock for longer than we wait."""


class DiskFull(StoreError):
    """The database could not grow; nothing of the transaction was kept."""


class DatabaseNewer(StoreError):
    """The database was migrated by a later version of Costguard."""


class DatabaseOutdated(StoreError):
    """The database lacks migrations that this version needs."""


class DaemonActs(StoreError):
    """A guard acts on the database that is to be replaced."""


class DatabaseNotEmpty(StoreError):
    """The database holds something that nobody said may go."""


class BackupExists(StoreError):
    """There is a file of this name already, and it stays."""


class BackupUnusable(StoreError):
    """It is no backup, it is damaged, or it cannot be written."""


class UnknownVmMissing(StoreError):
    """No unknown VM of this name is there."""


class LeaseLost(StoreError):
    """Another daemon holds the lease; this one must not write or act."""


class CloudError(CostguardError):
    """Google Cloud did not do what was asked."""


class CredentialsRefused(CloudError):
    """The credentials are expired, revoked or absent."""


class PermissionDenied(CloudError):
    """The service account may not do this in this project."""


class NotFound(CloudError):
    """There is no such project, zone or instance."""


class RateLimited(CloudError):
    """Google's quota for API calls is used up for the moment."""


class CloudUnavailable(CloudError):
    """No answer, a 5xx answer or a broken connection."""


class RequestRefused(CloudError):
    """Google refuses the request for what it says, and will refuse it again; `message` holds its words."""


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
    """Too fast. Nothing was done; it may be tried again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message, "It is sent again by itself.", "ratelimited")
        self.retry_after = retry_after


class SlackUnavailable(SlackError):
    """There was no connection, or Slack says that it did nothing."""


class SlackUncertain(SlackError):
    """The answer was lost or says that something broke half-way: it may have been done."""


class AttemptUnknown(CostguardError):
    """An agent spoke for an attempt that this guard does not know, or without that attempt's own token."""

    def __init__(self, attempt_name: str) -> None:
        what_next = "An agent sends the token from its VM's metadata; no other token speaks for an attempt."
        super().__init__(f"The token does not speak for an attempt {attempt_name[:101]}.", what_next)


class JobError(CostguardError):
    """What was asked about a job cannot be done; nothing was changed."""


class JobRefused(JobError):
    """A job that cannot be taken in: nothing was stored or launched. Each problem is one sentence with what to change.

    `parts` are what of the request each is about, in the same order.
    """

    def __init__(self, problems: Sequence[str], parts: Sequence[str] = ()) -> None:
        super().__init__(" ".join(problems), "Nothing was launched.")
        self.problems = tuple(problems)
        self.parts = tuple(parts)


class JobKeyTaken(JobError):
    """This idempotency key came with another request before."""


class JobUnknown(JobError):
    """There is no such job."""


class DiskNotKept(JobError):
    """No disk of this job is kept that could be deleted."""


class JobIsOver(JobError):
    """It ended already: there is nothing to cancel."""


class JobNotTheirs(JobError):
    """Who asks for it may not."""


class AccessError(CostguardError):
    """Who asks is not known, or may not have what they ask for."""


class SignInRefused(AccessError):
    """Who somebody is could not be verified."""


class SignInUnavailable(SignInRefused):
    """It cannot be verified now: the keys or the provider do not answer."""


class TokenRefused(AccessError):
    """A token that cannot be made."""


class TokenKeyTaken(AccessError):
    """This idempotency key came with another token before."""


class TokenUnknown(AccessError):
    """There is no such token, or it is another's."""


class SessionUnknown(AccessError):
    """There is no such session, it is over, or it is another's."""


class ActorError(CostguardError):
    """It is not known in whose name something was asked."""


class NotTheirName(ActorError):
    """Only an admin may act in another's name."""


class NobodyNamed(ActorError):
    """The master token speaks for nobody, and nobody was named."""


class AskError(CostguardError):
    """What was asked of a VM cannot be done; nothing is going to be changed."""


class VmUnknown(AskError):
    """No such VM was ever seen."""


class VmNotTheirs(AskError):
    """Who asks may not do this to it."""


class VmNotAsSeen(AskError):
    """It is gone, or not as who asked saw it: there is nothing left to do."""


class AskWrong(AskError):
    """Something cannot be asked like this."""


class AskKeyTaken(AskError):
    """This idempotency key came with something else before."""


class CheckpointError(CostguardError):
    """Checkpoints could not be looked at; what lies there is not known."""


class CheckpointLocationWrong(CheckpointError):
    """What was given is no location that checkpoints can be read from, or cannot be looked for there."""


class CheckpointLocationMissing(CheckpointError):
    """There is no such bucket or folder."""


class CheckpointLocationRefused(CheckpointError):
    """There are no credentials for it, or they do not allow to list and read it."""


class CheckpointLocationUnavailable(CheckpointError):
    """It was asked too often, it answered with a 5xx, or it did not answer."""


class WebhookError(CostguardError):
    """A fact did not reach its receiver."""


class WebhookUnreachable(WebhookError):
    """There is no connection to the receiver, or it did not answer in time; it may have taken what was sent."""


class WebhookUnknown(WebhookError):
    """There is no webhook of this name in the settings."""


class PriceSourceError(CostguardError):
    """The price catalogue could not be read; the last good prices stay."""


class ServerUnreachable(CostguardError):
    """The CLI found no Costguard server at the address it was given."""
