"""Control flow, state spaces, calls, faults and messages of the PTX emulator."""

import numpy as np
import pytest
from ptx_emulator_support import assemble, launch, module

from hetir.emulator.ptx import Fault, Machine, Memory, PtxError, parse, run_ptx

HEAD = """.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<12>; .reg .b64 %x<12>; .reg .b128 %q<2>;
ld.param.u64 %x0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %x1, %r0, 4; add.u64 %x1, %x0, %x1;
"""


def entry(body, params=".param .u64 out", before="", after="ret;", name="k"):
    return f"{before}\n.visible .entry {name}({params}) {{\n{HEAD}{body}\n{after}\n}}"


def run(body, count=64, out="u4", block=None, grid=1, extra=(), **kw):
    result = np.zeros(count, out)
    params = ".param .u64 out" + "".join(f", .param .u64 p{i}" for i in range(len(extra)))
    text = body if ".entry" in body else entry(body, params, kw.pop("before", ""))
    report = launch(text, grid, block or count, [result, *extra], **kw)
    assert report.instructions > 0
    return result


STORE = "st.global.u32 [%x1], %r1;"


def test_loops_with_own_trip_counts():
    body = f"""mov.u32 %r1, 0; mov.u32 %r2, 0;
    again: setp.ge.u32 %p1, %r2, %r0; @%p1 bra done;
    mad.lo.u32 %r1, %r2, %r2, %r1; add.u32 %r2, %r2, 1; bra again;
    done: {STORE}"""
    assert run(body).tolist() == [sum(k * k for k in range(i)) for i in range(64)]


def test_nested_divergence():
    body = f"""and.b32 %r2, %r0, 1; setp.eq.u32 %p1, %r2, 1; @%p1 bra odd;
    and.b32 %r2, %r0, 2; setp.eq.u32 %p2, %r2, 2; @%p2 bra two; mov.u32 %r1, 10; bra join;
    two: mov.u32 %r1, 20; bra join;
    odd: mov.u32 %r1, 30; setp.gt.u32 %p3, %r0, 40; @!%p3 bra join; mov.u32 %r1, 40;
    join: add.u32 %r1, %r1, %r0; {STORE}"""
    want = [(30 if i <= 40 else 40) if i & 1 else 20 if i & 2 else 10 for i in range(64)]
    assert run(body).tolist() == [w + i for i, w in enumerate(want)]


def test_branch_tables():
    body = f"""and.b32 %r2, %r0, 3; mov.u32 %r1, 7;
    targets: .branchtargets one, two, three, two;
    brx.idx %r2, targets;
    one: mov.u32 %r1, 1; bra join; two: mov.u32 %r1, 2; bra join; three: mov.u32 %r1, 3;
    join: {STORE}"""
    assert run(body).tolist() == [[1, 2, 3, 2][i % 4] for i in range(64)]
    with pytest.raises(Fault, match="branch index 4 of 4"):
        run(body.replace("and.b32 %r2, %r0, 3", "mov.u32 %r2, %r0"))


def test_predicated_exit_and_instructions():
    body = (
        f"mov.u32 %r1, 5; setp.lt.u32 %p1, %r0, 10; @%p1 exit; @!%p1 add.u32 %r1, %r1, %r0; {STORE}"
    )
    assert run(body).tolist() == [0] * 10 + [i + 5 for i in range(10, 64)]


CALLS = """
.func (.param .b32 result) triple(.param .b32 x)
{ .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [x]; setp.gt.u32 %p1, %r1, 50; @%p1 bra big;
  mul.lo.u32 %r1, %r1, 3; st.param.b32 [result], %r1; ret;
  big: st.param.b32 [result+0], 7; ret; }
.func (.reg .b32 %out) sum(.reg .b32 %in, .reg .b32 %other) { add.u32 %out, %in, %other; ret; }
.func (.param .align 16 .b8 pair[16]) swap(.param .align 16 .b8 given[16])
{ .reg .b64 %x<4>; ld.param.v2.b64 {%x1, %x2}, [given]; st.param.v2.b64 [pair], {%x2, %x1}; ret; }
.global .u64 functions[2] = {triple, other};
.func (.param .b32 result) other(.param .b32 x)
{ .reg .b32 %r<2>; ld.param.u32 %r1, [x]; add.u32 %r1, %r1, 1000; st.param.b32 [result], %r1; ret; }
"""
CALLS = CALLS.replace(
    ".global", ".func (.param .b32 result) other(.param .b32 x);\n.global"
)  # the address needs a declaration


