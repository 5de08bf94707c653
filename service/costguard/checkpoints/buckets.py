"""Buckets, through obstore: opened with this computer's credentials, listed page by page, read in ranges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Any, TypeVar

from costguard.checkpoints.location import Location, of_store
from costguard.errors import CheckpointLocationTooLarge, CheckpointLocationWrong
from costguard_vm.checkpoints.folder import MOST_FILES
from costguard_vm.checkpoints.layouts.base import FileChanged
from costguard_vm.model.checkpoint import LOGS_FOLDER, Listing, StoredFile, names_a_file

READ_ONLY = "https://www.googleapis.com/auth/devstorage.read_only"
READ_WRITE = "https://www.googleapis.com/auth/devstorage.read_write"
_S3_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_S3_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
# obstore's default is ten times within three minutes; a look is repeated anyway.
_TRIES = 3
_REQUEST, _CONNECT, _ALL_TRIES = timedelta(seconds=10), timedelta(seconds=3), timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Endpoints other than Amazon's and Google's. Google's own credentials are never sent to `gcs_endpoint`."""

    s3_endpoint: str = ""
    s3_region: str = ""
    gcs_endpoint: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    first_wait: timedelta = timedelta(milliseconds=200)
    scope: str = READ_ONLY  # of Google's credentials


def open_store(where: Location, access: StoreAccess) -> Any:
    """A store of the location's bucket. May raise what google.auth raises."""
    return _gcs(where, access) if where.scheme == "gs" else _s3(where, access)


def _s3(where: Location, access: StoreAccess) -> Any:
    from obstore.store import S3Store

    endpoint = s3_endpoint(access)
    config: Any = {}
    if endpoint:
        config["endpoint"] = endpoint
        # Other stores have no instance metadata with credentials, and asking for them takes seconds.
        config["skip_signature"] = not any(access.environ.get(name) for name in _S3_CREDENTIALS)
    if access.s3_region:
        config["region"] = access.s3_region
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if access.environ.get(name):
            config[name.removeprefix("AWS_").lower()] = access.environ[name]
    return S3Store(where.bucket, config=config, client_options=_client(endpoint), retry_config=_retry(access))


def s3_endpoint(access: StoreAccess) -> str:
    """Returns the address of S3's buckets; empty: Amazon's own."""
    given = next((access.environ[name] for name in _S3_ENDPOINTS if access.environ.get(name)), "")
    return access.s3_endpoint or given


