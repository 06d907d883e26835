"""Where the values of a call come from: what a session remembers of texts, as keyed digests, and how it is asked."""

from callgate.trust.provenance.delta import Retention
from callgate.trust.provenance.fingerprints import Fingerprints
from callgate.trust.provenance.memory import Bounds, Memory
from callgate.trust.provenance.records import objects
from callgate.trust.provenance.tracing import carries, to_endorse, trace

__all__ = ["Bounds", "Fingerprints", "Memory", "Retention", "carries", "objects", "to_endorse", "trace"]
