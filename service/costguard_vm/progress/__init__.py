"""Progress of trainings: what their output says, and whether their metrics still improve. Travels with the agent."""
