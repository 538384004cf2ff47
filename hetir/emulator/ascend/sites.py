"""The synchronising calls of a source, numbered, so that a run can leave some out."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CALLS = (
    "SetFlag",
    "WaitFlag",
    "PipeBarrier",
    "SyncAll",
    "CrossCoreSetFlag",
    "CrossCoreWaitFlag",
    "IBSet",
    "IBWait",
    "DataCacheCleanAndInvalid",
    "EnQue",
    "DeQue",
    "AllocTensor",
    "FreeTensor",
    "asc_syncthreads",
    "asc_threadfence_block",
    "asc_threadfence",
)
_CALL = re.compile(rf"\b({'|'.join(_CALLS)})\b\s*(<[^;()]*>)?\s*\(([^;()]*)\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """One synchronising call: its number, its line, what it calls and with what.

    `detail` is the text between the angle brackets and that between the parentheses: a SetFlag
    and the WaitFlag that it is for have the same. Of a queue's calls, leaving one out leaves out
    its flag and not the hand-over.
    """

    index: int
    line: int
    call: str
    detail: tuple[str, str]


_WITH = {"SetFlag": "WaitFlag", "CrossCoreSetFlag": "CrossCoreWaitFlag", "IBSet": "IBWait"}


def removals(source: str) -> tuple[tuple[Sync, ...], ...]:
    """What to leave out, one at a time, to show that each piece of synchronisation is needed.

    A flag goes with the wait for it (the next one in the text of the same event), since a lone
    half is found at once; everything else goes alone.
    """
    sites = sync_sites(source)
    found: list[tuple[Sync, ...]] = []
    taken: set[int] = set()
    for site in sites:
        if site.index in taken:
            continue
        partner = _WITH.get(site.call)
        later = (s for s in sites[site.index + 1 :] if _waits(s, site, partner, taken))
        wait = next(later, None) if partner else None
        found.append((site,) if wait is None else (site, wait))
        taken.update(each.index for each in found[-1])
    return tuple(found)


def _waits(site: Sync, flag: Sync, call: str | None, taken: set[int]) -> bool:
    if site.call != call or site.index in taken:
        return False
    # across cores only the number is the same on both sides
    whole = call == "WaitFlag"
    return site.detail == flag.detail if whole else site.detail[1] == flag.detail[1]


def sync_sites(source: str) -> tuple[Sync, ...]:
    """Every synchronising call of a source in textual order.

    Raises ValueError when one line holds two: it takes one a line to tell them apart.
    """
    blank = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    found: list[Sync] = []
    for match in _CALL.finditer(blank):
        line = blank.count("\n", 0, match.start()) + 1
        if found and found[-1].line == line:
            raise ValueError(f"line {line} holds two synchronising calls")
        detail = ((match[2] or "")[1:-1].strip(), match[3].strip())
        found.append(Sync(index=len(found), line=line, call=match[1], detail=detail))
    return tuple(found)
