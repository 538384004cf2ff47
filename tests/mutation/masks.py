"""Breaks the CPU backend's masks, tails and predicates one by one; each must be noticed.

    python tests/mutation/masks.py              # all mutants; prints a Markdown table
    python tests/mutation/masks.py --trust NAME...      # some; that all is well without is known

A mutant is one replaced piece of source, loaded in a process of its own in place of the real
module. It is caught when a kernel's bits differ from the evaluator's, or the process fails.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "hetir.backends.cpu"
SECONDS = 60  # of CPU time
GENERATED = 60


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: in a module of the backend, `before` (which occurs once) becomes `after`."""

    name: str
    module: str
    before: str
    after: str

    @property
    def path(self) -> Path:
        """The file that it changes."""
        return ROOT / "hetir" / "backends" / "cpu" / f"{self.module}.py"

    def source(self) -> str:
        """The changed module."""
        text = self.path.read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"`{self.name}`: the piece occurs {text.count(self.before)} times")
        return text.replace(self.before, self.after)


MUTANTS = (
    # masks of accesses
    Mutant("a gather reads no lane", "accesses",
           '                    f"{self.of(\'i1\')} {self.flags(self.mask)}",\n'
           '                    f"{vector} poison",\n                    pointers=True,',
           '                    f"{self.of(\'i1\')} zeroinitializer",\n'
           '                    f"{vector} poison",\n                    pointers=True,'),
    Mutant("a scatter writes all lanes", "accesses",
           'f"{self.of(\'ptr\')} align {element.bytes} {where}",\n'
           '                    f"{self.of(\'i1\')} {self.flags(self.mask)}",\n'
           '                    over=vector,',
           'f"{self.of(\'ptr\')} align {element.bytes} {where}",\n'
           '                    f"{self.of(\'i1\')} splat (i1 true)",\n'
           '                    over=vector,'),
    Mutant("a masked store writes all lanes", "accesses",
           'f"{vector} {name}",\n                    f"ptr align {element.bytes} {where}",\n'
           '                    f"{self.of(\'i1\')} {self.mask}",',
           'f"{vector} {name}",\n                    f"ptr align {element.bytes} {where}",\n'
           '                    f"{self.of(\'i1\')} splat (i1 true)",'),
    Mutant("a blend keeps the old lanes", "accesses",
           "{self.mask}, {vector} {name}, {vector} {old}\")\n        code.put(f\"store",
           "{self.mask}, {vector} {old}, {vector} {name}\")\n        code.put(f\"store"),
    Mutant("atomics run in lanes that are off", "single",
           "        mask = self.mask\n        if op.spec is ops.ASSERT",
           "        mask = None\n        if op.spec is ops.ASSERT"),
    Mutant("the loop over lanes skips one", "single",
           'less = code.add(f"sub {count} {left}, 1")',
           'less = code.add(f"sub {count} {left}, 2")'),
    Mutant("the first lane is lane 0, on or off", "vectors",
           '        if self.mask is None:\n            return "0"\n        count',
           '        if self.mask is not NONE:\n            return "0"\n        count'),
    # algebra of masks
    Mutant("`and` of masks is `or`", "vectors",
           'name = self.code.add(f"and {self.of(\'i1\')} {a}, {b}")',
           'name = self.code.add(f"or {self.of(\'i1\')} {a}, {b}")'),
    Mutant("`or` of masks is `and`", "vectors",
           'return self.code.add(f"or {self.of(\'i1\')} {a}, {b}")',
           'return self.code.add(f"and {self.of(\'i1\')} {a}, {b}")'),
    Mutant("the other lanes are the same lanes", "vectors",
           "{mask}, splat (i1 true)\")\n        span",
           "{mask}, splat (i1 false)\")\n        span"),
    # predicates of lines
    Mutant("a swapped comparison keeps its sense", "lines",
           "line, limit, name = limit, line, _SWAPPED[name]", "line, limit = limit, line"),
    Mutant("a comparison drops the last lane", "lines",
           '("i64", distance), ("i64", str(high + 1)))', '("i64", distance), ("i64", str(high)))'),
    Mutant("a comparison drops the first lane", "lines",
           '("i64", str(low - 1)))', '("i64", str(low + 1)))'),
    Mutant("an index that may wrap compares as if it did not", "lines",
           'if any(r.kind == "line" and v not in self.host.exact for r, v in pairs):', "if False:"),
    Mutant("a difference of lines loses a step", "lines",
           "return _line(name, reps[0].step + sign * reps[1].step)",
           "return _line(name, reps[0].step + reps[1].step)"),
    Mutant("a product of a line keeps its step", "lines",
           "return _line(name, line.step * signed(int(factor.name)))",
           "return _line(name, line.step)"),
    Mutant("the low bits of any line are a pattern", "lines",
           "if line.step != 1 or line.name not in self.multiples or period & (period - 1):",
           "if period & (period - 1):"),
    Mutant("the high bits of a vector are alike at any period", "lines",
           "code, whole = self.code, period % self.width == 0", "code, whole = self.code, True"),
    # spans
    Mutant("a span of `le` ends a lane early", "lines",
           'if name in ("le", "gt"):\n                more',
           'if name == "gt":\n                more'),
    Mutant("a span of `gt` starts a lane early", "lines",
           'if name in ("le", "gt"):\n                more',
           'if name == "le":\n                more'),
    Mutant("spans overlap by the wider low end", "vectors",
           '(("smax", a.low, b.low), ("smin", a.high, b.high))',
           '(("smin", a.low, b.low), ("smin", a.high, b.high))'),
    Mutant("spans overlap by the wider high end", "vectors",
           '(("smax", a.low, b.low), ("smin", a.high, b.high))',
           '(("smax", a.low, b.low), ("smax", a.high, b.high))'),
    Mutant("a condition alike in all lanes is left out of a span", "lanes",
           'f"select i1 {rep.name}, i64 {self.width}, i64 0")',
           'f"select i1 {rep.name}, i64 {self.width}, i64 {self.width}")'),
    Mutant("all lanes are on when the last but one is", "slots",
           'last = self.code.add(f"icmp sge i64 {span.high}, {self.width}")',
           'last = self.code.add(f"icmp sge i64 {span.high}, {self.width - 1}")'),
    Mutant("all lanes are on when the first is not", "slots",
           'first = self.code.add(f"icmp sle i64 {span.low}, 0")',
           'first = self.code.add(f"icmp sle i64 {span.low}, 1")'),
    Mutant("a span's mask takes a lane too many", "slots",
           'sides = (("sge", span.low, "0"), ("slt"', 'sides = (("sge", span.low, "0"), ("sle"'),
    Mutant("a span's mask lacks its first lane", "slots",
           'sides = (("sge", span.low, "0"),', 'sides = (("sgt", span.low, "0"),'),
    # clamps
    Mutant("the last lane may pass the upper limit of a clamp", "clamps",
           "far = self.line.step * (width - 1)", "far = self.line.step * (width - 2)"),
    Mutant("of several clamps one tells for all", "clamps",
           "outermost[key] = min(known, distance) if clamp.lower else max(known, distance)",
           "outermost[key] = distance"),
    Mutant("a clamp of a number that wraps is a line", "clamps",
           "if value not in self.host.small and value not in self._unclamped:", "if False:"),
    Mutant("the last lane may pass the end of a row", "divisions",
           'f"add i64 {cut.remainder}, {cut.far}"', 'f"add i64 {cut.remainder}, {cut.far - 1}"'),
    Mutant("a first lane that is off is not negative", "divisions",
           "if self.mask is not None or op", "if op"),
    Mutant("a line that wraps is divided", "divisions",
           " and op.operands[0] in self.host.small else 0", " else 0"),
    Mutant("a divisor below nought is like one above", "divisions",
           'known = code.add(f"icmp sgt i64 {by.name}, 0")', "pass"),
    Mutant("of several strides one tells for all", "strides",
           "reduce(self._and, guards)", "guards[0]"),
    Mutant("vectors at a border do again what they did", "masked",
           "                self._retreat = None\n", "                pass\n"),
    Mutant("lanes that returned stay, the others end", "masked",
           "self.mask = self.both(before, self.other(cond.name))",
           "self.mask = self.both(before, cond.name)"),
    Mutant("the lanes beside a span's low end are in it", "vectors",
           'self.spans[name] = Span("0", span.low)', 'self.spans[name] = Span("0", whole)'),
    Mutant("the lanes beside a span's high end are all", "vectors",
           "self.spans[name] = Span(span.high, whole)", 'self.spans[name] = Span("0", whole)'),
    # several rows a vector
    Mutant("every row starts where the first does", "emit",
           "add nuw nsw i64 {y}, {r}", "add nuw nsw i64 {y}, 0"),
    Mutant("a row count that does not divide a plane", "tiles",
           "width % sx == 0 and sy % rows == 0", "width % sx == 0"),
    Mutant("vectors of rows take what rows share for alike", "emit",
           "self._by_group if rows > 1 else self._by_row", "self._by_row"),
    Mutant("an element under a mask is loaded for rows that are off", "blocks",
           "select i1 {some}, ptr {where}", "select i1 true, ptr {where}"),
    Mutant("a piece of several rows is loaded under the last one's mask", "blocks",
           "mask if more is None else self.code.add(both)", "mask"),
    Mutant("pieces are stored under the first row's mask", "blocks",
           'zip(self._parts(self.mask, "i1"), pieces, places, strict=True)',
           'zip(self._parts(self.mask, "i1")[:1] * self.rows, pieces, places, strict=True)'),
    Mutant("a line by rows forgets the lanes before", "blocks",
           "far = rep.step * self.columns", "far = rep.step"),
    Mutant("a difference by rows loses a step", "blocks",
           "return steps[0] - steps[1]", "return steps[0] + steps[1]"),
    Mutant("a select by rows takes either step", "blocks",
           'case "select" if steps[1] == steps[2]:', 'case "select":'),
    Mutant("an index that may wrap compares by rows as if it did not", "blocks",
           "if any(r.step and v not in", "if any(False and v not in"),
    # folds and windows
    Mutant("a fold's last lane may pass its limit", "folds",
           "{width - 1}", "{width - 2}"),
    Mutant("limits that are no power of two fold", "folds",
           "yield code.add(f\"and i1 {whole}, {near}\")", "yield near"),
    Mutant("a pattern is taken for that of twice the period", "folds",
           "icmp eq i64 {limit}, {period - 1}", "icmp eq i64 {limit}, {2 * period - 1}"),
    Mutant("an index counted by any step is a multiple of the width", "counters",
           " and leaf.multiple(by)", ""),
    Mutant("an index that is the same in all lanes counts by any step", "loops",
           " and self.multiple(bounds[2].name)", ""),
    Mutant("an index that is the same in all lanes starts anywhere", "loops",
           "self.multiple(bounds[0].name) and ", ""),
    Mutant("the sum of a multiple of the width and any number is one", "lines",
           "if all(known) or", "if any(known) or"),
    Mutant("rows that are off count as on where others are", "slots",
           "return reduce(lambda a, b: self.code.add(f\"and i1",
           "return reduce(lambda a, b: self.code.add(f\"or i1"),
    Mutant("a row's flag turns on one work-item", "vectors",
           "sext i1 {name} to {word}", "zext i1 {name} to {word}"),
    Mutant("a window is written with what lies between", "windows",
           "if len(taken) == self.count:", "if taken:"),
    Mutant("a difference of patterns is a sum", "lines",
           "offsets = tuple(x + sign * y", "offsets = tuple(x + y"),
    # columns
    Mutant("rows of lanes that are off are read", "columns",
           "        if self.mask is None:\n            return places", "        return places"),
    Mutant("rows of lanes that are off are written", "columns",
           "self.mask is not None and (op.spec is ops.STORE or offset.kind",
           "self.mask is not None and (offset.kind"),
    Mutant("a load goes ahead of a store", "columns",
           "        else:\n            yield from _close(loads, most)\n", "        else:\n"),
    Mutant("a store waits for what is behind a load", "columns",
           "            like = loads\n            yield from _close(stores, most)\n",
           "            like = loads\n"),
    Mutant("of two stores to a place the first stays", "columns",
           "if constant in stores.get(key, {constant: op}):", "if key not in stores:"),
    Mutant("stores to other rows go ahead", "columns",
           "if constant in stores.get(key, {constant: op}):",
           "if constant in stores.get(key, {}):"),
    Mutant("rows begin at the first column that is asked for", "columns",
           "low = form(group.ops[0].operands[1]).split()[1] -", "low = 0 *"),
    # order
    Mutant("reads and writes change places", "order",
           "before |= {last} if last >= 0 else set()", "pass"),
    # branches and loops
    Mutant("code under a mask runs only where all lanes are on", "slots",
           "code.branch(self._any(mask), some, done)", 'code.branch("false", some, done)'),
    Mutant("one lane on counts as all", "slots",
           'return self.code.add(f"icmp eq i{self.width} {self.bits(mask)}, -1")',
           'return self.code.add(f"icmp ne i{self.width} {self.bits(mask)}, 0")'),
    Mutant("both sides of a branch have the same lanes", "masked",
           "masks = self.both(before, cond), self.both(before, self.other(cond))",
           "masks = self.both(before, cond), self.both(before, cond)"),
    Mutant("a blend chooses the other side", "masked",
           'f"select {self.of(\'i1\')} {cond}, {vector} {one}, {vector} {two}"',
           'f"select {self.of(\'i1\')} {cond}, {vector} {two}, {vector} {one}"'),
    Mutant("results of a branch forget the mask", "masked",
           "blend = None if whole else self.mask", "blend = None"),
    Mutant("lanes that broke out come again", "loops",
           "self._put_mask(again_mask, NONE)", "self._put_mask(again_mask, None)"),
    Mutant("lanes that ended a count stay on", "loops",
           "on = self.both(entry_mask, runs)\n", "on = runs\n"),
    Mutant("a lane that ended takes later results", "loops",
           "self._put(result, self._get(slot), mask)", "self._put(result, self._get(slot), None)"),
    Mutant("lanes that ended a search take later results", "loops",
           "self._put(slot, self.reps[arg], over)\n            if gone",
           "self._put(slot, self.reps[arg], None)\n            if gone"),
    Mutant("a return leaves the lanes on", "masked",
           'raise AssertionError("lanes return alone from a loop that they leave together")\n'
           "        else:\n            self.mask = NONE",
           'raise AssertionError("lanes return alone from a loop that they leave together")\n'
           "        else:\n            pass"),
    # counters
    Mutant("a counted loop runs one turn too many", "counters",
           'mask = code.add(f"icmp slt {leaf.of(\'i32\')} {row}, {wide}")',
           'mask = code.add(f"icmp sle {leaf.of(\'i32\')} {row}, {wide}")'),
    Mutant("lanes count one turn too many", "counters",
           'runs = code.add(f"icmp ult {vector} {turn}, {self.count}")',
           'runs = code.add(f"icmp ule {vector} {turn}, {self.count}")'),
    # tails and rows
    Mutant("the last vector has all lanes on", "emit",
           "tail = bool(sx * sy * sz % width)", "tail = False"),
    Mutant("the tail ends a lane late", "emit",
           'f"icmp ult {vector.of(\'i64\')} {items}, splat (i64 {count})"',
           'f"icmp ule {vector.of(\'i64\')} {items}, splat (i64 {count})"'),
    Mutant("y of a vector that crosses rows is its first", "emit",
           'y = Rep("lanes", code.add(f"urem {kind} {rows}, splat (i64 {sy})"))',
           'y = Rep("lanes", code.add(f"urem {kind} {rows}, splat (i64 {sy + 1})"))'),
    Mutant("rows of groups overrun their end", "emit",
           'count = code.intrinsic("smin", "i64", ("i64", left), ("i64", wide))', "count = wide"),
    Mutant("rows of groups overrun the grid's row", "emit",
           'count = code.intrinsic("smin", "i64", ("i64", left), ("i64", wide))', "count = left"),
    Mutant("groups with barriers run as rows", "emit",
           "return len(leaves) == 1 and isinstance(leaves[0], Leaf)",
           "return all(isinstance(node, Leaf) for node in leaves)"),
    Mutant("a row runs lanes before its first item", "rows",
           'low = code.add(f"sub nsw i64 {before}, {index}")', 'low = "0"'),
    Mutant("a row runs lanes behind its last item", "rows",
           'high = code.add(f"sub nsw i64 {total}, {index}")',
           'high = code.add(f"sub nsw i64 {total}, -{width}")'),
    Mutant("a row lacks as many items as lie before it", "rows",
           'total = code.add(f"add nuw nsw i64 {items}, {before}")', "total = items"),
    Mutant("a row starts with its first whole line", "rows",
           'origin = code.add(f"sub nsw i64 {start}, {before}")',
           'origin = code.add(f"add nsw i64 {start}, {before}")'),
    Mutant("items that know their group run as whole rows", "rows",
           "any(op.spec in LOOPS for op in body) or _placed(kernel)",
           "any(op.spec in LOOPS for op in body)"),
    # what loops carry
    Mutant("the next value takes the old one's place before that is read", "places",
           "if not any(place in _reads(later) for later in every(nodes[made + 1 :])):", "if True:"),
    Mutant("some items end their turn elsewhere and are forgotten", "places",
           "last.ops[-1].spec is not ops.YIELD or ops.CONTINUE in ends",
           "last.ops[-1].spec is not ops.YIELD"),
    Mutant("a `continue` before a `break` stays in its leaf", "schedule",
           "found = found or self.holds(op, level) or self._controls(op, level, place, found)",
           "found = found or self.holds(op, level)"),
    # elementary functions
    Mutant("whatever ends like a known function is one", "functions",
           "return self._digest(result).hex()[:16] in KNOWN", "return bool(self._digest(result))"),
    Mutant("nobody else reads the parts of a logarithm", "logarithms",
           "if all(users[o.result] <= set(self.ops) for o in inside if o.result.type == F32):",
           "if True:"),
    Mutant("nobody else reads what is made of the parts", "logarithms",
           "for o in inside if o.result.type == F32)", "for o in inside if o.spec in _PARTS)"),
    Mutant("any product is exact", "powers",
           "return (frexp(number)[0] * 2**_EXACT_BITS).is_integer()", "return True"),
    Mutant("a shortcut needs nothing that another leaf made", "lanes",
           "if any(v not in self.reps and v not in self.host.outer for v in found.operands):",
           "if False:"),
    # subgroups
    Mutant("a missing lane counts in a reduction", "subgroups",
           "takes = self._truths(self._lanes(where))",
           'takes = "splat (i1 true)"'),
    Mutant("a partial subgroup counts as whole", "emit",
           "return bool(self._lanes) and items % width == 0", "return bool(self._lanes)"),
    Mutant("a shuffle from no lane gives the first", "subgroups",
           "order = [n if 0 <= n < self.width else self.columns for n in sources]",
           "order = [n if 0 <= n < self.width else 0 for n in sources]"),
    Mutant("a scan takes in all lanes at each step", "subgroups",
           "order = [n if n < distance else self.columns + n for n in range(self.columns)]",
           "order = [self.columns + n for n in range(self.columns)]"),
    Mutant("values of two levels share a register", "pressure",
           "(len(at) == 1 or sizes == {items})", "True"),
)  # fmt: skip


