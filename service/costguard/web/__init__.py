"""Parts that every HTTP response shares: authentication, permissions and errors."""