def test_calls():
    body = f"""{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;
      call.uni (b), triple, (a); ld.param.b32 %r1, [b]; }}
    setp.lt.u32 %p1, %r0, 8;
    @%p1 call (%r1), sum, (%r1, %r0);
    {{ .param .align 16 .b8 a[16]; .param .align 16 .b8 b[16];
      cvt.u64.u32 %x2, %r1; mov.u64 %x3, 100; st.param.v2.b64 [a], {{%x2, %x3}};
      call (b), swap, (a); ld.param.b64 %x4, [b+8]; ld.param.b64 %x5, [b]; }}
    add.u64 %x4, %x4, %x5; cvt.u32.u64 %r1, %x4; {STORE}"""
    want = [(3 * i if i <= 50 else 7) + (i if i < 8 else 0) + 100 for i in range(64)]
    assert run(body, before=CALLS).tolist() == want


def test_calls_through_pointers():
    body = f"""and.b32 %r2, %r0, 1; mul.wide.u32 %x2, %r2, 8; mov.u64 %x3, functions;
    add.u64 %x3, %x3, %x2; ld.global.u64 %x4, [%x3];
    {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;
      proto: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %x4, (a), proto; ld.param.b32 %r1, [b]; }}
    {STORE}"""
    want = [1000 + i if i & 1 else (3 * i if i <= 50 else 7) for i in range(64)]
    assert run(body, before=CALLS).tolist() == want
    with pytest.raises(Fault, match="no function of this prototype"):
        run(body.replace("ld.global.u64 %x4, [%x3];", "mov.u64 %x4, 64;"), before=CALLS)


def test_recursion_is_refused():
    again = ".func f() { call f; ret; }"
    with pytest.raises(PtxError, match=r"`f` calls itself"):
        run("call f;", before=again)
    with pytest.raises(PtxError, match="`g` is not defined"):
        run("call g;", before=".extern .func g();")


def test_variables_of_a_module():
    before = """.global .align 4 .u32 counts[4] = {5, 6, 7}; .const .align 8 .f64 half = 0.5;
    .global .align 8 .u64 where = counts; .global .align 8 .u64 other = generic(counts)+8;"""
    body = f"""and.b32 %r2, %r0, 3; mul.wide.u32 %x2, %r2, 4; ld.global.u64 %x3, [where];
    add.u64 %x3, %x3, %x2; ld.u32 %r1, [%x3]; ld.const.f64 %x4, [half];
    cvt.rni.u32.f64 %r3, %x4; ld.global.u64 %x5, [other]; ld.u32 %r4, [%x5];
    add.u32 %r1, %r1, %r3; mad.lo.u32 %r1, %r4, 100, %r1; {STORE}"""
    assert run(body, before=before).tolist() == [700 + [5, 6, 7, 0][i % 4] for i in range(64)]


def test_global_variables_live_as_long_as_the_machine():
    text = entry("atom.global.add.u32 %r1, [count], 1; st.global.u32 [%x1], %r1;",
                 before=".global .u32 count = 10;")  # fmt: skip
    machine, out = Machine(parse(module(text))), np.zeros(4, "u4")
    machine.launch("k", 1, 4, [out])
    machine.launch("k", 1, 4, [out])
    assert out.tolist() == [14, 15, 16, 17]
    assert machine.variable("count").view("u4").tolist() == [18]


def test_local_memory_is_each_thread_s_own():
    body = f""".local .align 4 .b8 box[64]; mov.u64 %x2, box; cvta.local.u64 %x3, %x2;
    and.b32 %r2, %r0, 15; mul.wide.u32 %x4, %r2, 4; add.u64 %x5, %x3, %x4;
    st.u32 [%x5], %r0; add.u64 %x6, %x2, %x4; ld.local.u32 %r1, [%x6]; add.u32 %r1, %r1, 1;
    {STORE}"""
    assert run(body).tolist() == [i + 1 for i in range(64)]


