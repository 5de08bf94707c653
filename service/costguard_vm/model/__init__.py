"""The values and rules that the agent shares with the server."""
