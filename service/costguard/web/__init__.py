"""What every HTTP response shares: authentication, permissions and errors."""
