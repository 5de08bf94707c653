"""A small BigQuery: tables of a billing export, and the few queries that readers of one make.

From the API's discovery document (bigquery v2): tables.get, jobs.query, jobs.getQueryResults. It knows one form of
SELECT, with columns, structs of their fields and bounds of times, and refuses everything else as BigQuery refuses what
it cannot parse.
"""

from costguard_sandbox.bigquery.routes import routes
from costguard_sandbox.bigquery.tables import DETAILED_SCHEMA, FOCUS_SCHEMA, Table, Tables

__all__ = ["DETAILED_SCHEMA", "FOCUS_SCHEMA", "Table", "Tables", "routes"]
