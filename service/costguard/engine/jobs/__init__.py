"""Jobs: taking them in, hearing of them, and bringing each one step further."""
