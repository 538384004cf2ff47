"""Writes hetbin files: equal contents give equal bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from crc32c import crc32c

from hetir.artifact import Fence, Site, Slot, Variant
from hetir.hetbin import tables
from hetir.hetbin.model import Axes, Payload, Point, Specialisation
from hetir.source import Loc


def encode(entries: Sequence[Specialisation]) -> bytes:
    """The bytes of a hetbin with these specialisations, in this order."""
    writer = _Writer()
    for entry in entries:
        writer.kernel(entry)
    return writer.finish()


class _Writer:
    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[int, ...]]] = {t.name: [] for t in tables.TABLES}
        self.heap = bytearray()
        self.strings: dict[str, int] = {}
        self.blobs: dict[bytes, int] = {}
        self.string("")

    def string(self, text: str) -> int:
        """The place of a string in the heap: its size, its bytes, a zero, and room to 4 bytes."""
        at = self.strings.get(text)
        if at is None:
            at = self.strings[text] = len(self.heap)
            data = text.encode("utf-8", "surrogatepass")
            self.heap += struct.pack("<I", len(data)) + data + b"\0"
            self.heap += bytes(-len(self.heap) % 4)
        return at

    def blob(self, data: bytes | None) -> int:
        """The index of a blob; equal ones are kept once."""
        return tables.NONE if data is None else self.blobs.setdefault(data, len(self.blobs))

    def add(self, name: str, rows: Iterable[tuple[int, ...]]) -> tables.Range:
        """Append rows that belong together."""
        table, made = self.rows[name], list(rows)  # what rows append comes first
        first = len(table)
        table += made
        return first, len(made)

    def words(self, numbers: Iterable[int]) -> tables.Range:
        """A list of numbers."""
        return self.add("words", [(number,) for number in numbers])

    def kernel(self, entry: Specialisation) -> None:
        """A specialisation with all that belongs to it."""
        flags = tables.COOPERATIVE * entry.cooperative | tables.REPRODUCIBLE * entry.reproducible
        parameters = [(self.string(p.name), self.string(p.type)) for p in entry.parameters]
        pairs = zip(entry.layout.slots, entry.axes, strict=True)
        row = tables.KernelRow(
            self.string(entry.name),
            self.string(entry.signature),
            self.string(entry.irreproducible_reason),
            self.string(entry.loc.file if entry.loc else ""),
            entry.loc.line if entry.loc else 0,
            self.blob(entry.module),
            entry.subgroup_size,
            flags,
            entry.layout.size,
            0,
            *self.add("parameters", parameters),
            *self.add("slots", [self.slot(slot, axes) for slot, axes in pairs]),
            *self.add("payloads", map(self.payload, entry.payloads)),
            *self.add("points", map(self.point, entry.points)),
        )
        self.rows["kernels"].append(row)

    def slot(self, slot: Slot, axes: Axes) -> tables.SlotRow:
        """An entry of the argument block."""
        first, *path = slot.source
        return tables.SlotRow(
            slot.offset,
            int(first),
            tables.TYPES.index(slot.dtype),
            -1 if slot.ndim is None else slot.ndim,
            tables.READS * slot.reads | tables.WRITES * slot.writes,
            axes.unit,
            axes.zero,
            *self.words([self.string(str(step)) for step in path]),
        )

    def payload(self, payload: Payload) -> tables.PayloadRow:
        """The code for one target."""
        made, promised = payload.artifact, payload.assumptions
        used = made.resources
        return tables.PayloadRow(
            self.string(made.target),
            self.string(made.entry),
            tables.KINDS[made.target.partition(":")[0]],
            self.blob(made.binary),
            self.blob(made.text.encode("utf-8", "surrogatepass") if made.text else None),
            *(made.workgroup or (0, 0, 0)),
            promised.index_bits,
            tables.DISJOINT * promised.disjoint | tables.LANES * used.lanes,
            sum(1 << slot for slot, aligned in enumerate(promised.aligned) if aligned),
            used.shared_bytes,
            used.item_bytes,
            -1 if used.registers is None else used.registers,
            -1 if used.spill_bytes is None else used.spill_bytes,
            made.subgroup_size,
            self.string(used.source),
            self.string(made.key),
            0,
            *self.add("sites", map(self.site, made.sites)),
            *self.add("fences", map(self.fence, made.fences)),
            *self.add("variants", map(self.variant, made.variants)),
        )

    def fence(self, fence: Fence) -> tables.FenceRow:
        """What the code does for the order of memory at one place."""
        loc = fence.location or Loc("", 0, 0, 0, 0)
        words = (fence.kind, fence.order, fence.scope, fence.instruction, fence.reason)
        kind, order, scope, instruction, reason = map(self.string, words)
        return tables.FenceRow(
            *(kind, order, scope, instruction, reason, fence.line, self.string(loc.file)),
            *(loc.line, loc.col, loc.end_line, loc.end_col),
        )

    def variant(self, variant: Variant) -> tables.VariantRow:
        """Another form of the code."""
        needs = self.words([self.string(name) for name in variant.needs])
        return tables.VariantRow(*needs, self.blob(variant.binary), 0)

    def site(self, site: Site) -> tables.SiteRow:
        """A place that writes records."""
        loc = site.loc or Loc("", 0, 0, 0, 0)
        return tables.SiteRow(
            self.string(site.kind),
            self.string(site.format),
            *self.words([tables.TYPES.index(dtype) for dtype in site.dtypes]),
            self.string(loc.file),
            *(loc.line, loc.col, loc.end_line, loc.end_col),
        )

    def point(self, point: Point) -> tables.PointRow:
        """A fence or a safe point."""
        loc = point.loc or Loc("", 0, 0, 0, 0)
        kind, text, file = map(self.string, (point.kind, point.text, loc.file))
        return tables.PointRow(kind, text, file, loc.line, loc.col)

    def finish(self) -> bytes:
        """The whole file: the header, the tables, the strings, then the blobs."""
        count = len(tables.TABLES) + 1
        self.rows["blobs"] = [(0, 0, 0, 0)] * len(self.blobs)  # their places are not known yet
        sizes = [table.form.size * len(self.rows[table.name]) for table in tables.TABLES]
        at = tables.HEADER.size + count * tables.ENTRY.size
        end = at + sum(sizes) + len(self.heap)
        self.rows["blobs"], body = self.placed(end)
        entries, parts = bytearray(), bytearray()
        for table, size in zip(tables.TABLES, sizes, strict=True):
            entries += tables.ENTRY.pack(at, len(self.rows[table.name]), table.form.size, 0)
            parts += b"".join([table.form.pack(*row) for row in self.rows[table.name]])
            at += size
        entries += tables.ENTRY.pack(at, len(self.heap), 1, 0)
        fields = (tables.MAGIC, tables.MAJOR, tables.MINOR, 0, end + len(body), end, count)
        head = tables.HEADER.pack(*fields) + bytes(entries + parts + self.heap)
        checksum = struct.pack("<I", crc32c(head))
        at = tables.CHECKSUM_AT
        return head[:at] + checksum + head[at + 4 :] + body

    def placed(self, end: int) -> tuple[list[tuple[int, ...]], bytes]:
        """Where each blob lies after the tables, and the bytes from their end on."""
        rows: list[tuple[int, ...]] = []
        body = bytearray()
        for data in self.blobs:
            body += bytes(-(end + len(body)) % tables.ALIGNMENT)
            rows.append(tables.BlobRow(end + len(body), len(data), crc32c(data), 0))
            body += data
        return rows, bytes(body)
