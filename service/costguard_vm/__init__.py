"""The part of Costguard that travels to a VM: the agent, and the rules about checkpoints, progress and diagnosis.

It needs the standard library of Python 3.8 and nothing else. The server imports the same rules from here.
"""