def test_shared_memory_static_dynamic_and_generic():
    before = ".extern .shared .align 16 .b8 more[];"
    body = f""".shared .align 4 .u32 tile[64];
    mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r0;
    cvt.u64.u32 %x2, %r2; mov.u64 %x3, more; cvta.shared.u64 %x3, %x3; add.u64 %x3, %x3, %x2;
    add.u32 %r4, %r0, 100; st.u32 [%x3], %r4; bar.sync 0;
    mov.u32 %r5, 63; sub.u32 %r5, %r5, %r0; mul.lo.u32 %r5, %r5, 4; mov.u32 %r6, tile;
    add.u32 %r6, %r6, %r5; ld.shared.u32 %r1, [%r6]; mov.u32 %r7, more; add.u32 %r7, %r7, %r5;
    ld.shared.u32 %r8, [%r7]; mov.u32 %r9, %dynamic_smem_size;
    add.u32 %r1, %r1, %r8; add.u32 %r1, %r1, %r9; {STORE}"""
    want = [2 * (63 - i) + 100 + 256 for i in range(64)]
    assert run(body, before=before, shared_bytes=256).tolist() == want
    with pytest.raises(Fault, match="shared variable") as caught:
        run(body, before=before, shared_bytes=252)
    assert caught.value.code == "HET623"
    assert caught.value.thread.thread == (63, 0, 0)


def test_special_registers():
    names = ["tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ntid.y", "nctaid.x", "laneid",
             "warpid", "lanemask_lt", "lanemask_ge"]  # fmt: skip
    body = "".join(
        f"mov.u32 %r1, %{n}; st.global.u32 [%x3+{4 * i}], %r1;" for i, n in enumerate(names)
    )
    lead = """mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.y; mov.u32 %r4, %tid.y;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mov.u32 %r3, %ntid.x; mad.lo.u32 %r2, %r2, %r3, %r0; mov.u32 %r5, %ctaid.y;
    mov.u32 %r6, %nctaid.x;
    mov.u32 %r7, %ctaid.x; mad.lo.u32 %r5, %r5, %r6, %r7; mad.lo.u32 %r2, %r5, 60, %r2;
    mul.wide.u32 %x3, %r2, 44; add.u64 %x3, %x3, %x0;"""
    out = np.zeros((6, 60, 11), "u4")
    launch(entry(lead + body), (3, 2), (5, 4, 3), [out])
    for block in range(6):
        for t in range(60):
            lane = t % 32
            want = [t % 5, t // 5 % 4, t // 20, block % 3, block // 3, 4, 3, lane, t // 32,
                    (1 << lane) - 1, 2**32 - (1 << lane)]  # fmt: skip
            assert out[block, t].tolist() == want


def test_clock_never_goes_back():
    body = f"""mov.u64 %x2, %clock64; mov.u64 %x3, %clock64; setp.gt.u64 %p1, %x3, %x2;
    selp.b32 %r1, 1, 0, %p1; {STORE}"""
    assert run(body).tolist() == [1] * 64


def test_vectors_and_extension():
    x = np.arange(64, dtype="i1") - 20
    body = """ld.param.u64 %x2, [p0]; cvt.u64.u32 %x3, %r0; add.u64 %x2, %x2, %x3;
    ld.global.s8 %r1, [%x2]; ld.global.nc.u8 %h1, [%x2]; cvt.u32.u16 %r2, %h1;
    ld.global.b8 %x4, [%x2];
    cvt.u32.u64 %r3, %x4; mul.wide.u32 %x5, %r0, 16; add.u64 %x5, %x0, %x5;
    st.global.v4.u32 [%x5], {%r1, %r2, %r3, %r0}; ld.global.v2.u64 {%x6, %x7}, [%x5];
    ld.global.b128 %q0, [%x5]; mov.b128 {%x8, %x9}, %q0; setp.ne.u64 %p1, %x7, %x9; @%p1 trap;
    setp.ne.u64 %p1, %x6, %x8; @%p1 trap;"""
    out = run(body, 256, block=64, extra=[x]).reshape(64, 4)
    wide, raw = x.astype("i4").view("u4"), x.view("u1")
    assert (out == np.stack([wide, raw, raw, np.arange(64)], 1)).all()


