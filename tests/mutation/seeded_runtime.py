"""Faults in the frontend, the runtime, the caches, the files and the evaluator's checks."""

from __future__ import annotations

from tests.mutation.fault import Fault

_READER = "hetbin/reader.py"

RUNTIME: tuple[Fault, ...] = (
    # ---- frontend
    # ---- the evaluator's checks
    Fault("a barrier orders what comes after it", "off by one", "emulator/clocks.py",
          "result |= here & (group == slot) & (clock < self.group_base[slot])",
          "result |= here & (group == slot) & (clock <= self.group_base[slot])", "checks"),
    Fault("reads race with nothing", "lost check", "emulator/shadow.py",
          '"read": (0, 4, 5, 6),', '"read": (4, 5, 6),', "checks"),
    Fault("a write forgets the write before", "lost check", "emulator/shadow.py",
          '    "write": (0, 1, 2, 3, 4, 5, 6),\n    "atomic read"',
          '    "write": (1, 2, 3, 4, 5, 6),\n    "atomic read"', "checks"),
    Fault("lanes of one store never meet", "lost check", "emulator/shadow.py",
          "twice &= lanes[1:] != lanes[:-1]", "twice &= lanes[1:] < lanes[:-1]", "checks"),
    Fault("the index after the last is inside", "off-by-one tail", "emulator/access.py",
          "return bool(index.min() >= low and index.max() < high - reserve)",
          "return bool(index.min() >= low and index.max() <= high - reserve)", "checks"),
    Fault("one written cell stands for all", "lost check", "emulator/checker.py",
          "if reads and not written[at].all():", "if reads and not written[at].any():", "checks"),
    # ---- launches
    Fault("readers do not wait for writers", "dependency lost", "runtime/hazards.py",
          "(self.writes or other.writes)", "(self.writes and other.writes)", "launches"),
    Fault("launches meet at one end only", "dependency lost", "runtime/hazards.py",
          "and self.low < other.high\n            and other.low < self.high",
          "and self.low <= other.low < self.high", "launches"),
    Fault("a queue's first launch stands for its last", "dependency lost", "runtime/program.py",
          "last[id(other.queue)] = other.event", "last.setdefault(id(other.queue), other.event)",
          "launches"),
    Fault("a reversed array ends where it begins", "wrong stride", "runtime/layout.py",
          "low = sum(step for step in reach if step < 0)", "low = 0", "launches"),
    Fault("blocks have no room between numbers", "wrong offset", "passes/layout.py",
          "offset = -(-offset // align) * align\n        slots", "slots", "block"),
    Fault("a view of a view begins where its array does", "wrong offset", "runtime/arrays.py",
          "            self.offset + moved,\n", "            moved,\n", "block"),
    # ---- what code is compiled for
    Fault("a key has no workgroup", "stale cache key component", "compiler.py",
          "parts = (*hashes, fingerprint, workgroup, promises, CODE_VERSION)",
          "parts = (*hashes, fingerprint, promises, CODE_VERSION)", "keys"),
    Fault("a key has no processor", "stale cache key component", "compiler.py",
          "parts = (*hashes, fingerprint, workgroup, promises, CODE_VERSION)",
          "parts = (*hashes, workgroup, promises, CODE_VERSION)", "keys"),
    Fault("a key does not say which arrays are aligned", "stale cache key component",
          "compiler.py",
          "promises = assumptions.index_bits, assumptions.disjoint, assumptions.aligned",
          "promises = assumptions.index_bits, assumptions.disjoint, any(assumptions.aligned)",
          "keys"),
    Fault("arrays that meet are promised apart", "wrong specialisation", "compiler.py",
          "disjoint=not facts & runtime.MEETS,", "disjoint=True,", "calls"),
    Fault("a key has no kernel", "stale cache key component", "compiler.py",
          "hashes = content_hash(kernel), locations_hash(kernel)",
          "hashes = kernel.name, locations_hash(kernel)", "keys"),
    # ---- files
    Fault("a hetbin's code is not checked", "lost checksum", _READER,
          "if crc32c(blob) != row.checksum:", "if False:", "files"),
    Fault("a hetbin's tables are not checked", "lost checksum", _READER,
          "if crc32c(data[at + 4 : end], crc32c(data[:at] + bytes(4))) != checksum:", "if False:",
          "files"),
    Fault("a promise of disjoint arrays is kept for none", "lost field", _READER,
          "disjoint = bool(row.flags & tables.DISJOINT)", "disjoint = False", "files"),
    Fault("a checkpoint's header is not checked", "lost checksum", "checkpoint/file.py",
          "compare(0, table[count - 2], memory[:start])", "", "files"),
    Fault("a checkpoint's pieces go on summing", "wrong checksum", "checkpoint/file.py",
          "total, room, started = 0, PIECE_BYTES, False",
          "total, room, started = total, PIECE_BYTES, False", "files"),
    Fault("a checkpoint's last piece is not checked", "off-by-one tail", "checkpoint/file.py",
          "for index in range(count - 2):", "for index in range(count - 3):", "files"),
    Fault("a damaged cache entry is run", "lost checksum", "runtime/cache.py",
          "if hashlib.sha256(body).digest() != digest:", "if len(digest) != 32:", "files"),
    Fault("a cache entry of another key is run", "stale cache key component", "runtime/cache.py",
          "if len(body) != name_size + data_size or bytes(body[:name_size]) != name:",
          "if len(body) != name_size + data_size:", "files"),
)  # fmt: skip
