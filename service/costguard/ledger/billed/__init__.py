"""Works out the billed parts of a VM, and how much of each: its machine, its storage, its addresses. Pure."""
