"""The ports: protocols that adapters implement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import IO, Any, Protocol

from costguard.model.data import StoredSize
from costguard.model.delivery.message import Content, Posted
from costguard.model.delivery.person import Person
from costguard.model.instance import InstanceKey, Shape
from costguard.model.keeper import Keeper
from costguard.model.launch import (
    GroupAddress,
    GroupParts,
    OperationAnswer,
    PolicyAnswer,
    Quota,
    ResizeAnswer,
    ResizeRequest,
    VmRequest,
    WayOut,
)
from costguard.model.observation import (
    AssetAnswer,
    FeedBacklog,
    FeedMessage,
    Observation,
    PlaceSearch,
    Presence,
    Sighting,
)
from costguard.model.price import Price
from costguard.model.utilisation import Usage
from costguard_vm.model.checkpoint import CheckpointLook, Listing, LookFor, StoredFile

GoOn = Callable[[], None]  # called between the steps of long work; raises where nobody waits for it any more


def always() -> None:
    """Goes on whatever happens: a `GoOn` of work that nobody can leave."""


class Cloud(Protocol):
    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        """Look at one project. Never raises a CloudError: what could not be read is in `unread`.

        Operations inserted after `operations_since` are read; None reads all that Google still keeps.
        """
        ...

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        """Have the next look show these VMs whole, though they may be unchanged since the last one."""
        ...

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        """Ask for this one VM by its address and compare ids."""
        ...

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        """Returns the parts of a machine type; None where they cannot be read now. Raises NotFound."""
        ...


class AssetHistories(Protocol):
    """Google's history of resources, which it keeps for 35 days."""

    def history(self, parent: str, names: Sequence[str], calls: int) -> AssetAnswer:
        """Reads what these assets were, in at most so many calls: `organizations/N` or `projects/P` holds them.

        Raises CloudError where a call fails. A name that the answer does not have as answered is left for later.
        """
        ...


class Actuator(Protocol):
    """Changes VMs. Every method raises CloudError; a repeat under the same request id is harmless.

    After CloudUnavailable it may have begun; after any other error it has not. `instance` is a name, or the numeric id,
    which no other VM will ever have. Operations are named by their ids, as the ledger has them.
    """

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM at this address; None where there is none."""
        ...

    def look_at_resource(self, key: InstanceKey) -> Sighting | None: ...
    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str: ...  # the operation's id, as below

    def stop_kept(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str:
        """Begin to stop the VM of this id by its keeper's own API. The operation's id.

        KeptByAnother where the keeper does not know it, or would undo the stop: nothing was asked then.
        """
        ...

    def kept_operation(self, keeper: Keeper, address: tuple[str, str, str], operation: str) -> OperationAnswer | None:
        """Returns the progress of what `stop_kept` began; None where Google does not know it any more."""
        ...


class VmGroups(Protocol):
    """Makes VMs all at once, in groups of our own. Every method raises CloudError, as a `Launcher`'s do.

    Each thing is known by its name: what is there already counts as made. RequestRefused: Google refuses it for what
    it says. Nothing waits for an operation: `parts` and `resize_answer` say what is there.
    """

    def parts(self, group: GroupAddress) -> GroupParts:
        """Returns what is there of a group."""
        ...

    def insert_template(self, group: GroupAddress, vm: VmRequest, request_id: str) -> None:
        """Begins to make its template, of the VMs that `vm` describes but for the name."""
        ...

    def insert_group(self, group: GroupAddress, request_id: str) -> None:
        """Begins to make the group, without VMs. Its template must be there."""
        ...

    def resize(self, group: GroupAddress, wanted: ResizeRequest, request_id: str) -> None:
        """Asks for VMs of these names, all at once."""
        ...

    def resize_answer(self, group: GroupAddress, name: str) -> ResizeAnswer | None:
        """Returns how a resize request stands; None where there is none."""
        ...

    def cancel(self, group: GroupAddress, name: str, request_id: str) -> None:
        """Takes a request that waits out of the queue. RequestRefused where it does not wait (any more)."""
        ...

    def delete_vms(self, group: GroupAddress, vms: Sequence[str], request_id: str) -> None:
        """Begins to delete VMs of the group, by their names."""
        ...

    def delete_group(self, group: GroupAddress, request_id: str) -> None:
        """Begins to delete the group, with its VMs and the requests that wait. NotFound where it is gone."""
        ...

    def delete_template(self, group: GroupAddress, request_id: str) -> None:
        """Begins to delete the template. NotFound where it is gone; RequestRefused while its group is there."""
        ...


class Launcher(Protocol):
    """Creates and deletes the VMs of jobs. Every method raises CloudError; repeats with the same id are harmless.

    After CloudUnavailable a call may have begun; after any other error it has not. RequestRefused: Google refuses it
    for what it says, and will again. AlreadyExists: another VM, or an earlier call of ours, has this name.
    """

    @property
    def groups(self) -> VmGroups:
        """The groups by which VMs are requested all at once."""
        ...

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM at this address; None where there is none (404)."""
        ...

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        """Begin to make it. The operation's id. Stockouts and quotas come as the operation's error."""
        ...

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to start a VM that was stopped. The operation's id."""
        ...

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to stop it, its disks kept. The operation's id."""
        ...

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to delete it. The operation's id; NotFound where it is gone. `instance` is a name or the numeric id."""
        ...

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        """Returns the progress of an operation; None where Google does not know it (any more)."""
        ...

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        """Returns the quotas by metric, as Google counts them now."""
        ...

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        """Returns how VMs without external addresses get out of this subnetwork; "" is the one Google would choose."""
        ...

    def placement_policy(self, project: str, region: str, name: str) -> PolicyAnswer | None:
        """The placement policy of this name; None where there is none (404)."""
        ...

    def make_placement_policy(self, project: str, region: str, name: str, description: str, request_id: str) -> None:
        """Begin to make a compact one, without a bound on the distance; VMs may name it once it is READY."""
        ...

    def delete_placement_policy(self, project: str, region: str, name: str, request_id: str) -> None:
        """Begin to delete it; RequestRefused while a VM uses it."""
        ...


