"""Who somebody is, as others vouch for it: Google's Identity-Aware Proxy, and OpenID Connect."""
