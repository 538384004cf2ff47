"""The shim refuses what the documented hardware rules refuse, each with its reason and line."""

import pytest

from hetir.emulator.ascend import ShimBuildError, run
from hetir.emulator.ascend.build import library
from tests.unit.ascend_shim_support import EACH_COMPILER, HEAD, call, line_of, needs_compiler, unit

pytestmark = needs_compiler

# name -> (kind, a part of the message, a text on the line at fault, the body)
TENSOR = "    TBuf<> buffer;\n    pipe.InitBuffer(buffer, {bytes});\n"
ONE = TENSOR.format(bytes=4096) + "    auto t = buffer.Get<float>();\n"
QUEUE = "    TQue<TPosition::VECIN, 1> queue;\n    pipe.InitBuffer(queue, {buffers}, 1024);\n"
READY = (
    "    DataCopy(t, x, 512);\n"
    "    SetFlag<HardEvent::MTE2_V>(0);\n"
    "    WaitFlag<HardEvent::MTE2_V>(0);\n"
)
WRONG = {
    # element types
    "add_of_u32": (
        "type",
        "Add does not take uint32_t on architecture 2201",
        "Add(",
        ONE + "    auto u = t.ReinterpretCast<uint32_t>();\n    Add(u, u, u, 64);",
    ),
    "mul_of_i64": (
        "type",
        "Mul does not take int64_t",
        "Mul(",
        ONE + "    auto u = t.ReinterpretCast<int64_t>();\n    Mul(u, u, u, 64);",
    ),
    "and_of_i32": (
        "type",
        "And does not take int32_t",
        "And(",
        ONE + "    auto u = t.ReinterpretCast<int32_t>();\n    And(u, u, u, 64);",
    ),
    "div_of_i32": (
        "type",
        "Div does not take int32_t",
        "Div(",
        ONE + "    auto u = t.ReinterpretCast<int32_t>();\n    Div(u, u, u, 64);",
    ),
    "ordered_compare_of_i32": (
        "type",
        "Compare of int32_t knows EQ alone",
        "Compare(",
        ONE
        + "    auto u = t.ReinterpretCast<int32_t>();\n"
        + "    auto m = t[512].ReinterpretCast<uint8_t>();\n"
        + "    Compare(m, u, u, CMPMODE::LT, 64);",
    ),
    "cast_of_u32": (
        "type",
        "Cast does not take uint32_t to float",
        "Cast(",
        ONE
        + "    auto u = t[512].ReinterpretCast<uint32_t>();\n"
        + "    Cast(t, u, RoundMode::CAST_RINT, 64);",
    ),
    "cast_with_a_needless_mode": (
        "type",
        "takes no rounding mode 1",
        "Cast(",
        ONE
        + "    auto u = t[512].ReinterpretCast<half>();\n"
        + "    Cast(t, u, RoundMode::CAST_RINT, 64);",
    ),
    "select_of_i32": (
        "type",
        "Select does not take int32_t",
        "Select(",
        ONE
        + "    auto u = t.ReinterpretCast<int32_t>();\n"
        + "    auto m = t[512].ReinterpretCast<uint8_t>();\n"
        + "    Select(u, m, u, u, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);",
    ),
    "select_by_the_wrong_mode": (
        "type",
        "Select with two tensors takes no VSEL_TENSOR_SCALAR_MODE",
        "Select(",
        ONE
        + "    auto m = t[512].ReinterpretCast<uint8_t>();\n"
        + "    Select(t, m, t, t, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
    ),
    "scatter": (
        "type",
        "Scatter does not take float on architecture 2201",
        "Scatter(",
        ONE
        + "    auto u = t[512].ReinterpretCast<uint32_t>();\n"
        + "    Scatter(t, t[256], u, 0, 64);",
    ),
    "atomic_of_u32": (
        "type",
        "SetAtomicAdd does not take uint32_t",
        "SetAtomicAdd<",
        "    SetAtomicAdd<uint32_t>();",
    ),
    "atomic_of_another_type": (
        "type",
        "DataCopy of float while the atomic type is int32_t",
        "DataCopy(y",
        ONE + "    SetAtomicAdd<int32_t>();\n    DataCopy(y, t, 64);",
    ),
    # alignment
    "vector_at_4_bytes": (
        "alignment",
        "src0 of Abs starts at byte 4 of the Unified Buffer",
        "Abs(",
        ONE + "    Abs(t[512], t[1], 64);",
    ),
    "copy_to_12_bytes": (
        "alignment",
        "dst of DataCopy starts at byte 12",
        "DataCopy(",
        ONE + "    DataCopy(t[3], x, 64);",
    ),
    "copy_across_elements": (
        "alignment",
        "DataCopy at a global address that is not a multiple of 4",
        "DataCopy(",
        ONE + "    x.SetGlobalBuffer((__gm__ float *)(a + 2));\n    DataCopy(t, x, 64);",
    ),
    "gather_across_elements": (
        "alignment",
        "offset 6 of lane 0 is not a multiple of 4",
        "Gather(",
        ONE
        + "    auto u = t[512].ReinterpretCast<uint32_t>();\n"
        + "    Duplicate(u, 6u, 64);\n"
        + "    PipeBarrier<PIPE_V>();\n"
        + "    Gather(t[256], buffer.Get<float>(64), u, 0, 64);",
    ),
    # counts and masks
    "compare_of_100": (
        "count",
        "Compare of 100 elements: they must fill a multiple of 256 bytes",
        "Compare(",
        ONE
        + "    auto m = t[512].ReinterpretCast<uint8_t>();\n"
        + "    Compare(m, t, t, CMPMODE::LT, 100);",
    ),
    "copy_of_9": (
        "count",
        "DataCopy of 36 bytes: not a multiple of 32",
        "DataCopy(",
        ONE + "    DataCopy(t, x, 9);",
    ),
    "too_many_blocks": (
        "count",
        "DataCopyPad of 4096 blocks: 4095 at most",
        "DataCopyPad(",
        ONE
        + "    DataCopyExtParams ext(4096, 4, 0, 0, 0);\n"
        + "    DataCopyPad(t, x, ext, DataCopyPadExtParams<float>(false, 0, 0, 0));",
    ),
    "too_long_a_block": (
        "count",
        "2097151 at most",
        "DataCopyPad(",
        ONE
        + "    DataCopyExtParams ext(1, 2097152, 0, 0, 0);\n"
        + "    DataCopyPad(t, x, ext, DataCopyPadExtParams<float>(false, 0, 0, 0));",
    ),
    "a_part_of_an_element": (
        "count",
        "blocks of 6 bytes: not whole elements of 4",
        "DataCopyPad(",
        ONE
        + "    DataCopyExtParams ext(1, 6, 0, 0, 0);\n"
        + "    DataCopyPad(t, x, ext, DataCopyPadExtParams<float>(false, 0, 0, 0));",
    ),
    "too_much_padding": (
        "count",
        "DataCopyPad pads by more than 32 bytes",
        "DataCopyPad(",
        ONE
        + "    DataCopyExtParams ext(1, 32, 0, 0, 0);\n"
        + "    DataCopyPad(t, x, ext, DataCopyPadExtParams<float>(true, 0, 9, 0));",
    ),
    "mask_past_a_repeat": (
        "mask",
        "a repeat of 256 bytes has 64 elements",
        "Add(",
        ONE
        + "    Duplicate(t, 0.0f, 512);\n"
        + "    PipeBarrier<PIPE_V>();\n"
        + "    Add(t, t, t, 65, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));",
    ),
    "mask_bits_past_a_repeat": (
        "mask",
        "the mask names lanes past the 64 of a repeat",
        "Add(",
        ONE
        + "    uint64_t mask[2] = {1, 1};\n"
        + "    Add(t, t, t, mask, 1, BinaryRepeatParams(1, 1, 1, 8, 8, 8));",
    ),
    "shift_by_33": (
        "count",
        "ShiftLeft by 33: more than the 32 bits",
        "ShiftLeft(",
        ONE + "    auto u = t.ReinterpretCast<uint32_t>();\n    ShiftLeft(u, u, 33u, 64);",
    ),
    # overlap and bounds
    "partial_overlap": (
        "overlap",
        "Abs: dst and src0 overlap in part",
        "Abs(",
        ONE + "    Abs(t[8], t, 64);",
    ),
    "gather_in_place": (
        "overlap",
        "Gather: dst and src0 overlap",
        "Gather(",
        ONE + "    auto u = t[512].ReinterpretCast<uint32_t>();\n" + "    Gather(t, t, u, 0, 64);",
    ),
    "cast_in_place": (
        "overlap",
        "Cast: dst and src0 overlap in part",
        "Cast(",
        ONE + "    Cast(t.ReinterpretCast<half>(), t, RoundMode::CAST_RINT, 64);",
    ),
    "past_a_tensor": (
        "bounds",
        "Abs touches 4224 bytes of dst, whose tensor has 4096",
        "Abs(",
        ONE + "    Abs(t, t, 1056);",
    ),
    "past_an_array": (
        "bounds",
        "DataCopy ends 32 bytes past the end of array 0",
        "DataCopy(",
        ONE + "    DataCopy(t, x, 1008);",
    ),
    "behind_an_array": (
        "bounds",
        "past the end of array 0",
        "DataCopy(",
        ONE + "    DataCopy(t, x[1008], 8);",
    ),
    "past_set_global_buffer": (
        "bounds",
        "DataCopy ends 32 bytes past what SetGlobalBuffer was told",
        "DataCopy(",
        ONE + "    x.SetGlobalBuffer((__gm__ float *)a, 504);\n" + "    DataCopy(t, x, 512);",
    ),
    "scalar_past_an_array": (
        "bounds",
        "GetValue starts 0 bytes past the end of array 0",
        "GetValue(",
        "    z.SetValue(0, int32_t(x.GetValue(1000)));",
    ),
    "scalar_past_a_tensor": (
        "bounds",
        "GetValue past the end of a LocalTensor",
        "GetValue(",
        ONE + "    (void)t.GetValue(1024);",
    ),
    "past_a_tbuf": (
        "bounds",
        "a TBuf of 4096 bytes has no 4100 bytes",
        "Get<float>(1025)",
        TENSOR.format(bytes=4096) + "    (void)buffer.Get<float>(1025);",
    ),
    "write_to_read_only": (
        "bounds",
        "DataCopy writes array 0, which is read-only",
        "DataCopy(x",
        ONE + "    DataCopy(x, t, 64);",
    ),
    "pointer_past_an_array": (
        "bounds",
        "past the end of array 0",
        "GetValue(0)",
        "    (void)x.GetValue(0);\n    z.SetValue(0, ((volatile float *)a)[4096]);",
    ),
    # budget
    "queue_past_the_budget": (
        "budget",
        "the Unified Buffer has 188160 usable, 0 are taken",
        "InitBuffer(",
        "    TQue<TPosition::VECIN, 2> queue;\n    pipe.InitBuffer(queue, 2, 188161);",
    ),
    "tbuf_past_the_budget": (
        "budget",
        "a TBuf of 188192 bytes",
        "InitBuffer(",
        TENSOR.format(bytes=188161),
    ),
    "tensor_past_the_budget": (
        "budget",
        "ends past the 188160 usable bytes",
        "LocalTensor<float>",
        "    LocalTensor<float> t(TPosition::VECCALC, 188128, 16);\n    (void)t;",
    ),
    # queues
    "dequeue_of_nothing": (
        "queue",
        "DeQue of an empty queue",
        "DeQue<",
        QUEUE.format(buffers=1) + "    auto t = queue.DeQue<float>();\n    queue.FreeTensor(t);",
    ),
    "one_buffer_twice": (
        "queue",
        "all 1 buffers of the queue are in use",
        "auto u",
        QUEUE.format(buffers=1)
        + "    auto t = queue.AllocTensor<float>();\n"
        + "    auto u = queue.AllocTensor<float>();\n    (void)t, (void)u;",
    ),
    "never_freed": (
        "queue",
        "this AllocTensor has no FreeTensor",
        "AllocTensor<",
        QUEUE.format(buffers=1) + "    auto t = queue.AllocTensor<float>();\n    (void)t;",
    ),
    "used_after_free": (
        "queue",
        "Abs uses dst after FreeTensor",
        "Abs(",
        QUEUE.format(buffers=1)
        + "    auto t = queue.AllocTensor<float>();\n"
        + "    queue.FreeTensor(t);\n    Abs(t, t, 64);",
    ),
    "used_while_queued": (
        "queue",
        "between EnQue and DeQue",
        "DataCopy(",
        QUEUE.format(buffers=1)
        + "    auto t = queue.AllocTensor<float>();\n"
        + "    queue.EnQue(t);\n    DataCopy(t, x, 64);",
    ),
    "queue_overfull": (
        "queue",
        "EnQue into a full queue: its depth is 1",
        "EnQue(u)",
        QUEUE.format(buffers=2)
        + "    auto t = queue.AllocTensor<float>();\n"
        + "    auto u = queue.AllocTensor<float>();\n"
        + "    queue.EnQue(t);\n    queue.EnQue(u);",
    ),
    "freed_twice": (
        "queue",
        "FreeTensor of a tensor after FreeTensor",
        "queue.FreeTensor(u)",
        QUEUE.format(buffers=1)
        + "    auto t = queue.AllocTensor<float>();\n    auto u = t;\n"
        + "    queue.FreeTensor(t);\n    queue.FreeTensor(u);",
    ),
    "freed_while_queued": (
        "queue",
        "FreeTensor of a tensor that is still in the queue",
        "FreeTensor(",
        QUEUE.format(buffers=1)
        + "    auto t = queue.AllocTensor<float>();\n"
        + "    queue.EnQue(t);\n    queue.FreeTensor(t);",
    ),
    "tensor_of_another_queue": (
        "queue",
        "EnQue of a tensor that belongs to another queue",
        "other.EnQue(",
        QUEUE.format(buffers=1)
        + "    TQue<TPosition::VECIN, 1> other;\n    pipe.InitBuffer(other, 1, 1024);\n"
        + "    auto t = queue.AllocTensor<float>();\n    other.EnQue(t);",
    ),
    "tensor_of_no_queue": (
        "queue",
        "EnQue of a tensor that no queue gave out",
        "EnQue(",
        ONE + QUEUE.format(buffers=1) + "    queue.EnQue(t);",
    ),
    "init_twice": (
        "queue",
        "InitBuffer of one queue twice",
        "InitBuffer(queue, 2",
        QUEUE.format(buffers=1) + "    pipe.InitBuffer(queue, 2, 1024);",
    ),
    "alloc_before_init": (
        "queue",
        "AllocTensor before InitBuffer",
        "AllocTensor<",
        "    TQue<TPosition::VECIN, 1> queue;\n    (void)queue.AllocTensor<float>();",
    ),
    "tensor_without_memory": (
        "queue",
        "a LocalTensor is used without a buffer",
        "Abs(",
        "    LocalTensor<float> t;\n    Abs(t, t, 64);",
    ),
    # flags
    "event_8": (
        "flag",
        "event 8: the hardware has events 0 to 7",
        "SetFlag<",
        "    SetFlag<HardEvent::MTE2_V>(8);",
    ),
    "set_twice": (
        "flag",
        "SetFlag of MTE2_V event 0 twice without a WaitFlag between",
        "again",
        "    SetFlag<HardEvent::MTE2_V>(0);\n    SetFlag<HardEvent::MTE2_V>(0);  // again",
    ),
    "set_for_nobody": (
        "flag",
        "this SetFlag has no WaitFlag at the end of the kernel",
        "SetFlag<",
        "    SetFlag<HardEvent::MTE2_V>(0);",
    ),
    "event_reused_too_early": (
        "flag",
        "nothing makes sure that its wait",
        "again",
        ONE
        + READY
        + "    DataCopy(t[512], x, 8);\n"
        + "    SetFlag<HardEvent::MTE2_V>(0);  // again\n"
        + "    WaitFlag<HardEvent::MTE2_V>(0);",
    ),
    "nine_events": (
        "flag",
        "all 8 events from V to S are in use",
        "AllocEventID<",
        "    for (int i = 0; i < 9; ++i) pipe.AllocEventID<HardEvent::V_S>();",
    ),
    "wait_for_nobody": (
        "deadlock",
        "WaitFlag of V_S event 3: nobody has set it",
        "WaitFlag<",
        "    WaitFlag<HardEvent::V_S>(3);",
    ),
    # hazards
    "vector_after_vector": (
        "hazard",
        "pipe V reads a part of the Unified Buffer that pipe V writes at line",
        "Exp(",
        ONE + READY + "    Abs(t, t, 64);\n    Exp(t[512], t, 64);",
    ),
    "vector_before_the_load": (
        "hazard",
        "pipe V reads a part of the Unified Buffer that pipe MTE2 writes",
        "Abs(",
        ONE + "    DataCopy(t, x, 64);\n    Abs(t[512], t, 64);",
    ),
    "store_before_the_vector": (
        "hazard",
        "pipe MTE3 reads a part of the Unified Buffer that pipe V writes",
        "DataCopy(y",
        ONE + READY + "    Abs(t, t, 64);\n    DataCopy(y, t, 64);",
    ),
    "load_over_what_is_read": (
        "hazard",
        "pipe MTE2 writes a part of the Unified Buffer that pipe V reads",
        "again",
        ONE
        + READY
        + "    Abs(t[512], t, 64);\n    PipeBarrier<PIPE_MTE2>();\n"
        + "    DataCopy(t, x[512], 64);  // again",
    ),
    "vector_after_a_scalar": (
        "hazard",
        "pipe V reads a part of the Unified Buffer that pipe S writes",
        "Abs(",
        ONE + "    t.SetValue(0, 1.0f);\n    Abs(t[512], t, 64);",
    ),
    "scalar_after_a_vector": (
        "hazard",
        "pipe S reads a part of the Unified Buffer that pipe V writes",
        "GetValue(",
        ONE + "    Duplicate(t, 1.0f, 64);\n    (void)t.GetValue(0);",
    ),
    "load_of_what_is_stored": (
        "hazard",
        "pipe MTE2 reads array 1 that pipe MTE3 writes",
        "again",
        ONE
        + "    Duplicate(t, 1.0f, 64);\n"
        + "    SetFlag<HardEvent::V_MTE3>(0);\n    WaitFlag<HardEvent::V_MTE3>(0);\n"
        + "    DataCopy(y, t, 64);\n    DataCopy(t[512], y, 64);  // again",
    ),
    "two_loads_to_one_place": (
        "hazard",
        "pipe MTE2 writes a part of the Unified Buffer that pipe MTE2 writes",
        "again",
        ONE + "    DataCopy(t, x, 64);\n    DataCopy(t, x[64], 64);  // again",
    ),
    # caches, other cores, the rest
    "never_written_back": (
        "cache",
        "no DataCacheCleanAndInvalid writes it back",
        "SetValue(",
        "    z.SetValue(0, 1);",
    ),
    "store_of_nothing": (
        "uninitialised",
        "pipe MTE3 reads a part of the Unified Buffer that nothing has written",
        "DataCopy(y",
        ONE + "    DataCopy(y, t, 64);",
    ),
    "sync_of_some": (
        "deadlock",
        "every core waits for another",
        "SyncAll(",
        "    if (GetBlockIdx() == 0) CrossCoreWaitFlag(3);\n    SyncAll();",
    ),
    "wait_across_cores": (
        "deadlock",
        "every core waits for another",
        "CrossCoreWaitFlag(",
        "    CrossCoreWaitFlag(3);",
    ),
    "cross_core_mode": (
        "sync",
        "CrossCoreSetFlag of mode 2 needs cube cores",
        "CrossCoreSetFlag<",
        "    CrossCoreSetFlag<2, PIPE_MTE3>(0);",
    ),
    "trapped": ("trap", "the kernel called Trap", "Trap(", "    Trap();"),
}
SOURCE = unit({name: case[3] for name, case in WRONG.items()})


