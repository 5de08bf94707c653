"""Values of what leaves Costguard for people and programs, and of the people."""
