"""Words reports about the rounds of gangs, and names the VM for which the others wait."""
