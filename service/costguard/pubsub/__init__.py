"""The events' subscription in Pub/Sub, pulled over its REST API."""