def _gcs(where: Location, access: StoreAccess) -> Any:
    from obstore.store import GCSStore

    endpoint = access.gcs_endpoint
    options: dict[str, Any] = {"client_options": _client(endpoint), "retry_config": _retry(access)}
    if endpoint:
        key = {
            "gcs_base_url": endpoint,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return GCSStore(where.bucket, config={"service_account_key": json.dumps(key)}, **options)
    return GCSStore(where.bucket, credential_provider=google_credentials(scope=access.scope), **options)


def google_credentials(credentials: Any = None, scope: str = READ_ONLY) -> Any:
    """Google's default credentials for obstore, so that buckets are read like everything else."""
    import google.auth
    from google.auth.transport.requests import Request

    if credentials is None:
        credentials, _ = google.auth.default(scopes=[scope])
    request = Request()

    def token() -> Mapping[str, Any]:
        credentials.refresh(request)
        expiry = credentials.expiry
        return {"token": credentials.token, "expires_at": expiry.replace(tzinfo=UTC) if expiry else None}

    return token


def _client(endpoint: str) -> Any:
    return {"timeout": _REQUEST, "connect_timeout": _CONNECT, "allow_http": endpoint.startswith("http://")}


def _retry(access: StoreAccess) -> Any:
    backoff = {"init_backoff": access.first_wait, "max_backoff": timedelta(seconds=3), "base": 2}
    return {"max_retries": _TRIES, "retry_timeout": _ALL_TRIES, "backoff": backoff}


T = TypeVar("T")
R = TypeVar("R")
_PAGE = 1000
_AT_ONCE = 16


def too_many(where: Location, most: int) -> CheckpointLocationTooLarge:
    return CheckpointLocationTooLarge(
        f"{where} holds more than {most:,} files.", "Name the folder of one run, and keep data elsewhere."
    )


class BucketFolder:
    """A location in a bucket. `store` is one of obstore's stores."""

    def __init__(self, where: Location, store: Any, most: int = MOST_FILES) -> None:
        self._where = where
        self._most = most
        self._store = store
        self._head = f"{where.path}/" if where.path else ""

    def listing(self) -> Listing:
        """Everything below the location; where nothing is, and its name is a file's, that object."""
        listing = self._below()
        is_file = names_a_file(self._where.path) and not (listing.files or listing.unread)
        return self._alone() if is_file else listing

    def _alone(self) -> Listing:
        import obstore
        from obstore.exceptions import BaseError

        folder, slash, name = self._where.path.rpartition("/")
        try:
            row = obstore.head(self._store, self._where.path)
        except FileNotFoundError:
            return Listing(str(self._where), {}, is_file=True)
        except (BaseError, OSError, ValueError) as wrong:
            raise of_store(wrong, self._where) from wrong
        self._head = folder + slash  # from here on, names are relative to its folder
        tag = row["e_tag"] or row["last_modified"].isoformat()
        files = {name: StoredFile(name, row["size"], tag, row["last_modified"])}
        return Listing(str(self._where), files, is_file=True)

    def _below(self) -> Listing:
        """Lists files.

        A malformed name (`a//b`, a control character) fails obstore's whole page: then folders are listed one by one.
        """
        import obstore
        from obstore.exceptions import BaseError, InvalidPathError

        rows: list[Mapping[str, Any]] = []
        try:
            try:
                for page in obstore.list(self._store, self._where.path or None, chunk_size=_PAGE):
                    rows.extend(page)
                    self._check(rows)
            except InvalidPathError:
                rows = []
                return self._listing(rows, self._by_folder(rows))
        except (BaseError, OSError, ValueError) as wrong:
            raise of_store(wrong, self._where) from wrong
        return self._listing(rows, ())

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        import obstore
        from obstore.exceptions import BaseError

        if not length:
            return b""
        try:
            data = bytes(obstore.get_range(self._store, self._head + file.path, start=start, length=length))
        except FileNotFoundError:
            raise FileChanged(file.path) from None
        except (BaseError, OSError, ValueError) as wrong:
            if "status code: 416" in str(wrong):
                raise FileChanged(file.path) from None
            raise of_store(wrong, self._where) from wrong
        if len(data) != length:
            raise FileChanged(file.path)
        return data

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as pool:
            return list(pool.map(work, items))

    def _by_folder(self, rows: list[Mapping[str, Any]]) -> Sequence[str]:
        """Lists folder by folder; returns the folders that cannot be listed because of a name in them."""
        import obstore
        from obstore.exceptions import InvalidPathError

        waiting, unread = [self._where.path], []
        while waiting:
            folder = waiting.pop()
            try:
                page = obstore.list_with_delimiter(self._store, folder or None)
            except InvalidPathError as wrong:
                if folder == self._where.path:
                    reason = " ".join(str(wrong).partition("\n\nDebug source")[0].split())[:200]
                    raise CheckpointLocationWrong(
                        f"{self._where}: a name directly in it cannot be read ({reason}).",
                        "Rename or remove that object, or give the checkpoints a folder of their own.",
                    ) from wrong
                unread.append(folder.removeprefix(self._head))
                continue
            rows.extend(page["objects"])
            waiting.extend(page["common_prefixes"])
            self._check(rows)
        return sorted(unread)

    def _check(self, rows: Sequence[object]) -> None:
        if len(rows) > self._most:
            raise too_many(self._where, self._most)

    def _listing(self, rows: Iterable[Mapping[str, Any]], unread: Iterable[str]) -> Listing:
        files = {}
        for row in rows:
            path = row["path"].removeprefix(self._head)
            if path and row["path"] != self._where.path and not path.startswith(f"{LOGS_FOLDER}/"):
                tag = row["e_tag"] or row["last_modified"].isoformat()
                files[path] = StoredFile(path, row["size"], tag, row["last_modified"])
        return Listing(str(self._where), _without_folder_marks(files), tuple(unread))


def _without_folder_marks(files: dict[str, StoredFile]) -> dict[str, StoredFile]:
    """Removes the empty objects `folder/` that consoles create, which obstore lists without the slash."""
    folders: set[str] = set()
    for path in files:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    return {path: file for path, file in files.items() if file.size or path not in folders}
