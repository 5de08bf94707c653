"""Google Compute Engine and its price catalogue, behind the ports. No type of Google's leaves this room."""
