"""Google's billing export where it is kept: a BigQuery table, read over its REST API."""