@pytest.mark.parametrize("name", WRONG)
def test_wrong_program_is_refused(name):
    kind, message, where, _ = WRONG[name]
    report, _ = call(SOURCE, name, blocks=2, late_types=True, write_x=False)
    assert len(report.faults) == 1
    fault = report.faults[0]
    assert (fault.kind, message in fault.message) == (kind, True), fault
    expected = line_of(SOURCE, name, where)
    # a core that waits is reported where it waits
    assert fault.line == expected or name == "sync_of_some", fault


def test_there_are_enough_wrong_programs():
    assert len(WRONG) >= 40
    assert {case[0] for case in WRONG.values()} >= {
        *("type", "alignment", "count", "mask", "overlap", "bounds", "budget", "queue", "flag"),
        *("deadlock", "hazard", "cache", "uninitialised", "sync", "trap"),
    }


MANY = unit({"meet": "    SyncAll();", "spin": "    for (volatile int i = 0; i < 1;) {\n    }"})


def test_more_blocks_than_cores_cannot_meet():
    report, _ = call(MANY, "meet", blocks=49)
    assert report.faults[0].kind == "cores"
    assert "SyncAll with 49 blocks on 48 cores" in report.faults[0].message
    assert call(MANY, "meet", blocks=48)[0].ok


def test_a_kernel_that_does_not_end_is_stopped():
    report, _ = call(MANY, "spin", seconds=0.5)
    assert report.faults[0].kind == "timeout"


