"""How much of a kernel is resident on a device at once, by the vendors' own counts."""

from hetir.residency.advice import Suggestion, suggest_workgroup
from hetir.residency.count import residency_of
from hetir.residency.model import OccupancyInputError, Request, Residency
from hetir.residency.report import Carveout, Cluster, Occupancy, Tail, occupancy

__all__ = [
    "Carveout",
    "Cluster",
    "Occupancy",
    "OccupancyInputError",
    "Request",
    "Residency",
    "Suggestion",
    "Tail",
    "occupancy",
    "residency_of",
    "suggest_workgroup",
]
