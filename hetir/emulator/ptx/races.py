"""A data-race detector: happens-before over scoped accesses (PTX ISA, Memory Consistency Model).

Two accesses of one location, one of them a write, race unless causality orders them or both are
strong and their scopes include each other. Barriers order a block's threads, `bar.warp.sync` a
warp's, releases and acquires (operations or fences with strong accesses) what they connect.
"""

from __future__ import annotations

import numpy as np

from hetir.emulator.ptx.access import Ordering
from hetir.emulator.ptx.batch import Batch, unravel
from hetir.emulator.ptx.faults import RaceFault, Thread
from hetir.emulator.ptx.knowledge import Knowledge, Offer, narrower
from hetir.emulator.ptx.shadow import OTHER_READ, READ, STAMP, STRONG_WRITE, WEAK_WRITE, Shadow
from hetir.emulator.ptx.spaces import Piece
from hetir.emulator.ptx.syntax import Instruction
from hetir.emulator.ptx.types import Lanes

_MOST = 64
_RELEASES = ("release", "acq_rel", "sc")
_ACQUIRES = ("acquire", "acq_rel", "sc")


class Races:
    """Watches a launch; `found` has one race for each pair of instructions."""

    def __init__(self, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
        self.grid, self.block = grid, block
        self.threads = block[0] * block[1] * block[2]
        blocks = grid[0] * grid[1] * grid[2]
        self.clock = np.zeros(blocks * self.threads, np.int32)
        self.barriers = np.zeros(blocks, np.int32)
        self.found: list[RaceFault] = []
        self._pairs: set[tuple[int, int]] = set()
        self._codes: dict[int, int] = {}
        self._instructions: list[Instruction] = []
        self._known: dict[int, Knowledge] = {}
        self._block_known: dict[int, Knowledge] = {}
        self._fences: dict[int, tuple[Knowledge, str]] = {}
        self._read: dict[int, list[Offer]] = {}
        self._offers: dict[tuple[int, int], list[Offer]] = {}
        self._sc: dict[int, Knowledge] = {}
        self._warp_known = np.zeros((0, 32), np.int32)
        self._first = 0

    def begin(self, r: Batch) -> None:
        """A batch begins."""
        self._first = r.first_block * self.threads
        self._warp_known = np.full((r.lanes, 32), -1, np.int32)

    # accesses

    def read(
        self, r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction
    ) -> None:  # fmt: skip
        """Active lanes load."""
        if piece.store.space not in {"global", "shared"}:
            return
        lanes = self._lanes(r, piece)
        stamps = self._stamps(lanes, order, ins)
        self._note_read(piece, size, lanes, stamps)
        if order.order != "weak":
            for lane, at in zip(lanes.tolist(), piece.position.tolist(), strict=True):
                self._observe(lane, (id(piece.store), at), order)

    def write(
        self, r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction
    ) -> None:  # fmt: skip
        """Active lanes store."""
        if piece.store.space not in {"global", "shared"}:
            return
        lanes = self._lanes(r, piece)
        stamps = self._stamps(lanes, order, ins)
        self._note_write(piece, size, lanes, stamps, order.order == "weak")
        strong = order.order != "weak"
        if strong or self._offers:
            for lane, at in zip(lanes.tolist(), piece.position.tolist(), strict=True):
                self._offer(lane, (id(piece.store), at), order, keeps=False)

    def update(
        self, r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction, writes: Lanes
    ) -> None:  # fmt: skip
        """Active lanes read and, where `writes` holds, write in one."""
        lanes = self._lanes(r, piece)
        stamps = self._stamps(lanes, order, ins)
        if writes.any():
            part = Piece(None, piece.store, piece.position[writes])
            self._note_write(part, size, lanes[writes], stamps[writes], weak=False)
        if not writes.all():
            part = Piece(None, piece.store, piece.position[~writes])
            self._note_read(part, size, lanes[~writes], stamps[~writes])
        rows = zip(lanes.tolist(), piece.position.tolist(), writes.tolist(), strict=True)
        for lane, at, wrote in rows:
            key = (id(piece.store), at)
            self._observe(lane, key, order)
            if wrote:
                self._offer(lane, key, order, keeps=True)

    def _lanes(self, r: Batch, piece: Piece) -> Lanes:
        return r.active if piece.select is None else r.active[piece.select]

    def _stamps(self, lanes: Lanes, order: Ordering, ins: Instruction) -> Lanes:
        stamps = np.empty(len(lanes), STAMP)
        thread = lanes + self._first
        stamps["thread"] = thread
        stamps["clock"] = self.clock[thread]
        stamps["barriers"] = self.barriers[thread // self.threads]
        stamps["strong"] = 0 if order.order == "weak" else 1 if order.scope == "cta" else 2
        code = self._codes.get(id(ins))
        if code is None:
            code = self._codes[id(ins)] = len(self._instructions)
            self._instructions.append(ins)
        stamps["code"] = code
        return stamps

    def _note_read(self, piece: Piece, size: int, lanes: Lanes, stamps: Lanes) -> None:
        shadow = Shadow.of(piece.store)
        cells, which = shadow.cells(piece, size)
        mine, rows = stamps[which], shadow.rows
        for kind in (WEAK_WRITE, STRONG_WRITE):
            self._compare(piece, rows[kind, cells], mine, lanes[which])
        old = rows[READ, cells]
        moved = old["thread"] != mine["thread"]
        rows[OTHER_READ, cells[moved]] = old[moved]
        # of several lanes that read at once the first is kept beside the last
        rows[READ, cells] = mine
        several = rows[READ, cells]["thread"] != mine["thread"]
        rows[OTHER_READ, cells[several][::-1]] = mine[several][::-1]

    def _note_write(
        self, piece: Piece, size: int, lanes: Lanes, stamps: Lanes, weak: bool
    ) -> None:  # fmt: skip
        shadow = Shadow.of(piece.store)
        cells, which = shadow.cells(piece, size)
        mine, rows = stamps[which], shadow.rows
        for kind in (WEAK_WRITE, STRONG_WRITE, READ, OTHER_READ):
            self._compare(piece, rows[kind, cells], mine, lanes[which])
        if weak:
            rows["thread"][STRONG_WRITE:, cells] = -1
        target = WEAK_WRITE if weak else STRONG_WRITE
        rows[target, cells] = mine
        # lanes of one instruction that write one cell: the last stays, the others meet it
        last = rows[target, cells]
        several = last["thread"] != mine["thread"]
        if several.any():
            lane_of = (last["thread"] - self._first)[several]
            self._compare(piece, mine[several], last[several], lane_of)

    # order

    def _compare(self, piece: Piece, old: Lanes, new: Lanes, lanes: Lanes) -> None:
        """Report where an earlier access is neither known to, nor strong with, a new one."""
        before, now = old["thread"], new["thread"]
        there, here = before // self.threads, now // self.threads
        same_block = there == here
        fine = (before < 0) | (before == now)
        fine |= same_block & (old["barriers"] < self.barriers[here])
        both = (old["strong"] > 0) & (new["strong"] > 0)
        wide = (old["strong"] > 1) & (new["strong"] > 1)
        fine |= both & (wide | same_block)
        if fine.all():
            return
        local = before % self.threads
        same_warp = same_block & (local // 32 == now % self.threads // 32)
        fine |= same_warp & (old["clock"] <= self._warp_known[lanes, local % 32])
        for i in np.flatnonzero(~fine):
            if not self._knows(int(now[i]), old[i]):
                self._report(piece, old[i], new[i])

    def _knows(self, thread: int, old: np.void) -> bool:
        before = int(old["thread"])
        facts = (before, int(old["clock"]), before // self.threads, int(old["barriers"]))
        own, shared = self._known.get(thread), self._block_known.get(thread // self.threads)
        return (own is not None and own.has(*facts)) or (shared is not None and shared.has(*facts))

    def _report(self, piece: Piece, old: np.void, new: np.void) -> None:
        pair = (int(old["code"]), int(new["code"]))
        if pair in self._pairs or len(self.found) >= _MOST:
            return
        self._pairs.add(pair)
        before, now = (self._instructions[code] for code in pair)
        where = f"`{piece.store.name}`" if piece.store.name else f"{piece.store.space} memory"
        self.found.append(
            RaceFault(
                f"`{now}` and `{before}` race on {where}",
                now.place,
                self._thread(int(new["thread"])),
                before.place,
                self._thread(int(old["thread"])),
            )
        )

    def _thread(self, thread: int) -> Thread:
        block, local = divmod(thread, self.threads)
        return Thread(unravel(block, self.grid), unravel(local, self.block))

    # synchronisation

    def _own(self, thread: int) -> Knowledge:
        return self._known.setdefault(thread, Knowledge())

    def _snapshot(self, lane: int) -> Knowledge:
        """What a thread knows and has done up to now; its later accesses have a later clock."""
        thread = lane + self._first
        block = thread // self.threads
        what = self._own(thread).copy()
        shared = self._block_known.get(block)
        if shared is not None:
            what.learn(shared)
        warp = thread - thread % self.threads % 32
        row = self._warp_known[lane]
        for at in np.flatnonzero(row >= 0).tolist():
            what.learn(Knowledge({warp + at: int(row[at])}))
        what.learn(Knowledge({thread: int(self.clock[thread])}, {block: int(self.barriers[block])}))
        self.clock[thread] += 1
        return what

    def _observe(self, lane: int, key: tuple[int, int], order: Ordering) -> None:
        """A strong read sees what was released at its location."""
        offers = self._offers.get(key)
        if not offers:
            return
        thread = lane + self._first
        block = thread // self.threads
        seen = [offer for offer in offers if offer.reaches(block, order.scope)]
        if order.order in _ACQUIRES:
            for offer in seen:
                self._own(thread).learn(offer.what)
        else:
            self._read.setdefault(thread, []).extend(seen)

    def _offer(self, lane: int, key: tuple[int, int], order: Ordering, keeps: bool) -> None:
        """A write releases, or ends what was released; a read-modify-write passes it on."""
        thread = lane + self._first
        block = thread // self.threads
        kept = self._offers.get(key, []) if keeps or order.order != "weak" else []
        if not keeps:
            # a strong write of the releasing thread itself goes on with its release pattern
            kept = [offer for offer in kept if offer.thread == thread]
        fence = self._fences.get(thread)
        if order.order in _RELEASES:
            kept = [*kept, Offer(self._snapshot(lane), thread, block, order.scope)]
        elif order.order != "weak" and fence is not None:
            scope = narrower(fence[1], order.scope)
            kept = [*kept, Offer(fence[0], thread, block, scope)]
        if kept:
            self._offers[key] = kept
        else:
            self._offers.pop(key, None)

    def fence(self, r: Batch, order: Ordering) -> None:
        """Active lanes pass a fence."""
        for lane in r.active.tolist():
            thread = lane + self._first
            block = thread // self.threads
            if order.order in _ACQUIRES:
                for offer in self._read.pop(thread, ()):
                    if offer.reaches(block, order.scope):
                        self._own(thread).learn(offer.what)
            total = self._sc.setdefault(block if order.scope == "cta" else -1, Knowledge())
            if order.order == "sc":
                self._own(thread).learn(total)
            if order.order in _RELEASES:
                snapshot = self._snapshot(lane)
                self._fences[thread] = (snapshot, order.scope)
                if order.order == "sc":
                    total.learn(snapshot)

    def barrier(self, r: Batch, slot: int, arrived: Lanes, waits: Lanes) -> None:
        """Lanes of a block have met at a barrier; those in `waits` go on with the knowledge."""
        block = r.first_block + slot
        if len(waits) == self.threads:
            shared = self._block_known.setdefault(block, Knowledge())
            for lane in arrived.tolist():
                own = self._known.pop(lane + self._first, None)
                if own is not None:
                    shared.learn(own)
            self.barriers[block] += 1
            return
        together = Knowledge()
        for lane in arrived.tolist():
            together.learn(self._snapshot(lane))
        for lane in waits.tolist():
            self._own(lane + self._first).learn(together)

    def meet(self, r: Batch, team: Lanes) -> None:
        """Active lanes meet in their teams (`bar.warp.sync`)."""
        lanes = r.active
        rows = np.full((int(team.max()) + 1, 32), -1, np.int32)
        np.maximum.at(rows, team, self._warp_known[lanes])
        rows[team, r.pick(r.lane)] = self.clock[lanes + self._first]
        self._warp_known[lanes] = rows[team]
        self.clock[lanes + self._first] += 1
        if not self._known:
            return
        together: dict[int, Knowledge] = {}
        for lane, at in zip(lanes.tolist(), team.tolist(), strict=True):
            own = self._known.get(lane + self._first)
            if own is not None:
                together.setdefault(at, Knowledge()).learn(own)
        for lane, at in zip(lanes.tolist(), team.tolist(), strict=True):
            if at in together:
                self._own(lane + self._first).learn(together[at])
