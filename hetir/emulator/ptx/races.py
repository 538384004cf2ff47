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
from hetir.emulator.ptx.shadow import (
    CONSTANT_READ,
    OTHER_READ,
    READ,
    STRONG_WRITE,
    THREAD_BITS,
    WEAK_WRITE,
    Shadow,
    Stamps,
)
from hetir.emulator.ptx.spaces import Piece
from hetir.emulator.ptx.syntax import Instruction
from hetir.emulator.ptx.types import Lanes

_MOST = 64
_THREADS = (1 << THREAD_BITS) - 1
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
        if order.constant:
            self._note_constant(piece, size, stamps)
        else:
            self._note_read(piece, size, lanes, stamps)
        if order.order != "weak":
            for lane, at in zip(lanes.tolist(), piece.position.tolist(), strict=True):
                self._observe(lane, (piece.store.serial, at), order)

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
                self._offer(lane, (piece.store.serial, at), order, keeps=False)

    def update(
        self, r: Batch, piece: Piece, size: int, order: Ordering, ins: Instruction, writes: Lanes
    ) -> None:  # fmt: skip
        """Active lanes read and, where `writes` holds, write in one."""
        lanes = self._lanes(r, piece)
        stamps = self._stamps(lanes, order, ins)
        if writes.any():
            part = Piece(None, piece.store, piece.position[writes])
            self._note_write(part, size, lanes[writes], stamps.take(writes), weak=False)
        if not writes.all():
            part = Piece(None, piece.store, piece.position[~writes])
            self._note_read(part, size, lanes[~writes], stamps.take(~writes))
        rows = zip(lanes.tolist(), piece.position.tolist(), writes.tolist(), strict=True)
        for lane, at, wrote in rows:
            key = (piece.store.serial, at)
            self._observe(lane, key, order)
            if wrote:
                self._offer(lane, key, order, keeps=True)

    def _lanes(self, r: Batch, piece: Piece) -> Lanes:
        return r.active if piece.select is None else r.active[piece.select]

    def _stamps(self, lanes: Lanes, order: Ordering, ins: Instruction) -> Stamps:
        thread = lanes + self._first
        code = self._codes.get(id(ins))
        if code is None:
            code = self._codes[id(ins)] = len(self._instructions)
            self._instructions.append(ins)
        strong = 0 if order.order == "weak" else 1 if order.scope == "cta" else 2
        barriers = self.barriers[thread // self.threads]
        return Stamps.of(thread, barriers, self.clock[thread], strong, code)

    def _note_read(self, piece: Piece, size: int, lanes: Lanes, stamps: Stamps) -> None:
        shadow = Shadow.of(piece.store)
        cells, which = shadow.cells(piece, size)
        mine = stamps.take(which)
        for kind in (WEAK_WRITE, STRONG_WRITE):
            self._compare(piece, shadow.get(kind, cells), mine, lanes[which])
        old = shadow.get(READ, cells)
        moved = old.thread != mine.thread
        shadow.put(OTHER_READ, cells[moved], old.take(moved))
        shadow.put(READ, cells, mine)
        # of several lanes that read at once the first is kept beside the last
        several = np.flatnonzero(shadow.get(READ, cells).key != mine.key)[::-1]
        shadow.put(OTHER_READ, cells[several], mine.take(several))

    def _note_constant(self, piece: Piece, size: int, stamps: Stamps) -> None:
        """`ld.global.nc` and a write of the same launch never go together, however ordered."""
        shadow = Shadow.of(piece.store)
        cells, which = shadow.cells(piece, size)
        mine = stamps.take(which)
        for kind in (WEAK_WRITE, STRONG_WRITE):
            self._forbid(piece, shadow.get(kind, cells), mine)
        shadow.put(CONSTANT_READ, cells, mine)

    def _forbid(self, piece: Piece, old: Stamps, new: Stamps) -> None:
        for i in np.flatnonzero(old.key >= 0)[:1]:
            self._report(piece, old, new, int(i))

    def _note_write(
        self, piece: Piece, size: int, lanes: Lanes, stamps: Stamps, weak: bool
    ) -> None:
        shadow = Shadow.of(piece.store)
        cells, which = shadow.cells(piece, size)
        mine = stamps.take(which)
        for kind in (WEAK_WRITE, STRONG_WRITE, READ, OTHER_READ):
            self._compare(piece, shadow.get(kind, cells), mine, lanes[which])
        self._forbid(piece, shadow.get(CONSTANT_READ, cells), mine)
        if weak:
            for kind in (STRONG_WRITE, READ, OTHER_READ):
                shadow.forget(kind, cells)
        target = WEAK_WRITE if weak else STRONG_WRITE
        shadow.put(target, cells, mine)
        # lanes of one instruction that write one cell: the last stays, the others meet it
        last = shadow.get(target, cells)
        several = np.flatnonzero(last.key != mine.key)
        if len(several):
            other = last.take(several)
            self._compare(piece, mine.take(several), other, other.thread - self._first)

    # order

    def _compare(self, piece: Piece, old: Stamps, new: Stamps, lanes: Lanes) -> None:
        """Report where an earlier access is neither known to, nor strong with, a new one."""
        before, now = old.thread, new.thread
        here = now // self.threads
        same_block = before // self.threads == here
        fine = (old.key < 0) | (before == now)
        fine |= same_block & (old.barriers < self.barriers[here])
        if fine.all():
            return
        left = np.flatnonzero(~fine)
        old, new, lanes = old.take(left), new.take(left), lanes[left]
        before, same_block = before[left], same_block[left]
        weakest = np.minimum(old.strong, new.strong)
        fine = (weakest > 1) | ((weakest == 1) & same_block)
        local = before % self.threads
        same_warp = same_block & (local // 32 == now[left] % self.threads // 32)
        fine |= same_warp & (old.clock <= self._warp_known[lanes, local % 32])
        for i in np.flatnonzero(~fine):
            if not self._knows(new, old, int(i)):
                self._report(piece, old, new, int(i))

    def _knows(self, new: Stamps, old: Stamps, at: int) -> bool:
        thread, before = int(new.key[at]) & _THREADS, int(old.key[at]) & _THREADS
        clock, barriers = int(old.clock[at]), int(old.barriers[at])
        facts = (before, clock, before // self.threads, barriers)
        own, shared = self._known.get(thread), self._block_known.get(thread // self.threads)
        return (own is not None and own.has(*facts)) or (shared is not None and shared.has(*facts))

    def _report(self, piece: Piece, old: Stamps, new: Stamps, at: int) -> None:
        pair = (int(old.code[at]), int(new.code[at]))
        if pair in self._pairs or len(self.found) >= _MOST:
            return
        self._pairs.add(pair)
        before, now = (self._instructions[code] for code in pair)
        where = f"`{piece.store.name}`" if piece.store.name else f"{piece.store.space} memory"
        self.found.append(
            RaceFault(
                f"`{now}` and `{before}` race on {where}",
                now.place,
                self._thread(int(new.thread[at])),
                before.place,
                self._thread(int(old.thread[at])),
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
            for lane in arrived.tolist() if self._known else ():
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
