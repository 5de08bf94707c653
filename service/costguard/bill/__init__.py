"""Google's bill: read from its export, kept next to the ledger, compared with it. Nothing here changes the ledger."""
