"""The processes that serve: how they are started, watched and restarted, and what is said over the wire to them."""
