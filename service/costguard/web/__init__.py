"""What every answer over HTTP shares: who asks, what they may, how errors are told."""
