"""Why a run ended, or that it only looks dead, read from what it printed."""
