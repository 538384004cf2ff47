"""Pictures of an execution: text for a terminal, DOT for Graphviz, and SVG of our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from hetir.memory.check import Witness
from hetir.memory.events import Event
from hetir.memory.program import Program

COLOURS: Mapping[str, str] = {
    "rf": "#c0392b",
    "co": "#8e44ad",
    "mo": "#8e44ad",
    "asmo": "#8e44ad",
    "fr": "#d68910",
    "sw": "#1e8449",
    "gsw": "#1e8449",
    "lsw": "#148f77",
    "sc": "#2471a3",
    "locord": "#7f8c8d",
    "barrier": "#1e8449",
    "race": "#e91e63",
}
MEANINGS: Mapping[str, str] = {
    "rf": "is read by",
    "co": "is overwritten by",
    "mo": "is overwritten by",
    "asmo": "is overwritten by",
    "fr": "reads what is overwritten by",
    "sw": "synchronises with",
    "gsw": "global-synchronises with",
    "lsw": "local-synchronises with",
    "sc": "comes before, in the order of seq_cst fences,",
    "barrier": "meets at the barrier",
    "race": "races with",
}
BOTH_WAYS = frozenset({"barrier", "race"})


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What is drawn: the events with their labels, and the edges worth showing."""

    labels: Mapping[int, str]
    columns: tuple[tuple[str, tuple[int, ...]], ...]
    edges: tuple[tuple[str, int, int], ...]


def text(program: Program, witness: Witness) -> str:
    """Describe an execution: each thread's events with their values, then what relates them."""
    drawn = _drawn(program, witness)
    names = _names(drawn)
    lines: list[str] = []
    for title, events in drawn.columns:
        if not events:
            continue
        lines.append(title)
        lines += [f"  {names[event]}: {drawn.labels[event]}" for event in events]
    for name, source, target in drawn.edges:
        meaning = MEANINGS.get(name, name)
        lines.append(f"{names[source]} {meaning} {names[target]}  ({name})")
    return "\n".join(lines)


def dot(program: Program, witness: Witness) -> str:
    """Return an execution as a Graphviz digraph, a cluster for each thread."""
    drawn = _drawn(program, witness)
    lines = ["digraph execution {", "  node [shape=box, fontname=monospace];"]
    for column, (title, events) in enumerate(drawn.columns):
        lines.append(f'  subgraph cluster_{column} {{ label="{title}";')
        lines += [f"    e{event} [label={_quoted(drawn.labels[event])}];" for event in events]
        pairs = pairwise(events)
        lines += [f"    e{a} -> e{b} [color=gray, label=po];" for a, b in pairs if column]
        lines.append("  }")
    for name, source, target in drawn.edges:
        colour = COLOURS.get(name, "black")
        style = f'color="{colour}", fontcolor="{colour}", label={_quoted(name)}, constraint=false'
        lines.append(f"  e{source} -> e{target} [{style}];")
    return "\n".join([*lines, "}", ""])


