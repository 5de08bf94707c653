"""Identity providers: Google's Identity-Aware Proxy, and OpenID Connect."""
