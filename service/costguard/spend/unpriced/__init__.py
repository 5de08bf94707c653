"""Some lifetimes and disks have no price: they are counted in groups for sums, and listed one by one."""
