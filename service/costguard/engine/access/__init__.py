"""Who asks: tokens, sessions, links, and what others vouch for."""
