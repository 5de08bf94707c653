"""Closed days as Parquet in a bucket or a folder."""
