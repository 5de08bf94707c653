"""People sign in as the settings say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.settings.reading import read, refused

GOOD = '[watch]\nprojects = ["ml-training"]\n'
SIGN_IN = GOOD + "[sign_in]\n"
OIDC = (
    SIGN_IN + 'oidc_issuer = "https://accounts.google.com"\noidc_client_id = "id-1"\nurl = "https://cg.example.com"\n'
)
SECRET = "COSTGUARD_OIDC_CLIENT_SECRET"


def test_what_can_be_set(tmp_path: Path) -> None:
    """Nothing need be set; an address loses its slash, an issuer keeps it, and the secret shows nowhere."""
    bare = read(tmp_path, GOOD).sign_in
    assert (bare.session, bare.url, bare.iap_audience, bare.oidc_issuer) == (timedelta(hours=12), None, None, None)
    text = SIGN_IN + (
        'url = "https://CG.example.com/"\nsession = "30d"\niap_audience = "/projects/1/us-central1/backendServices/2"\n'
        'oidc_issuer = "https://example.eu.auth0.com/"\noidc_client_id = "id-1"\noidc_domain = "example.com"\n'
    )
    settings = read(tmp_path, text, **{SECRET: "hunter2"})
    full = settings.sign_in
    assert (full.url, full.oidc_issuer) == ("https://cg.example.com", "https://example.eu.auth0.com/")
    assert full.session == timedelta(days=30)
    assert full.oidc_client_secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings) + settings.model_dump_json()
    assert read(tmp_path, OIDC.replace("https://accounts.google.com", "http://127.0.0.1:1"), **{SECRET: "s"})


def test_what_is_wrong_is_reported(tmp_path: Path) -> None:
    """Each wrong value, and each way in that lacks a part, is reported with what to write."""
    secret = {SECRET: "hunter2"}
    for text, sentence in (
        ('url = "cg.example.com"', "expected the server's address as people reach it"),
        ('url = "https://cg.example.com/costguard"', "with no path"),
        ('session = "1m"', "a time from 5m to 30d"),
        ('session = "never"', "expected a time with its unit"),
        ('iap_audience = "123"', "expected the audience as Identity-Aware Proxy's page shows it"),
        ('iap_audience = "/projects/my-project/global/backendServices/1"', "/projects/123456789/global"),
        ('oidc_issuer = "accounts.google.com"', "such as https://accounts.google.com"),
        ('oidc_issuer = "http://id.example.com"', "such as https://accounts.google.com"),
        ('oidc_issuer = "https://u:hunter2@id.example.com"', "expected the provider's issuer"),
        ('oidc_issuer = "https://a.b/.well-known/openid-configuration"', "did you mean https://a.b?"),
        ('oidc_client_id = "my id"', "without spaces"),
        ('oidc_domain = "@example.com"', "a mail domain such as example.com"),
        ('oidc_domain = "example.com"', "sign_in.oidc_domain: needs oidc_issuer as well: the provider"),
        ('oidc_client_id = "id-1"', "sign_in.oidc_client_id: needs oidc_issuer as well"),
        ('oidc_issuer = "https://a.b"', "sign_in.oidc_issuer: needs oidc_client_id as well"),
        ('oidc_issuer = "https://a.b"', "sign_in.oidc_issuer: needs url as well: where people reach this server"),
        ('oidc_client_secret = "hunter2"', f"no such key; it comes from the environment: {SECRET}"),
        ('client_secret = "hunter2"', f"no such key; secrets come from the environment: {SECRET}"),
        ('ipa_audience = "/projects/1/x/2"', "did you mean iap_audience?"),
    ):
        error = refused(tmp_path, f"{SIGN_IN}{text}\n", **secret)
        assert sentence in error.message, text
        assert "hunter2" not in str(error), text
    assert f"needs the client's secret, which the provider shows, in {SECRET}" in refused(tmp_path, OIDC).message


def test_who_may_listen_to_others(tmp_path: Path) -> None:
    """A server that others can reach needs a token or a way to sign in; without either the message names all three."""
    listening = '[server]\nlisten = "0.0.0.0:8765"\n'
    audience = 'iap_audience = "/projects/1/global/backendServices/2"\n'
    message = refused(tmp_path, GOOD + listening).message
    for word in ("others could reach 0.0.0.0:8765", "COSTGUARD_TOKEN", "iap_audience", "oidc_issuer", "127.0.0.1"):
        assert word in message
    assert "others could reach" in refused(tmp_path, f'{SIGN_IN}session = "1h"\n{listening}').message
    assert read(tmp_path, SIGN_IN + audience + listening)
    assert read(tmp_path, OIDC + listening, **{SECRET: "s"})
    assert read(tmp_path, GOOD + listening, COSTGUARD_TOKEN="a-token-that-nobody-guesses")