def test_parameters_by_value_and_address():
    text = entry(
        """ld.param.v2.f32 {%r2, %r3}, [pair+8]; ld.param.s16 %r4, [small];
        mov.b64 %x2, pair; add.u64 %x2, %x2, 4; ld.param.u32 %r5, [%x2];
        cvta.param.u64 %x3, %x2; ld.u32 %r6, [%x3]; st.global.v4.u32 [%x0], {%r2, %r3, %r4, %r5};
        st.global.u32 [%x0+16], %r6;""",
        ".param .u64 out, .param .align 8 .b8 pair[16], .param .s16 small",
    )
    out, pair = np.zeros(8, "u4"), np.array([1, 2, 0x3F800000, 0x40000000], "u4")
    launch(text, 1, 1, [out, pair.tobytes(), np.int16(-3)])
    assert out[:5].tolist() == [0x3F800000, 0x40000000, 2**32 - 3, 2, 2]


def test_a_device_s_way_in():
    y = np.arange(64, dtype="u4")
    text = module(entry("ld.global.u32 %r1, [%x1]; add.u32 %r1, %r1, 5; st.global.u32 [%x1], %r1;"))
    report = run_ptx(text, "k", int(y.ctypes.data).to_bytes(8, "little"), 1, 64, [y])
    assert report.races == ()
    assert y.tolist() == [5 + i for i in range(64)]


def test_arrays_that_share_memory():
    whole = np.zeros(96, "u4")
    first, last = whole[:64], whole[32:]
    text = module(
        entry(
            """ld.param.u64 %x2, [last]; mul.wide.u32 %x3, %r0, 4; add.u64 %x2, %x2, %x3;
            st.global.u32 [%x1], 1; st.global.u32 [%x2], 2;""",
            ".param .u64 out, .param .u64 last",
        )
    )
    block = b"".join(int(a.ctypes.data).to_bytes(8, "little") for a in (first, last))
    run_ptx(text, "k", block, 1, 64, [first, last, first])
    assert whole.tolist() == [1] * 32 + [2] * 64


@pytest.mark.parametrize(("target", "kib"), [("sm_75", 64), ("sm_86", 99), ("sm_90", 227)])
def test_shared_memory_limits(target, kib):
    text = module(".extern .shared .b8 more[];\n.entry k() { ret; }", target)
    machine = Machine(parse(text))
    machine.launch("k", 1, 1, [], kib * 1024)
    with pytest.raises(PtxError, match="cannot be had") as caught:
        machine.launch("k", 1, 1, [], kib * 1024 + 1)
    assert caught.value.code == "HET630"
    for size, fits in ((49152, True), (49153, False)):
        body = f".entry k() {{ .shared .b8 s[{size}]; .reg .b32 %r; mov.u32 %r, s; ret; }}"
        if fits:
            Machine(parse(module(body, target))).launch("k", 1, 1)
        else:
            with pytest.raises(PtxError, match="more than 48 KiB"):
                Machine(parse(module(body, target))).launch("k", 1, 1)


def fault(body, code, match, **kw):
    with pytest.raises(PtxError, match=match) as caught:
        run(body, **kw)
    assert caught.value.code == code
    return caught.value


def test_out_of_bounds():
    error = fault("st.global.u32 [%x1+4], %r0;", "HET623", "byte 256 of it")
    assert error.thread.thread == (63, 0, 0)
    assert "st.global.u32 [%x1+4], %r0;" in str(error)
    fault("ld.global.u32 %r1, [%x1+-4];", "HET623", "lie in no allocation")
    fault("mov.u64 %x1, 0; ld.u32 %r1, [%x1];", "HET623", "generic address 0x0")
    fault("ld.shared.u32 %r1, [16];", "HET623", "shared variable")
    fault(".local .b8 box[8]; ld.local.u32 %r1, [box+8];", "HET623", "local variable")
    fault("atom.global.add.u32 %r1, [%x0+1024], 1;", "HET623", "lie in no allocation")
    shared = (
        ".shared .u32 one; .shared .u32 two; st.shared.u32 [one+4], %r0; ld.shared.u32 %r1, [two];"
    )
    fault(shared, "HET623", "shared variable")


def test_misalignment():
    fault("ld.global.u32 %r1, [%x0+2];", "HET624", "no multiple of 4")
    fault("ld.global.v2.u32 {%r1, %r2}, [%x0+4];", "HET624", "no multiple of 8")
    fault("atom.global.add.u32 %r1, [%x0+1], 1;", "HET624", "no multiple of 4")