BOX_HEIGHT, GAP_X, GAP_Y, MARGIN, LETTER_WIDTH = 34, 110, 40, 24, 7.3


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where each box stands: its left upper corner, and the width of all boxes."""

    box_width: int
    places: Mapping[int, tuple[int, int]]

    def left_of(self, column: int) -> int:
        return MARGIN + column * (self.box_width + GAP_X)


def svg(program: Program, witness: Witness) -> str:
    """Return an execution as an SVG picture: a column for each thread, time going down."""
    drawn = _drawn(program, witness)
    titles = [title for title, _ in drawn.columns]
    longest = max(len(words) for words in (*drawn.labels.values(), *titles))
    layout = _Layout(int(longest * LETTER_WIDTH) + 16, {})
    places = {
        event: (layout.left_of(column), MARGIN + 30 + row * (BOX_HEIGHT + GAP_Y))
        for column, (_, events) in enumerate(drawn.columns)
        for row, event in enumerate(events)
    }
    layout = _Layout(layout.box_width, places)
    width = layout.left_of(len(drawn.columns)) - GAP_X + MARGIN + 60
    height = max((y for _, y in places.values()), default=0) + BOX_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="monospace" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_svg_columns(drawn, layout),
        *_svg_edges(drawn, layout),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _svg_columns(drawn: _Drawn, layout: _Layout) -> Iterator[str]:
    half = layout.box_width // 2
    for column, (title, events) in enumerate(drawn.columns):
        x = layout.left_of(column) + half
        if events:
            yield f'<text x="{x}" y="{MARGIN + 12}" text-anchor="middle">{escape(title)}</text>'
        for event in events:
            left, top = layout.places[event]
            yield (
                f'<rect x="{left}" y="{top}" width="{layout.box_width}" height="{BOX_HEIGHT}" '
                f'rx="4" fill="#f4f6f7" stroke="#566573"/>'
                f'<text x="{left + half}" y="{top + 21}" text-anchor="middle">'
                f"{escape(drawn.labels[event])}</text>"
            )
        for above, below in pairwise(events if column else ()):
            top, bottom = layout.places[above][1] + BOX_HEIGHT, layout.places[below][1]
            yield f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#aeb6bf"/>'


def _svg_edges(drawn: _Drawn, layout: _Layout) -> Iterator[str]:
    for number, (name, source, target) in enumerate(drawn.edges):
        colour = COLOURS.get(name, "#000000")
        start, bend, end = _curve(layout, source, target, number)
        # labels stand at different places of their curves, so that parallel edges can be told apart
        part = 0.2 + 0.15 * (number % 5)
        at = [
            round((1 - part) ** 2 * a + 2 * part * (1 - part) * b + part**2 * c)
            for a, b, c in zip(start, bend, end, strict=True)
        ]
        yield (
            f'<path d="M{start[0]},{start[1]} Q{bend[0]},{bend[1]} {end[0]},{end[1]}" '
            f'fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<circle cx="{end[0]}" cy="{end[1]}" r="3.5" fill="{colour}"/>'
            f'<text x="{at[0]}" y="{at[1] - 3}" fill="{colour}">{escape(name)}</text>'
        )


_Point = tuple[int, int]


def _curve(layout: _Layout, source: int, target: int, number: int) -> tuple[_Point, _Point, _Point]:
    """Return the start, the control point and the end of an edge."""
    (x0, y0), (x1, y1) = layout.places[source], layout.places[target]
    y0, y1 = y0 + BOX_HEIGHT // 2, y1 + BOX_HEIGHT // 2
    if x0 == x1:
        right = x0 + layout.box_width
        return (right, y0), (right + 60 + 20 * (number % 3), (y0 + y1) // 2), (right, y1)
    x0, x1 = (x0 + layout.box_width, x1) if x0 < x1 else (x0, x1 + layout.box_width)
    lift = 24 * (number % 3 - 1)
    return (x0, y0), ((x0 + x1) // 2, (y0 + y1) // 2 + lift), (x1, y1)


def _drawn(program: Program, witness: Witness) -> _Drawn:
    """Leave out initial writes that nothing refers to, and edges that others imply."""
    events = {event.number: event for event in witness.events}
    edges = tuple(_edges(witness, events))
    named = {number for _, *ends in edges for number in ends}
    initial = tuple(n for n, event in events.items() if event.is_initial and n in named)
    columns = [("initially", initial)] if initial else []
    for number, thread in enumerate(program.threads):
        place = ", ".join(f"{scope} {index}" for scope, index in thread.place.items())
        own = tuple(n for n, event in events.items() if event.thread == number)
        columns.append((f"{thread.name} ({place})" if place else thread.name, own))
    labels = {n: _label(event, witness) for n, event in events.items()}
    if not initial:
        columns.insert(0, ("initially", ()))
    return _Drawn(labels, tuple(columns), edges)


def _edges(witness: Witness, events: Mapping[int, Event]) -> Iterator[tuple[str, int, int]]:
    for name, pairs in witness.edges.items():
        kept = {(a, b) for a, b in pairs if a in events and b in events}
        if name == "locord":
            kept = {(a, b) for a, b in kept if events[a].thread != events[b].thread}
        implied = {(a, c) for a, b in kept for b2, c in kept if b == b2}
        for a, b in sorted(kept - (implied if name not in BOTH_WAYS else set())):
            from_initial = events[a].is_initial and name != "rf"
            if not from_initial and not (name in BOTH_WAYS and a > b):
                yield name, a, b


def _label(event: Event, witness: Witness) -> str:
    shown = event.operation.text or type(event.operation).__name__.lower()
    number = event.number
    if event.reads and event.writes:
        return f"{shown}  [{witness.read[number]} -> {witness.written[number]}]"
    if event.reads:
        return f"{shown}  [= {witness.read[number]}]"
    if event.writes and not event.is_initial:
        return f"{shown}  [:= {witness.written[number]}]"
    return shown


def _names(drawn: _Drawn) -> Mapping[int, str]:
    order = [event for _, events in drawn.columns for event in events]
    return {event: _letters(position) for position, event in enumerate(order)}


def _letters(position: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    prefix = _letters(position // 26 - 1) if position >= 26 else ""
    return prefix + letters[position % 26]


def _quoted(label: str) -> str:
    return '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
