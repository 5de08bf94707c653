"""Costguard for agents: a Model Context Protocol server over the REST client. It knows the guard by its API alone."""
