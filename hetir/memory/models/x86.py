"""x86-TSO: stores may be delayed past later loads, and nothing else is reordered.

After Owens, Sarkar and Sewell, "A Better x86 Memory Model: x86-TSO" (TPHOLs 2009), in the
axiomatic form of Alglave, Maranget and Tautschnig, "Herding Cats" (TOPLAS 2014). The tag `mfence`
is the full fence; a read-modify-write is locked.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetir.memory.events import Event
from hetir.memory.execution import Execution
from hetir.memory.models.base import Axiom, Constraints, Form, barriers_progress, no_thin_air


@dataclass(frozen=True, slots=True)
class X86Model:
    """x86 with write-back memory: races are as defined as anything else."""

    name: str = "x86"
    undefined_on_race: bool = False
    thin_air: bool = False

    def constrain(self, x: Execution) -> Constraints:
        """Apply coherence, atomicity and the global happens-before order."""
        coherence = x.total_coherence()
        from_reads = x.from_reads(coherence)
        communication = x.reads_from | coherence | from_reads
        po = x.program_order
        fences = x.where(lambda event: "mfence" in event.operation.tags)
        kept = po.between(x.accesses, x.accesses) & x.pairs(lambda a, b: not _delayed(a, b))
        fenced = po.between(None, fences) @ po.between(fences, None)
        external = x.reads_from & x.pairs(lambda a, b: not x.same_thread(a, b))
        order = kept | fenced | external | coherence | from_reads | x.passes_barrier()
        axioms = (
            Axiom("coherence", Form.ACYCLIC, (po & x.same_place) | communication),
            Axiom("atomicity", Form.IRREFLEXIVE, from_reads @ coherence),
            Axiom("total store order", Form.ACYCLIC, order),
            no_thin_air(x),
            barriers_progress(x),
        )
        return Constraints(
            axioms=axioms,
            overwrites=coherence,
            shown={"rf": x.reads_from, "co": coherence, "fr": from_reads},
        )


def _delayed(a: Event, b: Event) -> bool:
    """Whether `a` is a plain store that may take effect after the later plain load `b`."""
    return a.writes and not a.reads and b.reads and not b.writes
