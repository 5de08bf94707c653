"""Everything that a user can set, read once and checked as a whole."""

from costguard.settings.environment import VARIABLES
from costguard.settings.load import example, load, validate, warnings, where_it_is
from costguard.settings.sections import Settings, setting_keys

__all__ = ["VARIABLES", "Settings", "example", "load", "setting_keys", "validate", "warnings", "where_it_is"]