OLD = unit(
    {
        "pad": TENSOR.format(bytes=4096)
        + "    auto t = buffer.Get<float>();\n"
        + "    DataCopyExtParams ext(1, 32, 0, 0, 0);\n"
        + "    DataCopyPad(t, x, ext, DataCopyPadExtParams<float>(false, 0, 0, 0));",
        "cast": ONE
        + "    auto u = t[512].ReinterpretCast<int32_t>();\n"
        + "    Cast(u, t, RoundMode::CAST_RINT, 64);",
        "atomic_max": "    SetAtomicMax<float>();",
        "atomic_i32": "    SetAtomicAdd<int32_t>();",
        "meet": "    SyncAll();",
    }
)


@pytest.mark.parametrize(
    ("name", "blocks", "kind", "message"),
    [
        ("pad", 1, "type", "architecture 2002 has no DataCopyPad"),
        ("cast", 1, "type", "Cast does not take float to int32_t on architecture 2002"),
        ("atomic_max", 1, "type", "architecture 2002 has SetAtomicAdd alone"),
        ("atomic_i32", 1, "type", "SetAtomicAdd does not take int32_t on architecture 2002"),
        ("meet", 9, "cores", "SyncAll with 9 blocks on 8 cores"),
    ],
)
def test_310p_has_less(name, blocks, kind, message):
    report, _ = call(OLD, name, arch="310p", blocks=blocks, late_types=True)
    fault = report.faults[0]
    assert (fault.kind, fault.message[: len(message)]) == (kind, message)


