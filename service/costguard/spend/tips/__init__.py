"""Judges which tips were followed, by what happened after each, and adds up what that saved."""
