"""The recorded outcomes beside the checkout, and small tests of our own that need nothing."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from hetir.memory import litmus
from hetir.memory.check import Checker, judge
from hetir.memory.claim import Quantifier, constants
from hetir.memory.litmus.table import LitmusError

RECORDED = Path(__file__).parents[3] / "shared" / "litmus"
ROWS_IN_LIST = {
    "OPENCL-DR": 29,
    "OPENCL": 118,
    "PTXv6_0": 79,
    "PTXv7_5": 166,
    "VULKAN-DR": 80,
    "VULKAN": 103,
}


def answer(file: Path, *, about_races: bool) -> bool:
    test = litmus.read(file)
    guesses = constants(test.claim.condition)
    with Checker(test.program, test.model, guesses=guesses) as checker:
        if not about_races:
            return checker.judge(test.claim).holds
        filtered = test.claim.quantifier is Quantifier.FILTER
        return not checker.races(test.claim.condition if filtered else None)


@pytest.mark.parametrize("name", ROWS_IN_LIST)
def test_recorded_outcomes_are_reproduced(name: str) -> None:
    if not RECORDED.is_dir():
        pytest.skip(f"{ROWS_IN_LIST[name]} recorded outcomes of {name}: no {RECORDED}")
    with (RECORDED / f"{name}-expected.csv").open(encoding="utf-8") as lines:
        rows = [(file, expected == "1") for file, expected in csv.reader(lines)]
    wrong = [
        file
        for file, expected in rows
        if answer(RECORDED / file, about_races=name.endswith("-DR")) != expected
    ]
    # the count is meant to be seen with `-s`, and when the test fails
    sys.stdout.write(f"{name}: {len(rows) - len(wrong)} of {len(rows)} outcomes reproduced\n")
    assert wrong == []
    assert len(rows) == ROWS_IN_LIST[name]


# what each model says of message passing, store buffering and the like, from the specifications
OWN = {
    "release and acquire pass a message": (
        """PTX MP
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.weak x, 1 | ld.acquire.gpu r0, y ;
 st.release.gpu y, 1 | ld.weak r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        False,
    ),
    "block scope does not reach another block": (
        """PTX MP-cta
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.weak x, 1 | ld.acquire.cta r0, y ;
 st.release.cta y, 1 | ld.weak r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        True,
    ),
    "acq_rel fences do not forbid store buffering": (
        """PTX SB
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;
 fence.acq_rel.gpu | fence.acq_rel.gpu ;
 ld.relaxed.gpu r0, y | ld.relaxed.gpu r0, x ;
exists (0:r0=0 /\\ 1:r0=0)
""",
        True,
    ),
    "fence.sc forbids store buffering": (
        """PTX SB+sc
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;
 fence.sc.gpu | fence.sc.gpu ;
 ld.relaxed.gpu r0, y | ld.relaxed.gpu r0, x ;
exists (0:r0=0 /\\ 1:r0=0)
""",
        False,
    ),
    "fence.sc of too narrow a scope does not": (
        """PTX SB+sc-cta
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.relaxed.gpu x, 1 | st.relaxed.gpu y, 1 ;
 fence.sc.cta | fence.sc.gpu ;
 ld.relaxed.gpu r0, y | ld.relaxed.gpu r0, x ;
exists (0:r0=0 /\\ 1:r0=0)
""",
        True,
    ),
    "morally strong updates are atomic": (
        """PTX 2+atom
{ x=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 atom.relaxed.gpu.add r0, x, 1 | atom.relaxed.gpu.add r0, x, 1 ;
~exists (0:r0=0 /\\ 1:r0=0)
""",
        True,
    ),
    "updates of too narrow a scope are not": (
        """PTX 2+atom-cta
{ x=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 atom.relaxed.cta.add r0, x, 1 | atom.relaxed.cta.add r0, x, 1 ;
~exists (0:r0=0 /\\ 1:r0=0)
""",
        False,
    ),
    "strong reads of one place do not go back": (
        """PTX CoRR
{ x=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.relaxed.gpu x, 1 | ld.relaxed.gpu r0, x ;
  | ld.relaxed.gpu r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        False,
    ),
    "PTX values do not come out of thin air": (
        """PTX LB+ctrls
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 ld.relaxed.gpu r0, x | ld.relaxed.gpu r0, y ;
 beq r0, 0, L | beq r0, 0, M ;
 st.relaxed.gpu y, 1 | st.relaxed.gpu x, 1 ;
 L: | M: ;
exists (0:r0=1 /\\ 1:r0=1)
""",
        False,
    ),
    "load buffering without dependencies is allowed": (
        """PTX LB
{ x=0; y=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 ld.relaxed.gpu r0, x | ld.relaxed.gpu r0, y ;
 st.relaxed.gpu y, 1 | st.relaxed.gpu x, 1 ;
exists (0:r0=1 /\\ 1:r0=1)
""",
        True,
    ),
    "a reduction begins no acquire pattern": (
        """PTX red
{ x=0; y=0; z=0; }
 P0@cta 0,gpu 0 | P1@cta 1,gpu 0 ;
 st.relaxed.gpu x, 1 | red.relaxed.gpu.add y, 1 ;
 st.release.gpu y, 1 | fence.acq_rel.gpu ;
  | ld.relaxed.gpu r1, x ;
exists (y=2 /\\ 1:r1=0)
""",
        True,
    ),
    "a barrier orders a block": (
        """PTX bar
{ x=0; }
 P0@cta 0,gpu 0 | P1@cta 0,gpu 0 ;
 st.weak x, 1 | bar.cta.sync 0 ;
 bar.cta.sync 0 | ld.weak r0, x ;
forall (1:r0=1)
""",
        True,
    ),
    "hetIR: a plain message without orders is undefined": (
        """HETIR MP-plain
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 ;
 store x, 1 | load r0, y ;
 store y, 1 | load r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        True,
    ),
    "hetIR: seq_cst fences forbid IRIW": (
        """HETIR IRIW
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 | P2@workgroup 2 | P3@workgroup 3 ;
 store.relaxed.dev x, 1 | store.relaxed.dev y, 1 | load.relaxed.dev r0, x | load.relaxed.dev r0, y ;
  | | fence.seq_cst.device | fence.seq_cst.device ;
  | | load.relaxed.device r1, y | load.relaxed.device r1, x ;
exists (2:r0=1 /\\ 2:r1=0 /\\ 3:r0=1 /\\ 3:r1=0)
""",
        False,
    ),
    "hetIR: acquire and release do not forbid IRIW": (
        """HETIR IRIW-ra
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 | P2@workgroup 2 | P3@workgroup 3 ;
 store.release.dev x, 1 | store.release.dev y, 1 | load.acquire.dev r0, x | load.acquire.dev r0, y ;
  | | load.acquire.device r1, y | load.acquire.device r1, x ;
exists (2:r0=1 /\\ 2:r1=0 /\\ 3:r0=1 /\\ 3:r1=0)
""",
        True,
    ),
    "hetIR: a store by the releasing work-item breaks its release sequence": (
        """HETIR release-sequence
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 ;
 store.relaxed.device x, 1 | load.acquire.device r0, y ;
 store.release.device y, 1 | load.relaxed.device r1, x ;
 store.relaxed.device y, 2 | ;
exists (1:r0=2 /\\ 1:r1=0)
""",
        True,
    ),
    "hetIR: an update continues a release sequence": (
        """HETIR release-sequence-rmw
{ x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 1 | P2@workgroup 2 ;
 store.relaxed.device x, 1 | atomic_add.relaxed.device r0, y, 1 | load.acquire.device r0, y ;
 store.release.device y, 1 | | load.relaxed.device r1, x ;
exists (2:r0=2 /\\ 2:r1=0)
""",
        False,
    ),
    "hetIR: a barrier orders shared and global memory": (
        """HETIR barrier
{ shared x=0; y=0; }
 P0@workgroup 0 | P1@workgroup 0 ;
 store x, 1 | barrier ;
 store y, 2 | load r0, x ;
 barrier | load r1, y ;
forall (1:r0=1 /\\ 1:r1=2)
""",
        True,
    ),
    "Vulkan: release without availability does not pass a message": (
        """VULKAN MP
{ x=0; y=0; }
 P0@sg 0,wg 0,qf 0 | P1@sg 0,wg 1,qf 0 ;
 st.nonpriv.sc0 x, 1 | ld.atom.acq.dv.sc0.semsc0.semvis r0, y ;
 st.atom.rel.dv.sc0.semsc0 y, 1 | ld.nonpriv.sc0 r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        True,
    ),
    "Vulkan: with availability and visibility it does": (
        """VULKAN MP
{ x=0; y=0; }
 P0@sg 0,wg 0,qf 0 | P1@sg 0,wg 1,qf 0 ;
 st.nonpriv.sc0 x, 1 | ld.atom.acq.dv.sc0.semsc0.semvis r0, y ;
 st.atom.rel.dv.sc0.semsc0.semav y, 1 | ld.nonpriv.sc0 r1, x ;
exists (1:r0=1 /\\ 1:r1=0)
""",
        False,
    ),
    "OpenCL: one region's flag does not order the other region": (
        """OPENCL MP
{ [x]=0; [y]=0; }
P0@wg 0, dev 0 (global int* x, local atomic_int* y) {
  *x = 1;
  atomic_work_item_fence(CLK_LOCAL_MEM_FENCE, memory_order_release, memory_scope_work_group);
  atomic_store_explicit(y, 1, memory_order_relaxed, memory_scope_work_group);
}
P1@wg 0, dev 0 (global int* x, local atomic_int* y) {
  int r0 = atomic_load_explicit(y, memory_order_relaxed, memory_scope_work_group);
  atomic_work_item_fence(CLK_LOCAL_MEM_FENCE, memory_order_acquire, memory_scope_work_group);
  int r1 = *x;
}
exists (1:r0=1 /\\ 1:r1=0)
""",
        True,
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_own_litmus(name: str) -> None:
    text, expected = OWN[name]
    test = litmus.parse(text)
    verdict = judge(test.program, test.model, test.claim, explain=True)
    assert verdict.holds is expected
    explained = (
        verdict.witness is not None
        or verdict.undefined
        or verdict.near_miss
        or verdict.forbidden_by
    )
    assert explained


def test_a_forbidden_outcome_names_the_axioms_and_shows_the_execution() -> None:
    text, _ = OWN["release and acquire pass a message"]
    test = litmus.parse(text)
    verdict = judge(test.program, test.model, test.claim, explain=True)
    assert verdict.forbidden_by == ("causality",)
    assert verdict.near_miss is not None
    assert any(verdict.near_miss.edges["sw"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PTX x\n{ }\n P0@cta 0 ;\n st.weak x, 1 ;\n", "ends with a claim"),
        ("Z80 x\n{ }\n P0@cta 0 ;\n st.weak x, 1 ;\nexists (x=1)", "`Z80` is not one of"),
        ("PTX x\n{ }\n P0@cta 0 ;\n jump x, 1 ;\nexists (x=1)", "unknown PTX instruction"),
        ("PTX x\n{ x=0; }\n P0@cta 0 ;\n st.weak x, 1 ;\nexists (y=1)", "`y` is neither"),
        ("PTX x\n{ }\n P0@warp 0 ;\n st.weak x, 1 ;\nexists (x=1)", "unknown scope `warp`"),
    ],
)
def test_unreadable_text_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(LitmusError, match=message):
        litmus.parse(text)


PLACED = """HETIR MP (* a comment
over lines with stroe.relaxed.device x, 1 *)
{ x=0; y=0; }
 P0@wg 0,dev 0              | P1@wg 1,dev 0 ;
 store.relaxed.device x, 1  | load.relaxed.device r0, y ;
 store.relaxed.device y, 1  | load.relaxed.device r1, x ;
exists (1:r0=1)
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "column"),
    [
        ("\n store.relaxed.device y, 1", "\n stroe.relaxed.device y, 1", 6, 2),
        (" | load.relaxed.device r1, x", "", 6, 2),
        ("P1@wg 1", "P1@gw 1", 4, 34),
        ("y=0", "y=a", 3, 8),
        ("1:r0=1)", "1:r0 ~ 1)", 7, 1),
        ("HETIR", "IRHET", 1, 1),
    ],
)
def test_a_mistake_is_shown_at_its_line(
    tmp_path: Path, old: str, new: str, line: int, column: int
) -> None:
    assert PLACED.count(old) == 1
    file = tmp_path / "mp.litmus"
    file.write_text(PLACED.replace(old, new))
    with pytest.raises(LitmusError) as caught:
        litmus.read(file)
    assert f"mp.litmus:{line}:{column}\n" in str(caught.value)
    assert PLACED.replace(old, new).splitlines()[line - 1] in str(caught.value)


def test_a_mistake_in_opencl_is_shown_at_its_token() -> None:
    text = """OPENCL one
{ [x]=0; }
P0@wg 0, dev 0 (global atomic_int* x) {
  int r0 = 1;
  int r1 = 5 5;
}
exists (x=0)
"""
    with pytest.raises(LitmusError, match=":5:14\n"):
        litmus.parse(text)
