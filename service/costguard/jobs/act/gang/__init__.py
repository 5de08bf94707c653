"""Notes rounds of gangs, and makes and deletes their placement policies."""
