"""Lets launches go ahead as far as limits allow."""
