"""Judges which checkpoints are complete: the layouts of the frameworks, and the judge.

Pure, but for a folder on a disk.
"""