class Notifier(Protocol):
    """Slack, as far as the engine needs it. Every method raises SlackError.

    A channel is an id, or a name with `#`. `key` is written into the message's metadata, unseen by people.
    """

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        """SlackUncertain: it may stand there; `find` tells."""
        ...

    def update(self, at: Posted, content: Content, key: str) -> None:
        """Show this in its place; harmless when repeated."""
        ...

    def post_ephemeral(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        """Posts a message for this person's eyes only. Its arrival cannot be checked later."""
        ...

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        """The message with this key among those since then, in the channel or in the thread."""
        ...

    def person_of(self, address: str) -> Person | None:
        """Returns the person with this address; None where there is none, or they have left."""
        ...

    def person_by_id(self, user_id: str) -> Person | None: ...

    def open_direct(self, user_id: str) -> str:
        """The id of the app's direct messages with this person."""
        ...


class ProjectSearch(Protocol):
    def search(self, place: str) -> PlaceSearch:
        """Finds the projects of `organizations/N` or `folders/N` that hold what bills.

        Never raises a CloudError: a search that failed, or ended early, says so in `unread`.
        """
        ...


class UsageSource(Protocol):
    def usage(self, project: str, since: datetime, until: datetime, *, with_vertex: bool = False) -> Usage:
        """Returns the measurements of a project's VMs, and `with_vertex` of what Vertex AI runs.

        Never raises a CloudError: what could not be read is in `unread`.
        """
        ...


class Archives(Protocol):
    """Objects by name at one place of a bucket or in a folder. Every method raises CheckpointError."""

    def find(self, name: str) -> StoredFile | None:
        """Returns the archive with this name; None where there is none."""
        ...

    def put(self, name: str, file: IO[bytes]) -> None:
        """The whole object or nothing."""
        ...

    def read(self, stored: StoredFile) -> Iterator[bytes]:
        """Piece by piece."""
        ...

    def listing(self) -> Sequence[StoredFile]: ...

    def delete(self, name: str) -> None:
        """Nothing where it is gone."""
        ...


class Checkpoints(Protocol):
    def listing(self, location: str) -> Listing:
        """Everything that lies there now, for a later look. Raises CheckpointError."""
        ...

    def look(
        self, location: str, look_for: LookFor, earlier: Listing | None = None, examine: int = 1
    ) -> CheckpointLook:
        """Looks at a location, and chooses the checkpoint to resume from. Raises CheckpointError.

        A checkpoint counts when nothing of it changed since the `earlier` listing. The newest `examine` are looked
        inside at least, and as many more as it takes to find a complete one.
        """
        ...


class DataPlaces(Protocol):
    def size(self, location: str, endpoint: str) -> StoredSize | None:
        """Measures the data at this address, an object or a folder. Raises CheckpointError.

        `endpoint` is where a job reads it; None where this installation reads such addresses elsewhere.
        """
        ...


class Feed(Protocol):
    """The subscription that audit entries come by. Every method raises CloudError."""

    def pull(self, wait: timedelta) -> Sequence[FeedMessage]:
        """Returns the messages that are there, or come within the wait; empty where none did.

        Each is held for this process until the subscription's deadline: then it comes again, unless acknowledged.
        """
        ...

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """These never come again. A message that is acknowledged too late may still come once more."""
        ...

    def hold(self, ack_ids: Sequence[str], by: timedelta) -> None:
        """Moves the deadline of messages to this long from now, at most 10 minutes; with 0 they come again at once."""
        ...

    def publish(self, messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> None:
        """Publishes data with attributes to the topic that the subscription is of."""
        ...

    def backlog(self, now: datetime) -> FeedBacklog:
        """Reads how many messages are unread. Google counts once a minute, and shows it up to four minutes later."""
        ...


class BillTable(Protocol):
    """A table of Google's billing export."""

    name: str
    bytes_billed: int
    """The bytes that all queries so far were billed for."""

    def rows(self, first: date, after: date) -> Iterator[Mapping[str, Any]]:
        """Every row that was appended on the UTC days from first up to after, as the export names its fields.

        Raises CloudError.
        """
        ...


class PriceSource(Protocol):
    def fetch(self) -> Sequence[Price]:
        """All prices that the source knows and Costguard uses. Raises PriceSourceError."""
        ...


class IapVerifier(Protocol):
    def address(self, assertion: str) -> str:
        """Returns the address of the person whom Google's Identity-Aware Proxy let through, in lower case.

        Raises SignInRefused.
        """
        ...


class OidcProvider(Protocol):
    """Signs people in by OpenID Connect. Every method raises SignInRefused."""

    def begin(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Returns the address to send the browser to.

        The three secrets are this sign-in's own; `finish` takes the last two again.
        """
        ...

    def finish(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> str:
        """Returns the address of the person who came back with this code, in lower case, verified by the provider."""


class Clock(Protocol):
    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
