"""Acting: the one place that stops VMs, carries out what people asked for, and settles what became of it."""
