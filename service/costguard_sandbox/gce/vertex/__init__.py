"""Vertex AI and Colab Enterprise: what bills by the hour, and the requests that give it back."""

from costguard_sandbox.gce.vertex.resources import ManagedThing, Vertex

__all__ = ["ManagedThing", "Vertex"]