def test_spaces_are_kept_apart():
    before = ".const .u32 c = 3;"
    fault("mov.u64 %x2, c; ld.global.u32 %r1, [%x2];", "HET623", "const space", before=before)
    fault("mov.u64 %x2, c; st.u32 [%x2], 1;", "HET623", "may only be read", before=before)
    fault("ld.shared.u32 %r1, [c];", "HET622", "lies in the const space", before=before)
    frozen = np.zeros(64, "u4")
    frozen.flags.writeable = False
    with pytest.raises(Fault, match="may only be read"):
        launch(entry("st.global.u32 [%x1], 1;"), 1, 64, [frozen])


def test_uninitialised_memory():
    body = (
        ".shared .u32 tile[64]; mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;"
    )
    read = "ld.shared.u32 %r1, [%r3];"
    error = fault(f"{body} setp.ne.u32 %p1, %r0, 9; @%p1 st.shared.u32 [%r3], 1; {read}", "HET625",
                  "before it is written", uninitialised=True)  # fmt: skip
    assert error.thread.thread == (9, 0, 0)
    run(f"{body} st.shared.u32 [%r3], 1; {read}", uninitialised=True)
    run(f"{body} {read}")
    byte = f"{body} mov.u32 %r4, 1; st.shared.u8 [%r3], %r4;"
    fault(f"{byte} {read}", "HET625", "before it is written", uninitialised=True)


def test_an_atomic_on_a_byte_reads_the_other_bytes_of_its_word():
    body = (
        ".shared .u32 tile[64]; mul.lo.u32 %r2, %r0, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;"
    )
    read = "ld.relaxed.cta.shared.b32 %r1, [%r3];"
    run(f"{body} mov.u32 %r4, 1; st.shared.u8 [%r3+2], %r4; {read}", uninitialised=True)
    fault(f"{body} {read}", "HET625", "before it is written", uninitialised=True)


def test_an_element_that_nobody_looks_at_need_not_be_written():
    """Three elements are read as four: what the fourth register gets is not used."""
    body = """.local .align 16 .b8 own[16]; mov.u64 %x2, own;
    st.local.v2.u32 [%x2], {1, 2}; st.local.u32 [%x2+8], 3;
    ld.local.v4.u32 {%r2, %r3, %r4, %r5}, [%x2];
    add.u32 %r1, %r2, %r3; add.u32 %r1, %r1, %r4;"""
    assert run(f"{body} {STORE}", uninitialised=True).tolist() == [6] * 64
    fault(f"{body} add.u32 %r1, %r1, %r5; {STORE}", "HET625", "before it is written",
          uninitialised=True)  # fmt: skip


def test_trap_and_endless_loops():
    assert fault("setp.eq.u32 %p1, %r0, 5; @%p1 trap;", "HET629", "trap").thread.thread == (5, 0, 0)
    fault("again: bra again;", "HET631", "turns were not enough", step_limit=1000)


def test_user_lines_of_loc():
    text = module('.file 1 "/src/kernel.py"\n' + entry(
        ".loc 1 12 5\nld.global.u32 %r1, [%x1+1024];\n"
        ".loc 1 14 9, function_name $name, inlined_at 1 12 5\nadd.u32 %r1, %r1, 1;"
    ))  # fmt: skip
    with pytest.raises(Fault) as caught:
        Machine(parse(text)).launch("k", 1, 64, [np.zeros(64, "u4")])
    labels = caught.value.labels
    assert (labels[0].loc.file, labels[0].loc.line, labels[0].loc.col) == ("/src/kernel.py", 12, 4)
    assert "ld.global.u32 %r1, [%x1+1024];" in labels[1].loc.source()
    last = [i for i in parse(text).functions["k"].body if i.opcode == "add"][-1]
    assert (last.place.user.line, last.place.user.caller.line) == (14, 12)


