"""What runs on a VM that the guard launched. It travels as one file (`bundle.py`) and needs only Python 3.8 or later.

PROTOCOL.md tells its settings, its events, and what lies where on the VM. Of the rest of Costguard it imports
the rules that judge checkpoints alone, which travel with it.
"""