BAD_TYPES = HEAD + (
    'extern "C" __global__ __aicore__ void bad(GM_ADDR a) {\n'
    "    LocalTensor<uint32_t> t(TPosition::VECCALC, 0, 64);\n"
    "    Add(t, t, t, 64);\n"
    "    static_cast<void>(a);\n"
    "}\n"
)


@pytest.mark.parametrize("compiler", EACH_COMPILER)
def test_compilers_refuse_element_types(compiler):
    with pytest.raises(ShimBuildError, match="does not take this element type") as caught:
        library(BAD_TYPES, arch=2201, compiler=compiler)
    assert "kernel.cpp:6" in str(caught.value)


def test_a_select_needs_room_of_its_own():
    body = (
        TENSOR.format(bytes=192 * 1024 - 256)
        + "    auto t = buffer.Get<float>();\n"
        + "    auto m = t[512].ReinterpretCast<uint8_t>();\n"
        + "    Select(t, m, t, t, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);"
    )
    report, _ = call(unit({"full": body}), "full", reserve=False)
    assert report.faults[0].kind == "budget"
    assert "Select of this mode needs 8192 bytes" in report.faults[0].message


def test_orders_and_sites_must_exist():
    with pytest.raises(ValueError, match="no order is called `sideways`"):
        call(MANY, "meet", order="sideways")
    with pytest.raises(ValueError, match="no `__global__ void` function"):
        run("int x;", arch="910b", arrays=[], launch_block=b"", blocks=1)
