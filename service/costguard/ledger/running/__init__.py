"""Running money: the rate of each instance, and the totals of what accrues, by group.

Both follow each change of the ledger in its transaction, and are good while their common basis holds: the prices by
which they were computed, and the time within which those hold.
"""