class _Loader(SourceFileLoader):
    """Compiles the changed text in place of the file's."""

    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType | None:
        return compile(self.text, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        mutant = self.mutant
        if fullname != f"{PACKAGE}.{mutant.module}":
            return None
        loader = _Loader(fullname, str(mutant.path), mutant.source())
        return importlib.util.spec_from_file_location(fullname, mutant.path, loader=loader)


@cache
def expected() -> list[tuple[int, Any, Any]]:
    """Generated kernels with what the evaluator gives; the children of this process have them."""
    from hetir import testing

    cases = ((seed, testing.generate(random.Random(seed).randrange)) for seed in range(GENERATED))
    return [(seed, case, case.run(testing.evaluator)) for seed, case in cases]


def checks() -> Iterator[str]:
    """Runs what should notice a fault; gives the name of each check that passed."""
    yield from _written_checks()
    yield from _generated_checks()


def _written_checks() -> Iterator[str]:
    """Kernels written for what may go wrong."""
    from tests.unit import test_cpu_clamps as clamps
    from tests.unit import test_cpu_columns as columns
    from tests.unit import test_cpu_divisions as divisions
    from tests.unit import test_cpu_flat as flat
    from tests.unit import test_cpu_folds as folds
    from tests.unit import test_cpu_functions as functions
    from tests.unit import test_cpu_masks as masks
    from tests.unit import test_cpu_order as order
    from tests.unit import test_cpu_places as places
    from tests.unit import test_cpu_rows as rows
    from tests.unit import test_cpu_strides as strides
    from tests.unit import test_cpu_tiles as tiles
    from tests.unit import test_cpu_vectors as vectors

    masks.test_a_return_behind_a_barrier_ends_the_workgroup(4)
    for trips in (0, 4):
        masks.test_a_uniform_return_from_a_loop_that_some_lanes_entered(8, trips)
    for limit in (-5, 0, 2**63 - 1, -(2**63)):
        vectors.test_an_index_that_wraps_compares_as_it_wraps(8, limit)
    vectors.test_arithmetic_on_lines(8)
    masks.test_a_bound_and_a_flag(4)
    masks.test_a_search_that_some_lanes_end_early(4)
    masks.test_strided_ranges_under_a_mask(4)
    vectors.test_rows_of_groups_run_each_group_once(4)
    vectors.test_rows_of_a_group_meet_at_a_barrier(4)
    vectors.test_values_from_one_subgroup_program_to_the_next(8)
    for name in ("le", "gt"):
        masks.test_bounds_at_every_lane(name, 4)
    vectors.test_strided_ranges_do_not_wrap_at_the_largest_index(4, 2**63 - 6)
    masks.test_private_arrays_under_a_mask(4)
    masks.test_cheap_sides_of_a_branch(4)
    masks.test_scatters_under_a_mask(4)
    vectors.test_ids_in_groups_of_every_shape((5, 3, 1))
    yield "kernels written for masks"
    for test in (
        clamps.test_clamps_at_every_border,
        clamps.test_one_lane_at_a_border,
        clamps.test_clamps_in_loops_branches_and_across_barriers,
        clamps.test_what_came_before_a_clamp_is_done_once,
        clamps.test_clamps_of_numbers_that_wrap,
    ):
        test(8)
    yield "clamps"
    divisions.test_divisions_by_any_number(8)
    divisions.test_divisions_by_constants(8)
    divisions.test_lines_that_wrap(8)
    divisions.test_flat_launches_over_rows_of_any_length(8, 50)
    strides.test_points(8)
    yield "divisions and strides"
    for test in (
        folds.test_folds_at_every_distance,
        folds.test_folds_of_an_index_that_starts_anywhere,
        folds.test_exchanges_at_every_distance_and_alignment,
        folds.test_butterflies_in_a_loop,
        folds.test_low_bits_of_sums,
    ):
        test(8)
    folds.test_strided_accesses_and_what_lies_between(folds.hl.f32, 3)
    yield "folds and windows"
    flat.test_tiles_by_flat_ids(16, 32, flat=False)
    flat.test_rows_at_the_end(flat.guarded, 9)
    yield "flat ids and rows"
    columns.test_loads_and_stores_keep_their_order(8)
    columns.test_the_last_of_stores_stays(8)
    columns.test_lanes_that_are_off_touch_nothing(8)
    columns.test_rows_of_lanes_that_are_on_need_no_gather(8)
    columns.test_rows_become_columns_and_rows_again("f32", 12, 16)
    yield "columns"
    for together in (False, True):
        order.test_memory_keeps_its_order(8, together)
    yield "order"
    for kernel in places.KERNELS:
        places.test_loops_carry_what_they_should(kernel, 8)
    yield "loops with barriers"
    for kind in ("u8", "f32"):
        rows.test_rows_at_any_alignment(kind, 8)
    yield "rows"
    for name in functions.PIECES:
        functions.test_vectors_have_the_bits_of_scalars(name, None)
    functions.test_what_only_looks_like_it_rounds_twice_as_it_says()
    yield "functions"
    tiles.everything()
    yield "tiles"
    for width, items in ((8, 64), (32, 64), (32, 48)):
        vectors.test_subgroups_that_have_all_their_items("f32", width, items)
    yield "subgroups"


def _generated_checks() -> Iterator[str]:
    """Generated kernels, then the library's."""
    from hetir import testing
    from hetir.backends import cpu
    from tests.unit import test_cpu_vectors as vectors

    lanes_at_least, cpu.vector_lanes = cpu.vector_lanes, lambda _: 2  # few such groups are wide
    for seed, case, right in expected():
        for lanes in (4, None):
            runner = testing.on_cpu(optimise=0, lanes=lanes, simplified=seed % 2 == 0)
            assert not testing.differences(right, case.run(runner)), (seed, lanes)
        yield f"generated kernel {seed}"
    cpu.vector_lanes = lanes_at_least
    for name in ("jacobi", "scan", "softmax", "spmv", "histogram", "mandelbrot", "matmul"):
        one = vectors.run_at(name, 0)
        for lanes in (16, None):
            assert vectors.run_at(name, lanes) == one, (name, lanes)
        yield name


def child(mutant: Mutant | None, say: Callable[[str], None]) -> int:
    """Run the checks with a mutant, or none; 3 when one fails."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    stale = ("hetir.backends.cpu", "hetir.testing", "tests.unit")
    for name in [n for n in sys.modules if n.startswith(stale)]:
        above, _, last = name.rpartition(".")
        vars(sys.modules.get(above, sys)).pop(last, None)  # `from hetir import testing` asks it
        del sys.modules[name]
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    last = "loading"
    try:
        for last in checks():
            say(f"after {last}: the process died")
    except Exception as error:  # noqa: BLE001 (whatever it is, the fault showed)
        text = (str(error).strip() or "a wrong result").splitlines()[0]
        say(f"after {last}: {type(error).__name__}: {text[:80]}")
        return 3
    return 0


def outcome(mutant: Mutant | None) -> tuple[bool, str]:
    """Whether a mutant was caught, and by what, in a process of its own."""
    expected()
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(child(mutant, lambda text: os.write(write, text.encode() + b"\n") and None))
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return True, "it did not end"
    lines = said.decode().splitlines() or ["after loading: the process died"]
    return (False, "") if status == 0 else (True, lines[-1])


def table(mutants: Sequence[Mutant]) -> Iterator[str]:
    """A Markdown table of mutants, line by line."""
    yield "| fault | module | caught |"
    yield "|---|---|---|"
    for mutant in mutants:
        caught, by = outcome(mutant)
        shown = by.replace("|", "\\|") if caught else "**not caught**"
        yield f"| {mutant.name} | {mutant.module} | {shown} |"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    wanted = [name for name in sys.argv[1:] if name != "--trust"]
    if "--trust" not in sys.argv:
        assert not outcome(None)[0], "the checks fail without a fault"
    for line in table([m for m in MUTANTS if not wanted or m.name in wanted]):
        print(line, flush=True)  # noqa: T201 (the table is what this prints)
