"""Everything that a user can set, read once and checked whole."""

from costguard.settings.environment import VARIABLES
from costguard.settings.keys import setting_keys
from costguard.settings.load import example, load, validate, where_it_is
from costguard.settings.sections import Settings

__all__ = ["VARIABLES", "Settings", "example", "load", "setting_keys", "validate", "where_it_is"]
