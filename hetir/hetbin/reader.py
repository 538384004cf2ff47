"""Reads hetbin files: bytes that may be anything, believed only as far as they were checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from crc32c import crc32c

from hetir.artifact import Artifact, Fence, Layout, Resources, Site, Slot, Variant
from hetir.hetbin import tables
from hetir.hetbin.errors import DamagedHetbinError, HetbinVersionError
from hetir.hetbin.model import Axes, Parameter, Payload, Point, Specialisation
from hetir.source import Loc
from hetir.target import Assumptions

_T = TypeVar("_T")
_MOST_AXES = 32


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table lies: its first byte, its records, and the bytes of each."""

    offset: int
    count: int
    size: int


def decode(data: bytes, file: str = "the hetbin") -> tuple[Specialisation, ...]:
    """What the bytes of a file hold; `file` names it in errors.

    Raises:
        DamagedHetbinError: the bytes are no hetbin, or not all of one.
        HetbinVersionError: a newer hetir wrote it.
    """
    reader = _Reader(data, file)
    reader.header()
    reader.check_blobs()
    rows = range(reader.places["kernels"].count)
    return tuple([reader.kernel(index) for index in rows])


class _Reader:
    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file = data, file
        self.places: dict[str, Place] = {}
        self.at = 0  # the record that is read, for messages
        self.blobs: list[bytes] = []
        self.offsets: list[int] = []
        self.read = dict.fromkeys((table.name for table in tables.TABLES), 0)
        self.known: dict[int, str] = {}
        self.texts: dict[int, str] = {}

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """Raise the error at a byte: that of the record which is read, if none is given."""
        raise DamagedHetbinError(self.file, self.at if at is None else at, what)

    # -- the file as a whole

    def header(self) -> None:
        """Check the head of the file, its checksum, and where the tables lie."""
        data = self.data
        if data[: len(tables.MAGIC)] != tables.MAGIC:
            self.fail("this is no hetbin")
        if len(data) < tables.HEADER.size:
            self.fail("the header is cut short", len(data))
        _, major, minor, checksum, size, end, count = tables.HEADER.unpack_from(data)
        if major > tables.MAJOR:
            raise HetbinVersionError(
                f"{self.file} has format {major}.{minor}; this hetir reads up to {tables.MAJOR}",
                hint="read it with the version that wrote it, or a later one",
            )
        if major < 1:
            self.fail("versions count from 1", 8)
        if size != len(data):
            self.fail(f"the file has {len(data)} bytes and was written with {size}", 16)
        first = tables.HEADER.size + count * tables.ENTRY.size
        if count < len(tables.TABLES) + 1 or first > end or end > size:
            self.fail("the tables lie outside of the file", 24)
        at = tables.CHECKSUM_AT
        if crc32c(data[at + 4 : end], crc32c(data[:at] + bytes(4))) != checksum:
            self.fail("the tables do not have their checksum", at)
        self.tables(first, end, minor)

    def tables(self, first: int, end: int, minor: int) -> None:
        """Where each table lies. A newer minor version may have longer records."""
        known = [(table.name, table.form.size) for table in tables.TABLES] + [("strings", 1)]
        for index, (name, least) in enumerate(known):
            self.at = tables.HEADER.size + index * tables.ENTRY.size
            offset, count, size, _ = tables.ENTRY.unpack_from(self.data, self.at)
            if size < least or (minor <= tables.MINOR and size != least):
                self.fail(f"records of `{name}` have {size} bytes, not {least}")
            if offset < first or offset > end or count > (end - offset) // size:
                self.fail(f"the table `{name}` lies outside of the tables")
            self.places[name] = Place(offset, count, size)

    def check_blobs(self) -> None:
        """Check that the blobs follow the tables and each other, and their checksums."""
        end = self._end = tables.HEADER.unpack_from(self.data)[5]
        for index in range(self.places["blobs"].count):
            row = self.row("blobs", index, tables.BlobRow)
            start = end + -end % tables.ALIGNMENT
            if row.offset != start or row.size > len(self.data) - start:
                self.fail(f"blob {index} is not where the one before ends")
            if any(self.data[end:start]):
                self.fail("the bytes between two blobs are not zero", end)
            end = start + row.size
            blob = self.data[start:end]
            if crc32c(blob) != row.checksum:
                self.fail(f"the {row.size} bytes from here do not have their checksum", start)
            self.blobs.append(blob)
            self.offsets.append(start)
        if end != len(self.data):
            self.fail("there are bytes after the last blob", end)

    # -- records, lists, strings

    def row(self, name: str, index: int, kind: type[_T]) -> _T:
        """A record of a table."""
        place = self.places[name]
        form = next(table.form for table in tables.TABLES if table.name == name)
        if index >= place.count:
            self.fail(f"record {index} of `{name}`, which has {place.count}")
        self.at = place.offset + index * place.size
        return kind(*form.unpack_from(self.data, self.at))

    def each(self, name: str, first: int, count: int, read: Callable[[int], _T]) -> tuple[_T, ...]:
        """The next records of a table: each is in one list, so that no file grows in memory."""
        if first != self.read[name] or count > self.places[name].count - first:
            self.fail(f"records {first} to {first + count} of `{name}`, not those that come next")
        self.read[name] += count
        return tuple([read(index) for index in range(first, first + count)])

    def string(self, at: int) -> str:
        """A string by its place in the heap."""
        found = self.known.get(at)
        if found is None:
            found = self.known[at] = self.new_string(at)
        return found

    def new_string(self, at: int) -> str:
        """A string that was not read before."""
        place = self.places["strings"]
        if at % 4 or at > place.count - 5:
            self.fail(f"a string at {at} of {place.count} bytes")
        start = place.offset + at
        size = int.from_bytes(self.data[start : start + 4], "little")
        if size > place.count - at - 5 or self.data[start + 4 + size]:
            self.fail("a string does not end in the strings", start)
        try:
            return self.data[start + 4 : start + 4 + size].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self.fail("a string is not UTF-8", start)

    def word(self, index: int) -> int:
        """A number of a list."""
        return self.row("words", index, tables.WordRow).value

    def names(self, first: int, count: int) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(map(self.string, self.each("words", first, count, self.word)))

    def type(self, code: int) -> str:
        """An element type."""
        if code >= len(tables.TYPES):
            self.fail(f"there is no element type {code}")
        return tables.TYPES[code]

    def blob(self, index: int) -> bytes | None:
        """A blob, or None."""
        if index == tables.NONE:
            return None
        if index >= len(self.blobs):
            self.fail(f"blob {index} of {len(self.blobs)}")
        return self.blobs[index]

    def text(self, index: int) -> str:
        """A blob as text, read once."""
        if index not in self.texts:
            self.texts[index] = (self.blob(index) or b"").decode("utf-8", "replace")
        return self.texts[index]

    def loc(self, file: int, line: int, column: int, end: tuple[int, int]) -> Loc | None:
        """A place in a source file; line 0 stands for none."""
        return Loc(self.string(file), line, column, *end) if line else None

    # -- kernels

    def kernel(self, index: int) -> Specialisation:
        """A specialisation with all that belongs to it."""
        row = self.row("kernels", index, tables.KernelRow)
        module, offset = self.blob(row.module), 0
        if module is None:
            self.fail("a kernel without hetIR")
        offset = self.offsets[row.module]
        name, loc = self.string(row.name), self.loc(row.file, row.line, 0, (row.line, 0))
        reason = self.string(row.reason)
        parameters = self.each("parameters", row.parameters, row.parameter_count, self.parameter)
        slots = self.each("slots", row.slots, row.slot_count, self.slot)
        layout = Layout(slots=tuple(slot for slot, _ in slots), size=row.args_size)
        self.check_layout(layout, len(parameters), index)
        entry = Specialisation(
            name=name,
            parameters=parameters,
            layout=layout,
            axes=tuple(axes for _, axes in slots),
            module=module,
            payloads=self.each("payloads", row.payloads, row.payload_count, self.payload),
            subgroup_size=row.subgroup_size,
            cooperative=bool(row.flags & tables.COOPERATIVE),
            reproducible=bool(row.flags & tables.REPRODUCIBLE),
            irreproducible_reason=reason,
            loc=loc,
            points=self.each("points", row.points, row.point_count, self.point),
            file=self.file,
            offset=offset,
        )
        return replace(entry, payloads=tuple(_whole(entry, p) for p in entry.payloads))

    def check_layout(self, layout: Layout, parameters: int, index: int) -> None:
        """Refuse slots that overlap, lie outside of the block or belong to no parameter."""
        end = 0
        for slot in layout.slots:
            size = 8 + 16 * slot.ndim if slot.ndim is not None else 1
            if slot.offset < end or int(slot.source[0]) >= parameters:
                self.fail(f"the argument block of kernel {index}")
            end = slot.offset + size
        if end > layout.size or layout.size % 16 or layout.size - end > 16:
            self.fail(f"the argument block of kernel {index}")

    def parameter(self, index: int) -> Parameter:
        """A parameter."""
        row = self.row("parameters", index, tables.ParameterRow)
        return Parameter(name=self.string(row.name), type=self.string(row.type))

    def slot(self, index: int) -> tuple[Slot, Axes]:
        """An entry of the argument block."""
        row = self.row("slots", index, tables.SlotRow)
        if not -1 <= row.ndim <= _MOST_AXES:
            self.fail(f"an array of {row.ndim} dimensions")
        dtype = self.type(row.type)
        path = (int(s) if s.isdecimal() else s for s in self.names(row.path, row.path_count))
        slot = Slot(
            offset=row.offset,
            source=(row.parameter, *path),
            dtype=dtype,
            ndim=None if row.ndim < 0 else row.ndim,
            reads=bool(row.flags & tables.READS),
            writes=bool(row.flags & tables.WRITES),
        )
        return slot, Axes(unit=row.unit_axes, zero=row.zero_axes)

    def payload(self, index: int) -> Payload:
        """The code for one target; what the kernel says of it is added later."""
        row = self.row("payloads", index, tables.PayloadRow)
        bits = row.index_bits
        if bits != 32 and bits != 64:
            self.fail(f"indices of {bits} bits")
        target, entry = self.string(row.target), self.string(row.entry)
        if tables.KINDS.get(target.partition(":")[0]) != row.kind:
            self.fail(f"target `{target[:40]}` of kind {row.kind}")
        text, code = self.text(row.text), self.blob(row.code)
        if not text and code is None:
            self.fail("a payload without code")
        resources = Resources(
            registers=None if row.registers < 0 else row.registers,
            shared_bytes=row.shared_bytes,
            item_bytes=row.item_bytes,
            spill_bytes=None if row.spill_bytes < 0 else row.spill_bytes,
            lanes=bool(row.flags & tables.LANES),
            source=self.string(row.source),
        )
        aligned = tuple(bool(row.aligned >> slot & 1) for slot in range(row.aligned.bit_length()))
        made = Artifact(
            kernel="",
            target=target,
            entry=entry,
            text=text,
            binary=code,
            layout=Layout(slots=(), size=0),
            resources=resources,
            workgroup=(row.x, row.y, row.z) if row.x and row.y and row.z else None,
            subgroup_size=row.subgroup_size,
            key=self.string(row.key),
            sites=self.each("sites", row.sites, row.site_count, self.site),
            fences=self.each("fences", row.fences, row.fence_count, self.fence),
            variants=self.each("variants", row.variants, row.variant_count, self.variant),
        )
        disjoint = bool(row.flags & tables.DISJOINT)
        promised = Assumptions(index_bits=bits, disjoint=disjoint, aligned=aligned)
        return Payload(artifact=made, assumptions=promised)

    def variant(self, index: int) -> Variant:
        """Another form of the code."""
        row = self.row("variants", index, tables.VariantRow)
        code = self.blob(row.code)
        if code is None:
            self.fail("a variant without code")
        return Variant(needs=self.names(row.needs, row.need_count), binary=code)

    def site(self, index: int) -> Site:
        """A place that writes records."""
        row = self.row("sites", index, tables.SiteRow)
        codes = self.each("words", row.types, row.type_count, self.word)
        return Site(
            kind=self.string(row.kind),
            format=self.string(row.format),
            dtypes=tuple(map(self.type, codes)),
            loc=self.loc(row.file, row.line, row.column, (row.end_line, row.end_column)),
        )

    def fence(self, index: int) -> Fence:
        """What the code does for the order of memory at one place."""
        row = self.row("fences", index, tables.FenceRow)
        return Fence(
            kind=self.string(row.kind),
            order=self.string(row.order),
            scope=self.string(row.scope),
            instruction=self.string(row.instruction),
            location=self.loc(row.file, row.line, row.column, (row.end_line, row.end_column)),
            reason=self.string(row.reason),
            line=row.text_line,
        )

    def point(self, index: int) -> Point:
        """A fence, a barrier or a safe point."""
        row = self.row("points", index, tables.PointRow)
        loc = self.loc(row.file, row.line, row.column, (row.line, row.column))
        return Point(kind=self.string(row.kind), text=self.string(row.text), loc=loc)


def _whole(entry: Specialisation, payload: Payload) -> Payload:
    """The payload with what its kernel says of it."""
    made = replace(
        payload.artifact,
        kernel=entry.name,
        layout=entry.layout,
        cooperative=entry.cooperative,
        reproducible=entry.reproducible,
        irreproducible_reason=entry.irreproducible_reason,
        loc=entry.loc,
    )
    count = len(entry.layout.slots) if payload.assumptions.aligned else 0
    aligned = (*payload.assumptions.aligned, *(False,) * count)[:count]
    promised = replace(payload.assumptions, aligned=aligned)
    return replace(payload, artifact=made, assumptions=promised)
