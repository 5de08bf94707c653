"""How messages reach the receivers of facts."""
