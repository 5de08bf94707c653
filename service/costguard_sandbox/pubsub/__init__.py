"""A simulated Pub/Sub: topics and pulled subscriptions, by the few calls of its REST API that Costguard makes."""

from costguard_sandbox.pubsub.broker import Broker
from costguard_sandbox.pubsub.routes import routes

__all__ = ["Broker", "routes"]