@pytest.mark.parametrize(
    ("body", "code", "match"),
    [
        ("frobnicate.u32 %r1, %r0;", "HET621", "`frobnicate` is not known"),
        ("add.u32.wild %r1, %r0, 1;", "HET621", r"`.wild` is not known on `add`"),
        ("ld.global.L3::often.u32 %r1, [%x1];", "HET621", "L3::often"),
        ("mov.u32 %r1, %ctaid.w;", "HET621", "`%ctaid.w` is not known"),
        (".frame 5;", "HET621", "directive `.frame`"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1};",
            "HET621",
            "mma",
        ),
        ("add.u32 %r1, %x0, 1;", "HET622", "`%x0` is .b64, not .u32"),
        ("add.u32 %r1, %r0;", "HET622", "3 operands are needed, got 2"),
        ("add.u32 %r1, %r99, 1;", "HET621", "%r99"),
        ("add.u32 %r1, name, 1;", "HET622", "`name` is not declared"),
        ("bra nowhere;", "HET622", "label `nowhere`"),
        ("add.u32 %r1, %r0, 1", "HET620", "expected `,`"),
        ("add.u32 %r1, \\, 1;", "HET620", "begins no PTX token"),
        (".reg .b32 %r<3>;", "HET622", "declared twice"),
        ("cvt.f32.f64 %r1, %x0;", "HET622", "rounding modifier is missing"),
        ("fma.f32 %r1, %r1, %r1, %r1;", "HET621", r"`.f32` is not known"),
        ("ld.relaxed.global.u32 %r1, [%x1];", "HET622", "scope is missing"),
    ],
)
def test_what_is_not_ptx_is_named(body, code, match):
    with pytest.raises(PtxError, match=match) as caught:
        run(body)
    assert caught.value.code == code
    assert caught.value.labels


def test_launches_that_do_not_fit():
    text = ".visible .entry k(.param .u64 out) .reqntid 32, 2 .minnctapersm 2 { ret; }"
    machine, out = Machine(parse(module(text))), np.zeros(1)
    machine.launch("k", 1, (32, 2), [out])
    for block, params, match in (
        (64, [out], "reqntid"),
        (2048, [out], "cannot be launched"),
        ((32, 2), [], "1 parameters are needed"),
        ((32, 2), b"1234", "have 8 bytes, got 4"),
    ):
        with pytest.raises(PtxError, match=match) as caught:
            machine.launch("k", 1, block, params)
        assert caught.value.code == "HET630"
    with pytest.raises(PtxError, match="no entry `j`"):
        machine.launch("j", 1, 32, [])
    machine = Machine(parse(module(".entry k() .maxntid 16, 2 { ret; }")))
    machine.launch("k", 1, 32)
    with pytest.raises(PtxError, match="maxntid"):
        machine.launch("k", 1, 33)


def test_memory():
    memory, a = Memory(), np.arange(10, dtype="u2")
    where = memory.add(a, "a")
    assert where % 256 == 0
    assert memory.add(a) == where
    assert memory.bytes_at(where + 2, 2).tolist() == [1, 0]
    assert memory.alloc(8) > where + 20
    with pytest.raises(PtxError, match="not contiguous"):
        memory.add(a[::2])
    with pytest.raises(PtxError, match="overlaps"):
        memory.add(np.zeros(4), address=where + 16)
    assert memory.find(where + 20) is None


def test_scopes_of_names():
    body = f"""{{ .reg .b32 %r0; .reg .b32 %t; mov.u32 %r0, 5; mov.u32 %t, 1; bra over; over: }}
    {{ .reg .b32 %t; mov.u32 %t, 9; bra over; over: add.u32 %r1, %r0, %t; }} {STORE}"""
    assert run(body).tolist() == [i + 9 for i in range(64)]


def test_batches_give_the_same_as_one():
    x = np.zeros((40, 64), "u4")
    text = entry("mov.u32 %r1, %ctaid.x; mul.wide.u32 %x2, %r1, 256; add.u64 %x1, %x1, %x2; "
                 "mad.lo.u32 %r1, %r1, 1000, %r0; st.global.u32 [%x1], %r1;")  # fmt: skip
    machine = Machine(parse(module(text)))
    for lanes in (64, 200, 1 << 14):
        x[:] = 0
        machine.launch("k", 40, 64, [x], batch_lanes=lanes)
        assert (x == np.arange(40)[:, None] * 1000 + np.arange(64)).all()


def test_assembler_takes_the_calls():
    assert assemble(module(entry("", before=CALLS)), "sm_90") == ""
