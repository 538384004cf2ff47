"""Threads together: warps, barriers, atomics, and the race detector."""

import ml_dtypes
import numpy as np
import pytest
from ptx_emulator_support import launch
from test_ptx_emulator_machine import entry, fault, run

from hetir.emulator.ptx import Fault

RNG = np.random.default_rng(8)
STORE = "st.global.u32 [%x1], %r1;"
LOAD = """ld.param.u64 %x2, [p0]; mul.wide.u32 %x3, %r0, 4; add.u64 %x2, %x2, %x3;
ld.global.u32 %r2, [%x2];"""


def shuffled(mode, lane, b, c):
    """The pseudo-code of shfl.sync in the ISA document; gives the source lane and the predicate."""
    b, bound, segment = b & 31, c & 31, c >> 8 & 31
    highest, lowest = (lane & segment) | (bound & ~segment), lane & segment
    if mode == "up":
        j = lane - b
        p = j >= highest
    elif mode == "down":
        j = lane + b
        p = j <= highest
    elif mode == "bfly":
        j = lane ^ b
        p = j <= highest
    else:
        j = lowest | (b & ~segment)
        p = j <= highest
    return (j if p else lane), p


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(mode):
    x = RNG.integers(0, 2**32, 64, dtype=np.uint64).astype("u4")
    for width in (32, 16, 8, 4, 2, 1):
        for b in (0, 1, 3, width - 1, width // 2):
            c = (32 - width) << 8 | (0 if mode == "up" else 31)
            out = run(f"""{LOAD} shfl.sync.{mode}.b32 %r1|%p1, %r2, {b}, {c}, -1;
                selp.b32 %r3, 1, 0, %p1; st.global.u32 [%x1+256], %r3;
    {STORE}""", 128, block=64, extra=[x])  # fmt: skip
            for i in range(64):
                source, p = shuffled(mode, i % 32, b, c)
                assert out[i] == x[i - i % 32 + source]
                assert out[64 + i] == p


def test_a_shuffle_may_not_read_who_is_absent():
    body = f"""setp.lt.u32 %p1, %r0, 16; @!%p1 bra over;
    shfl.sync.down.b32 %r1, %r0, 8, 31, 0xffff; {STORE} over:"""
    fault(body, "HET627", "lane 16, which does not take part, is read")
    fine = body.replace(", 8, 31,", ", 8, 15,").replace("31, 0xffff", "0x100f, 0xffff")
    with pytest.raises(Fault, match="lane"):
        run(fine.replace("0xffff;", "0xff;"))


def test_named_lanes_must_come():
    mixed = f"""setp.lt.u32 %p1, %r0, 16; @!%p1 bra over;
    vote.sync.ballot.b32 %r1, %p1, 0x1ffff; bra fin; over: bar.sync 0; fin: {STORE} bar.sync 0;"""
    fault(mixed, "HET627", "lanes 0x00010000 of member mask 0x0001ffff do not come here", count=32)
    other = """setp.lt.u32 %p1, %r0, 16; @!%p1 bra over; bar.warp.sync 0x0000ffff; bra fin;
    over: bar.warp.sync 0xfffe0000; fin:"""
    fault(other, "HET627", "without being in its own member mask", count=32)


def test_exited_lanes_are_not_waited_for():
    body = f"setp.ge.u32 %p1, %r0, 20; @%p1 exit; vote.sync.ballot.b32 %r1, !%p1, -1; {STORE}"
    assert run(body, 32).tolist() == [0xFFFFF] * 20 + [0] * 12
    # a block of 40 threads has a second warp of 8 lanes
    assert (
        run(f"setp.ge.u32 %p1, %r0, 0; vote.sync.ballot.b32 %r1, %p1, -1; {STORE}", 40).tolist()
        == [2**32 - 1] * 32 + [255] * 8
    )


def test_lanes_meet_from_both_sides_of_a_branch():
    body = f"""and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; mov.u32 %r3, 0; @%p1 bra odd;
    mul.lo.u32 %r3, %r0, 10; bra join; odd: add.u32 %r3, %r0, 500; bra join;
    join: shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1; {STORE}"""
    value = [i + 500 if i & 1 else 10 * i for i in range(64)]
    assert run(body).tolist() == [value[i ^ 1] for i in range(64)]


def test_votes():
    x = RNG.integers(0, 4, 64).astype("u4")
    for mode, rule in (("all", all), ("any", any), ("uni", lambda v: all(v) or not any(v))):
        for limit in (0, 2, 5):
            body = f"""{LOAD} setp.lt.u32 %p1, %r2, {limit};
            vote.sync.{mode}.pred %p2, %p1, -1; selp.b32 %r1, 1, 0, %p2; {STORE}"""
            want = [int(rule([v < limit for v in w])) for w in x.reshape(2, 32)]
            assert run(body, extra=[x]).tolist() == [w for w in want for _ in range(32)]


def test_halves_of_a_warp_vote_apart():
    body = f"""and.b32 %r3, %r0, 16; setp.eq.u32 %p1, %r3, 0; selp.b32 %r4, 0xffff, 0xffff0000, %p1;
    and.b32 %r5, %r0, 3; setp.eq.u32 %p2, %r5, 0; vote.sync.ballot.b32 %r1, %p2, %r4; {STORE}"""
    assert run(body).tolist() == [0x1111 if i & 16 == 0 else 0x11110000 for i in range(64)]


def test_matches():
    x = RNG.integers(0, 3, 64).astype("u4")
    out = run(f"{LOAD} match.any.sync.b32 %r1, %r2, -1; {STORE}", extra=[x])
    for i in range(64):
        warp = x[i - i % 32 :][:32]
        assert out[i] == sum(1 << k for k in range(32) if warp[k] == x[i])
    x[:32] = 7
    body = f"{LOAD} match.all.sync.b32 %r1|%p1, %r2, -1; @%p1 add.u32 %r1, %r1, 1; {STORE}"
    assert run(body, extra=[x]).tolist() == [0] * 64  # all ones plus one, and none


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor"])
def test_reductions(op):
    x = RNG.integers(0, 2**32, 64, dtype=np.uint64).astype("u4")
    functions = {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
                 "min": np.minimum, "max": np.maximum}  # fmt: skip
    kinds = ("u32", "s32") if op in {"add", "min", "max"} else ("b32",)
    for kind in kinds:
        values = x.view("i4") if kind == "s32" else x
        out = run(f"{LOAD} redux.sync.{op}.{kind} %r1, %r2, -1; {STORE}", extra=[x])
        want = functions[op].reduce(values.reshape(2, 32), axis=1, dtype=values.dtype)
        assert (out.reshape(2, 32) == want.view("u4")[:, None]).all()


def test_elect_and_active_mask():
    body = f"""setp.lt.u32 %p1, %r0, 5; @%p1 bra over; elect.sync %r1|%p2, 0xffffffe0;
    activemask.b32 %r2; selp.b32 %r3, 100, 0, %p2; add.u32 %r1, %r1, %r3; {STORE}
    st.global.u32 [%x1+128], %r2; over:"""
    out = run(body, 64, block=32)
    assert out[:32].tolist() == [0] * 5 + [105] + [5] * 26
    assert out[37] == 0xFFFFFFE0


def test_barriers_with_ids_and_counts():
    # two halves of the block meet apart, twice
    body = f""".shared .u32 tile[128]; mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    setp.lt.u32 %p1, %r0, 64; selp.b32 %r4, 3, 5, %p1; st.shared.u32 [%r3], %r0;
    bar.sync %r4, 64; xor.b32 %r5, %r2, 128; mov.u32 %r6, tile; add.u32 %r6, %r6, %r5;
    ld.shared.u32 %r1, [%r6]; {STORE} @%p1 bra again; exit; again: barrier.sync 3, 64;"""
    assert run(body, 128).tolist() == [i ^ 32 for i in range(128)]


def test_arrive_does_not_wait():
    body = f""".shared .u32 word; setp.lt.u32 %p1, %r0, 32; @%p1 bra first;
    barrier.sync 1, 64; ld.shared.u32 %r1, [word]; {STORE} exit;
    first: mov.u32 %r2, 77; st.shared.u32 [word], %r2; barrier.arrive 1, 64; mov.u32 %r1, 1;
    {STORE}"""
    assert run(body).tolist() == [1] * 32 + [77] * 32


def test_barrier_reductions():
    lead = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 64, %r0; setp.gt.u32 %p1, %r2, 40;"
    body = f"""{lead} bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;
    bar.red.or.pred %p3, 1, 64, !%p1;
    selp.b32 %r4, 1000, 0, %p2; add.u32 %r1, %r1, %r4; selp.b32 %r4, 5000, 0, %p3;
    add.u32 %r1, %r1, %r4;
    mul.wide.u32 %x2, %r3, 256; add.u64 %x1, %x1, %x2; {STORE}"""
    out = run(body, 192, block=64, grid=3)
    assert out.tolist() == [5023] * 64 + [1064] * 128


def test_divergent_barriers():
    leave = "setp.ge.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0;"
    error = fault(leave, "HET626", "40 of 64 threads wait at barrier 0, 24 have exited")
    assert "every thread must reach the barrier" in str(error)
    split = "setp.lt.u32 %p1, %r0, 7; @%p1 bra one; bar.sync 0; bra fin; one: bar.sync 0; fin:"
    fault(split, "HET626", "different aligned barriers")
    assert run(split.replace("bar.sync", "barrier.sync")).tolist() == [0] * 64
    fault("bar.sync 0, 48;", "HET626", "multiple of 32")
    fault("bar.sync 16;", "HET626", "0 to 15")


def test_spinning_on_another_warp_makes_progress():
    body = f""".shared .u32 flag; setp.ne.u32 %p1, %r0, 0; @%p1 bra after; st.shared.u32 [flag], 0;
    after: bar.sync 0; setp.lt.u32 %p1, %r0, 32; @!%p1 bra set;
    spin: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p2, %r1, 0; @%p2 bra spin; bra fin;
    set: setp.eq.u32 %p3, %r0, 40; mov.u32 %r1, 9; @%p3 st.volatile.shared.u32 [flag], %r1;
    fin: {STORE}"""
    assert run(body).tolist() == [9] * 64


def atomic(op, start, values, block=64, dtype="u4", space="global"):
    """Each thread does `op` with its value on one of a few cells; gives cells and old values."""
    dtype = np.dtype(dtype)
    bits = dtype.itemsize * 8
    register = {16: "%h", 32: "%r", 64: "%x"}[bits]
    text = entry(
        f"""ld.param.u64 %x2, [cells]; ld.param.u64 %x3, [values]; and.b32 %r2, %r0, 1;
        mul.wide.u32 %x4, %r2, {bits // 8}; add.u64 %x2, %x2, %x4;
        mul.wide.u32 %x4, %r0, {bits // 8}; add.u64 %x3, %x3, %x4; add.u64 %x5, %x0, %x4;
        ld.global.b{bits} {register}7, [%x3];
    {op.replace("%v", f"{register}7").replace("%o", f"{register}6")}
        st.global.b{bits} [%x5], {register}6;""",
        ".param .u64 out, .param .u64 cells, .param .u64 values",
    )
    out, cells = np.zeros(block, dtype), np.array(start, dtype)
    launch(text, 1, block, [out, cells, np.asarray(values, dtype)])
    return cells, out


def in_turn(start, values, step):
    """The same, one thread after another."""
    cells, out = list(start), []
    for i, v in enumerate(values):
        out.append(cells[i & 1])
        cells[i & 1] = step(cells[i & 1], v)
    return cells, out


STEPS = {
    "add.u32": lambda old, v: (old + v) % 2**32,
    "and.b32": lambda old, v: old & v,
    "or.b32": lambda old, v: old | v,
    "xor.b32": lambda old, v: old ^ v,
    "min.u32": min,
    "max.u32": max,
    "exch.b32": lambda old, v: v,
    "inc.u32": lambda old, v: 0 if old >= v else old + 1,
    "dec.u32": lambda old, v: v if old == 0 or old > v else old - 1,
}


@pytest.mark.parametrize("op", STEPS)
def test_atomics_go_one_after_another(op):
    small = op[:3] in {"inc", "dec"}
    values = RNG.integers(0, 7 if small else 2**32, 64).tolist()
    start = [3, 5] if small else [0xF0F0F0F0, 123]
    cells, out = atomic(f"atom.global.{op} %o, [%x2], %v;", start, values)
    want = in_turn(start, values, STEPS[op])
    assert (cells.tolist(), out.tolist()) == want
    if op != "exch.b32":
        cells, _ = atomic(f"mov.b32 %o, 0; red.relaxed.gpu.global.{op} [%x2], %v;", start, values)
        assert cells.tolist() == want[0]


def test_signed_and_wide_atomics():
    values = RNG.integers(-(2**31), 2**31, 64)
    cells, out = atomic("atom.global.min.s32 %o, [%x2], %v;", [0, 5], values, dtype="i4")
    assert (cells.tolist(), out.tolist()) == in_turn([0, 5], values.tolist(), min)
    values = RNG.integers(0, 2**63, 64)
    cells, out = atomic("atom.global.add.u64 %o, [%x2], %v;", [2**63, 5], values, dtype="u8")
    want = in_turn([2**63, 5], values.tolist(), lambda old, v: (old + v) % 2**64)
    assert (cells.tolist(), out.tolist()) == want


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_float_sums_round_in_thread_order(kind):
    dtype = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"),
             "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]  # fmt: skip
    suffix = ".noftz" if dtype.itemsize == 2 else ""
    values = RNG.normal(size=64).astype(dtype)
    cells, out = atomic(
        f"atom.global.add{suffix}.{kind} %o, [%x2], %v;", [1, -2], values, dtype=dtype
    )
    want = in_turn([dtype.type(1), dtype.type(-2)], values, lambda old, v: dtype.type(old + v))
    assert cells.tolist() == want[0]
    assert out.tolist() == want[1]


def test_float_sums_flush_in_global_memory_only():
    tiny = np.full(64, 1e-40, "f4")
    cells, _ = atomic("atom.global.add.f32 %o, [%x2], %v;", [0, 1e-41], tiny, dtype="f4")
    assert cells.tolist() == [0, 0]
    body = f""".shared .f32 sum; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [sum], 0; bar.sync 0;
    red.shared.add.f32 [sum], 0f000116C2; bar.sync 0; ld.shared.u32 %r1, [sum]; {STORE}"""
    assert run(body)[0] == 64 * 0x116C2


def test_packed_half_sums():
    ones = np.full(64, np.array([1, 2], "f2").view("u4")[0], "u4")
    cells, _ = atomic("atom.global.add.noftz.f16x2 %o, [%x2], %v;", [0, 0], ones)
    assert cells.view("f2").tolist() == [32, 64, 32, 64]


def test_compare_and_swap():
    values = RNG.integers(0, 4, 64).tolist()
    for expected in (0, 1, 2):
        op = f"atom.global.cas.b32 %o, [%x2], {expected}, %v;"
        cells, out = atomic(op, [expected, 2], values)
        want = in_turn([expected, 2], values, lambda old, v, e=expected: v if old == e else old)
        assert (cells.tolist(), out.tolist()) == want
    cells, out = atomic("atom.global.cas.b16 %o, [%x2], 7, %v;", [7, 8], range(64), dtype="u2")
    assert (cells.tolist(), out[:3].tolist()) == ([0, 8], [7, 8, 0])


def test_128_bit_compare_and_swap():
    body = """cvt.u64.u32 %x2, %r0; mov.u64 %x3, 5; mov.b128 %q0, {%x3, %x3};
    mov.b128 %q1, {%x2, %x3};
    atom.relaxed.gpu.global.cas.b128 %q1, [%x0], %q0, %q1; mov.b128 {%x4, %x5}, %q1;
    st.global.u64 [%x6], %x4;"""
    lead = "mul.wide.u32 %x6, %r0, 8; add.u64 %x6, %x6, %x0; add.u64 %x6, %x6, 16;"
    out = np.zeros(6, "u8")
    out[:2] = 5
    launch(entry(lead + body), 1, 4, [out])
    assert out.tolist() == [0, 5, 5, 0, 0, 0]


def test_a_compare_and_swap_loop():
    body = """ld.volatile.global.u32 %r1, [%x0];
    again: mov.u32 %r2, %r1; mad.lo.u32 %r3, %r2, 3, 1; atom.global.cas.b32 %r1, [%x0], %r2, %r3;
    setp.ne.u32 %p1, %r1, %r2; @%p1 bra again;"""
    out, want = np.zeros(1, "u4"), 0
    launch(entry(body), 2, 64, [out])
    for _ in range(128):
        want = (3 * want + 1) % 2**32
    assert out[0] == want


def races(body, grid=1, block=64, before="", size=4096, **kw):
    out = np.zeros(size, "u4")
    return launch(entry(body, before=before), grid, block, [out], races=True, **kw).races


TILE = ".shared .u32 tile[64]; mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;"
NEXT = "xor.b32 %r4, %r2, 128; mov.u32 %r5, tile; add.u32 %r5, %r5, %r4;"


def test_a_barrier_orders_a_block():
    fine = f"{TILE} {NEXT} st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r1, [%r5];"
    assert not races(fine)
    (race,) = races(fine.replace("bar.sync 0;", ""))
    assert race.code == "HET628"
    assert "`ld.shared.u32` and `st.shared.u32` race on shared memory" in race.message
    assert {race.thread.thread[0] ^ 32} == {race.other.thread[0]}
    # and what follows must wait for the readers
    assert races(f"{fine} st.shared.u32 [%r3], %r0;")
    assert not races(f"{fine} bar.sync 0; st.shared.u32 [%r3], %r0;")


def test_a_barrier_does_not_order_blocks():
    body = "st.global.u32 [%x1], %r0; bar.sync 0;"
    assert not races(body)
    assert races(body, grid=2)
    assert races(body, grid=2, batch_lanes=64)


def test_a_warp_barrier_orders_a_warp():
    near = NEXT.replace("128", "4")
    body = f"{TILE} {near} st.shared.u32 [%r3], %r0; bar.warp.sync -1; ld.shared.u32 %r1, [%r5];"
    assert not races(body)
    assert races(body.replace("bar.warp.sync -1;", "vote.sync.all.pred %p1, %p1, -1;"))
    assert races(body.replace(near, NEXT))


def test_writers_of_one_place():
    assert races("st.global.u32 [%x0], %r0;")
    assert not races("setp.eq.u32 %p1, %r0, 3; @%p1 st.global.u32 [%x0], %r0;")
    assert not races("red.global.add.u32 [%x0], 1;", grid=3)
    assert races("red.global.add.u32 [%x0], 1; ld.global.u32 %r1, [%x0];", grid=1)
    assert not races("red.global.add.u32 [%x0], 1; ld.relaxed.gpu.global.u32 %r1, [%x0];")
    assert not races("st.volatile.global.u32 [%x0], %r0;")
    # bytes of one word are places of their own
    assert not races("cvt.u64.u32 %x2, %r0; add.u64 %x2, %x2, %x0; st.global.u8 [%x2], %r0;")


def test_scopes_must_include_each_other():
    body = "red.relaxed.cta.global.add.u32 [%x0], 1;"
    assert not races(body)
    assert races(body, grid=2)
    assert not races(body.replace("cta", "gpu"), grid=2)


MESSAGE = """mov.u32 %r4, %ctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 exit; setp.eq.u32 %p2, %r4, 0;
    @!%p2 bra take;
st.global.u32 [%x0], 42; SEND st.RELEASE.global.u32 [%x0+4], 1; exit;
take: ld.ACQUIRE.global.u32 %r1, [%x0+4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra take; RECEIVE
ld.global.u32 %r2, [%x0]; setp.ne.u32 %p1, %r2, 42; @%p1 trap;"""


def message(release, acquire, send="", receive=""):
    words = {"RELEASE": release, "ACQUIRE": acquire, "SEND": send, "RECEIVE": receive}
    body = MESSAGE
    for word, text in words.items():
        body = body.replace(word, text)
    return races(body, grid=2, block=32)


def test_release_and_acquire_pass_a_message():
    assert not message("release.gpu", "acquire.gpu")
    assert message("relaxed.gpu", "acquire.gpu")
    assert message("release.gpu", "relaxed.gpu")
    assert message("release.cta", "acquire.gpu")
    assert message("release.gpu", "acquire.cta")


def test_fences_with_relaxed_accesses_pass_a_message():
    fence = "fence.acq_rel.gpu;"
    assert not message("relaxed.gpu", "relaxed.gpu", fence, fence)
    assert not message("relaxed.gpu", "relaxed.gpu", "membar.gl;", "fence.acquire.gpu;")
    assert message("relaxed.gpu", "relaxed.gpu", fence, "")
    assert message("relaxed.gpu", "relaxed.gpu", "", fence)
    assert message("relaxed.gpu", "relaxed.gpu", "fence.acq_rel.cta;", fence)
    assert message("relaxed.gpu", "relaxed.gpu", "fence.acquire.gpu;", fence)


TICKET = """mov.u32 %r4, %ctaid.x; mul.wide.u32 %x2, %r4, 4; add.u64 %x2, %x2, %x0;
setp.ne.u32 %p1, %r0, 0; @!%p1 st.global.u32 [%x2+16], %r4; bar.sync 0; @%p1 exit;
SEND atom.ORDER.global.add.u32 %r5, [%x0], 1; setp.ne.u32 %p1, %r5, 2; @%p1 exit; RECEIVE
ld.global.u32 %r6, [%x0+16]; ld.global.u32 %r7, [%x0+20]; ld.global.u32 %r8, [%x0+24];"""


def ticket(order, send="", receive=""):
    body = TICKET.replace("ORDER", order).replace("SEND", send).replace("RECEIVE", receive)
    return races(body, grid=3, block=32)


def test_the_last_block_sees_the_others():
    assert not ticket("acq_rel.gpu")
    assert ticket("relaxed.gpu")
    assert ticket("release.gpu")
    assert ticket("acquire.gpu")
    assert not ticket("relaxed.gpu", "fence.acq_rel.gpu;", "fence.acq_rel.gpu;")
    assert not ticket("release.gpu", "", "fence.acq_rel.gpu;")


def test_barriers_pass_on_what_one_thread_acquired():
    body = """mov.u32 %r4, %ctaid.x; setp.eq.u32 %p3, %r4, 0; @!%p3 bra take;
    setp.ne.u32 %p1, %r0, 0;
    st.global.u32 [%x1+64], %r0; bar.sync 0; @%p1 exit; st.release.gpu.global.u32 [%x0], 1; exit;
    take: setp.ne.u32 %p1, %r0, 0; @%p1 bra join;
    spin: ld.acquire.gpu.global.u32 %r1, [%x0]; setp.eq.u32 %p2, %r1, 0; @%p2 bra spin;
    join: bar.sync 0; ld.global.u32 %r1, [%x1+64];"""
    assert not races(body, grid=2)
    assert races(body.replace("join: bar.sync 0;", "join:"), grid=2)


def test_constant_loads_allow_no_write_at_all():
    read, write = "ld.global.nc.u32 %r1, [%x1];", "st.global.u32 [%x1], %r0;"
    assert not races(read)
    assert races(write + read)
    (race,) = races(read + write)
    assert "`st.global.u32` and `ld.global.nc.u32`" in race.message
    assert not races(write + read.replace(".nc", ""))
