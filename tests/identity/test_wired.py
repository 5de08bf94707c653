"""The ways in that the settings name are the ones that the server has."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.identity.provider import CLIENT, SECRET, providing
from tests.settings.reading import read

from costguard import main
from costguard.main import access
from costguard.main.access import sign_in_pages as built
from costguard.pages.sign_in import SignInPages

BARE = '[watch]\nprojects = ["ml-training"]\n[reminders]\ncontact = "lead@example.com"\n'


def test_by_the_settings(tmp_path: Path, sqlite_url: str) -> None:
    """Nothing is there unasked; a stranger does not learn whom to ask."""
    text = BARE + f'[database]\nurl = "{sqlite_url}"\n[sign_in]\n'
    none = read(tmp_path, text)
    assert (access.iap_verifier(none), access.oidc_provider(none)) == (None, None)
    with main.opened(none) as guard:
        pages = pages_of(guard)
        assert (pages.is_https, pages.is_behind_iap, pages.ask, pages.sign_ins.provider) == (False, False, "", None)
    with providing() as provider:
        through = f'oidc_issuer = "{provider.issuer}"\noidc_client_id = "{CLIENT}"\nurl = "https://cg.example"\n'
        anybody = read(tmp_path, text + through + 'session = "1h"\n', COSTGUARD_OIDC_CLIENT_SECRET=SECRET)
        with main.opened(anybody) as guard:
            pages = pages_of(guard)
            assert (pages.is_https, pages.lasts, pages.ask) == (True, timedelta(hours=1), "")
            assert pages.sign_ins.provider is not None
            assert (pages.sign_ins.provider.name, pages.sign_ins.provider.url) == ("127.0.0.1", "https://cg.example")
            url, _ = pages.sign_ins.begin("/", "")
            assert url.startswith(f"{provider.issuer}/authorize?")
        theirs = read(tmp_path, text + through + 'oidc_domain = "example.com"\n', COSTGUARD_OIDC_CLIENT_SECRET=SECRET)
        with main.opened(theirs) as guard:
            assert pages_of(guard).ask == "lead@example.com"
            assert "hd=example.com" in pages_of(guard).sign_ins.begin("/", "")[0]
    proxied = read(tmp_path, text + 'iap_audience = "/projects/1/global/backendServices/2"\n')
    assert access.iap_verifier(proxied) is not None
    with main.opened(proxied) as guard:
        assert (pages_of(guard).is_behind_iap, pages_of(guard).ask) == (True, "lead@example.com")


def pages_of(guard: main.Guard) -> SignInPages:
    return built(guard.settings, guard.database, guard.clock, guard.speed, lambda _via, _is_in: None)
