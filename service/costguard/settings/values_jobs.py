"""How the values of launching are written: zones, images, networks, and where VMs reach the guard.

Each function raises ValueError with what was expected, worded to follow "expected ".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from costguard.settings import values

OURS = "costguard-"  # labels that begin so are put on VMs by Costguard itself

_ZONE = re.compile(r"[a-z]+(?:-[a-z]+)+[0-9]+-(?:[a-z]|ai[0-9]+[a-z])")
_WORDS = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_PROJECT = r"(?:projects/[a-z0-9.:-]+/)?"
_IMAGE = re.compile(rf"{_PROJECT}global/images/(?:family/)?{_NAME}")
_NETWORK = re.compile(rf"{_PROJECT}global/networks/{_NAME}")
_SUBNETWORK = re.compile(rf"(?:{_PROJECT}regions/[a-z0-9-]+/subnetworks/)?{_NAME}")
_SCOPE = re.compile(r"https://www\.googleapis\.com/auth/[a-z0-9._-]+")
_JOB = re.compile(r"[a-z][a-z0-9]{3,31}")


def zone(value: str) -> str:
    if not _ZONE.fullmatch(value):
        raise ValueError("a zone such as us-central1-a, with the letter at its end")
    return value


def zones(found: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(found)) < len(found):
        raise ValueError("each zone once, the one that is preferred first")
    return found


def machine_type(value: str) -> str:
    if not _WORDS.fullmatch(value):
        raise ValueError("a machine type as Google writes it, such as n1-standard-8 or a2-highgpu-1g")
    return value


def disk_type(value: str) -> str:
    if not _WORDS.fullmatch(value):
        raise ValueError("a disk type as Google writes it, such as pd-balanced or pd-ssd")
    return value


def image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise ValueError("an image or a family of images, such as projects/PROJECT/global/images/family/FAMILY")
    return value


def network(value: str) -> str:
    """A name alone is a network of the VM's own project."""
    full = value if "/" in value else f"global/networks/{value}"
    if not _NETWORK.fullmatch(full):
        raise ValueError('a network\'s name, such as "default", or projects/PROJECT/global/networks/NAME')
    return full


def subnetwork(value: str) -> str:
    """A name alone is the subnetwork of that name in whichever region a VM is launched."""
    if not _SUBNETWORK.fullmatch(value):
        raise ValueError("a subnetwork's name, or [projects/PROJECT/]regions/REGION/subnetworks/NAME")
    return value


def region_of(path: str) -> str:
    """The region of a subnetwork that names one, else ""."""
    found = re.search(r"regions/([^/]+)/", path)
    return found[1] if found else ""


def service_account(value: str) -> str:
    if value != "default" and not (value.endswith(".gserviceaccount.com") and values.mail_address(value)):
        raise ValueError(
            'a service account\'s address such as trainer@my-project.iam.gserviceaccount.com, or "default"'
        )
    return value


def scope(value: str) -> str:
    if not _SCOPE.fullmatch(value):
        raise ValueError("an access scope such as https://www.googleapis.com/auth/cloud-platform")
    return value


def labels(given: Mapping[str, str]) -> Mapping[str, str]:
    for key in given:
        if values.label_key(key).startswith(OURS):
            raise ValueError(f"labels that do not begin with {OURS}, which Costguard puts on its VMs itself")
    if len(given) > 32:
        raise ValueError("at most 32 labels: Google allows 64 on a VM, and Costguard adds its own")
    return given


def job_id(value: str) -> str:
    if not _JOB.fullmatch(value):
        raise ValueError("a job's id, such as j7k2m9q4")
    return value


def guard_url(value: str) -> str:
    """Tokens travel there, so it is encrypted; only on one machine it need not be."""
    try:
        address = values.endpoint(value)
        parts = urlsplit(address)
        usable = parts.scheme == "https" or values.is_loopback(parts.hostname or "")
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            "where VMs reach this guard, such as https://costguard.example.com (http:// on 127.0.0.1 only)"
        )
    return address


def certificates(value: str) -> str:
    """A file with the certificate of an authority, or several, as PEM."""
    try:
        text = Path(value).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"a file with certificates as PEM, but it cannot be read: {reason}") from None
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY" in text:
        raise ValueError("a file with certificates as PEM (-----BEGIN CERTIFICATE-----), and no private key")
    return value
