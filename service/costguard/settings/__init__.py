"""Everything that a user can set, read once and checked as a whole."""

from costguard.settings.environment import VARIABLES
from costguard.settings.load import example, load, load_access, validate, warnings, where_it_is
from costguard.settings.sections import AccessSettings, Settings, setting_keys
