"""`@hetir.kernel`: arguments, specialisation, options, methods, and what is refused."""

import functools
import gc
import subprocess
import sys
import weakref
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest

import hetir
import hetir.lang as hl
from hetir.diagnostics import HetirError

DEVICES = ("cpu", "emulator")


@hetir.kernel
def scale(x, factor, y):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] * factor


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_python_number_loses_nothing_beside_an_array(dtype, device):
    x = np.arange(5).astype(dtype)
    y = np.empty_like(x)
    scale.launch((x, 0.1, y), grid=1, workgroup=8, device=device).wait()
    assert (y == x * dtype(0.1)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_one_number_used_as_two_types(device):
    @hetir.kernel
    def both(a, narrow, wide):
        narrow[0] = narrow[0] * a
        wide[0] = wide[0] * a

    narrow, wide = np.ones(1, np.float32), np.ones(1, np.float64)
    both.launch((0.1, narrow, wide), grid=1, workgroup=1, device=device).wait()
    assert narrow[0] == np.float32(0.1)
    assert wide[0] == 0.1


class Body(NamedTuple):
    position: object
    mass: float


class Pair(NamedTuple):
    first: Body
    second: Body


@pytest.mark.parametrize("device", DEVICES)
def test_nested_named_tuples(device):
    @hetir.kernel
    def force(pair, out):
        i = hl.local_id(0)
        distance = pair.second.position[i] - pair.first.position[i]
        out[i] = distance * (pair.first.mass * pair.second.mass)

    a, b, out = np.arange(3.0), np.arange(3.0) * 5, np.zeros(3)
    pair = Pair(Body(a, 2.0), Body(b, 3.0))
    force.launch((pair, out), grid=1, workgroup=3, device=device).wait()
    assert (out == (b - a) * 6).all()


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @hetir.kernel
    def apply(self, x):
        i = hl.global_id(0)
        if i < x.size:
            x[i] *= self.factor


@pytest.mark.parametrize("device", DEVICES)
def test_methods_take_their_object_as_a_constant(device):
    x = np.ones(4, np.float32)
    three, five = Scaler(3), Scaler(5)
    for scaler in (three, five, three):
        scaler.apply.launch((x,), grid=1, workgroup=4, device=device).wait()
    assert (x == 45).all()
    three.factor = 2
    three.apply[1, 4](x)
    assert (x == 90).all()


def test_static_parameters_make_specialisations():
    @hetir.kernel
    def fill(x, n: hl.static):
        for j in hl.static_range(n):
            x[j] = j + 1

    x = np.zeros(4, np.int32)
    fill[1, 1](x, 2)
    assert x.tolist() == [1, 2, 0, 0]
    fill[1, 1](x, 4)
    assert x.tolist() == [1, 2, 3, 4]
    assert len(fill.specialisations) == 2


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), (True, 1.0)])
def test_equal_hash_statics_are_kept_apart(one, other):
    @hetir.kernel
    def put(x, value: hl.static):
        x[0] = 1 / (value + hl.f32(0)) if isinstance(value, float) else hl.cast(value, hl.f32) / 2

    got = []
    for value in (one, other):
        x = np.zeros(1, np.float32)
        with np.errstate(all="ignore"):
            put[1, 1](x, value)
        got.append(x[0])
    assert len(put.specialisations) == 2


SCALE = 2.0


def doubled(x):
    return x * SCALE


def test_a_changed_global_or_helper_recompiles(monkeypatch):
    @hetir.kernel
    def use(x):
        x[0] = doubled(x[0])

    x = np.ones(1)
    use[1, 1](x)
    assert x[0] == 2
    monkeypatch.setattr(f"{__name__}.SCALE", 5.0)
    use[1, 1](x)
    assert x[0] == 10
    monkeypatch.setattr(f"{__name__}.doubled", lambda_free)
    use[1, 1](x)
    assert x[0] == 11


def lambda_free(x):
    return x + 1


@pytest.mark.parametrize("device", DEVICES)
def test_print_shows_lines_in_order_of_work_items(capfd, device):
    @hetir.kernel
    def tell(x):
        i = hl.global_id(0)
        hl.print("item {} has {}", i, x[i])

    tell.launch(
        (np.array([0.5, -1.0, 3.0], np.float32),), grid=3, workgroup=1, device=device
    ).wait()
    assert capfd.readouterr().out == "item 0 has 0.5\nitem 1 has -1.0\nitem 2 has 3.0\n"


def executable():
    """Every device of this machine and every emulator, but those whose targets print nothing."""
    found = [device.name for device in hetir.runtime.devices(emulated=True)]
    return [name for name in found if not name.startswith("ascend")]


@pytest.mark.parametrize("device", executable())
def test_print_names_work_items_on_request_and_keeps_launches_apart(capfd, device):
    @hetir.kernel
    def tell(x, n: hl.static):
        hl.print("{} of {}", x[0], n)
        if hl.local_id(0) == 1:
            hl.print("again")

    x = np.array([7], np.int32)
    first = tell.launch((x, 1), grid=(1, 2), workgroup=2, device=device)
    second = tell.launch((x, 2), grid=1, workgroup=1, device=device)
    second.wait()
    assert capfd.readouterr().out.endswith("7 of 2\n")
    hetir.print_items()
    try:
        first.wait()
        tell.launch((x, 3), grid=(1, 2), workgroup=2, device=device).wait()
    finally:
        hetir.print_items(False)
    lines = capfd.readouterr().out.splitlines()
    assert lines[-6:] == [
        "workgroup (0, 0, 0), item (0, 0, 0): 7 of 3",
        "workgroup (0, 0, 0), item (1, 0, 0): 7 of 3",
        "workgroup (0, 0, 0), item (1, 0, 0): again",
        "workgroup (0, 1, 0), item (0, 0, 0): 7 of 3",
        "workgroup (0, 1, 0), item (1, 0, 0): 7 of 3",
        "workgroup (0, 1, 0), item (1, 0, 0): again",
    ]


@pytest.mark.parametrize("device", executable())
def test_an_assertion_names_work_item_line_and_kernel_on_every_device(device):
    @hetir.kernel(debug=True)
    def sorted_pairs(x):
        i = hl.global_id(0)
        hl.assert_(x[i] <= x[i + 1], "x must rise")  # noqa: PT009

    rising = np.arange(5, dtype=np.int32)
    sorted_pairs.launch((rising,), grid=2, workgroup=2, device=device).wait()
    bad = np.array([0, 1, 2, 5, 4], np.int32)
    launch = sorted_pairs.launch((bad,), grid=2, workgroup=2, device=device)
    with pytest.raises(HetirError, match="x must rise") as caught:
        launch.wait()
    text = str(caught.value)
    assert "hl.assert_(x[i] <= x[i + 1]" in text
    named = "work-item (3, 0, 0)" if device == "emulator" else "work-item 1 of workgroup 1"
    assert named in text
    assert "sorted_pairs" in text
    launch.wait()  # raised once
    assert launch.error is caught.value
    sorted_pairs.launch((rising,), grid=2, workgroup=2, device=device).wait()


@pytest.mark.parametrize("device", DEVICES)
def test_debug_names_line_index_and_work_item(device):
    @hetir.kernel(debug=True)
    def past(x):
        x[hl.global_id(0) + 1] = 0

    x = np.ones(4)
    with pytest.raises(HetirError) as caught:
        past.launch((x,), grid=1, workgroup=4, device=device).wait()
    text = str(caught.value)
    assert "x[hl.global_id(0) + 1] = 0" in text
    assert "out of bounds" in text
    assert "(4)" in text or "(4,)" in text or "index 4" in text
    assert x.tolist() == [1, 0, 0, 0]
    scale[1, 4](x, 2.0, x)  # the device stays usable


@pytest.mark.parametrize("device", DEVICES)
def test_failed_assertion_names_its_line(device):
    @hetir.kernel(debug=True)
    def positive(x):
        i = hl.global_id(0)
        hl.assert_(x[i] > 0, "x must be positive")  # noqa: PT009

    good, bad = np.ones(4), np.array([1, 2, -3, 4.0])
    positive.launch((good,), grid=1, workgroup=4, device=device).wait()
    with pytest.raises(HetirError, match="x must be positive"):
        positive.launch((bad,), grid=1, workgroup=4, device=device).wait()


def test_a_failed_launch_names_its_kernel_and_line():
    """More private memory than a machine gives, as a driver would find out."""
    made = hetir.compile(scale, "f64[:], f64, f64[:]", target="cpu")
    crowded = replace(made, resources=replace(made.resources, item_bytes=1 << 30))
    program = hetir.device("cpu").load(crowded, ("x", "factor", "y"))
    x = np.ones(1)
    launch = program.launch((x, 3.0, x), grid=2, workgroup=4096)
    with pytest.raises(HetirError, match=r"kernel `scale` failed: .*no memory") as caught:
        launch.wait()
    assert "def scale(x, factor, y):" in str(caught.value)
    launch.wait()
    for grid in (1, 2):
        with pytest.raises(HetirError, match="kernel `scale` failed") as caught:
            program.run((x, 3.0, x), grid, 4096)
        assert "def scale(x, factor, y):" in str(caught.value)
    scale[1, 1](x, 3.0, x)
    assert x.tolist() == [3]


REFUSED = {
    "no launch shape": (lambda x: scale(x, 1.0, x), "has no grid"),
    "one extent": (lambda x: scale[1](x, 1.0, x), "takes grid and workgroup"),
    "missing argument": (lambda x: scale[1, 1](x, 1.0), "missing a required argument"),
    "unknown name": (lambda x: scale[1, 1](x, 1.0, y=x, z=x), "unexpected keyword argument"),
    "text": (lambda x: scale[1, 1]("x", 1.0, x), "cannot be a `str`"),
    "none": (lambda x: scale[1, 1](None, 1.0, x), "cannot be a `NoneType`"),
    "complex": (lambda x: scale[1, 1](x.astype(complex), 1.0, x), "complex128"),
    "objects": (lambda x: scale[1, 1](x.astype(object), 1.0, x), "object"),
    "large workgroup": (lambda x: scale[1, 1 << 20](x, 1.0, x), "work-items"),
    "negative grid": (lambda x: scale[-1, 1](x, 1.0, x), "at least 0"),
    "fractional grid": (lambda x: scale[1.5, 1](x, 1.0, x), "one to three integers"),
    "four extents": (lambda x: scale[(1, 1, 1, 1), 1](x, 1.0, x), "one to three integers"),
    "device": (lambda x: scale.launch((x, 1.0, x), grid=1, workgroup=1, device="gpu"), "gpu"),
    "read-only": (
        lambda x: scale[1, 1](x, 1.0, np.broadcast_to(np.float64(1), 4)),
        "",
    ),
    "subgroup size": (lambda x: hetir.kernel(subgroup_size=33)(doubled), "power of two"),
    "math": (lambda x: hetir.kernel(math="fast")(doubled), "`math` must be"),
    "signature": (lambda x: scale.hir("f32[:, f32"), ""),
    "unannotated": (lambda x: scale.hir(), "has no type for"),
    "target": (lambda x: hetir.compile(scale, "f32[:], f32, f32[:]", target="z80"), "z80"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_house_errors(name):
    act, text = REFUSED[name]
    with pytest.raises(HetirError) as caught:
        act(np.ones(4))
    assert text in str(caught.value)
    assert str(caught.value).startswith("error[HET")


def test_read_only_arrays_are_fine_where_they_are_read():
    x = np.broadcast_to(np.float64(3), 4)
    y = np.zeros(4)
    scale[1, 4](x, 2.0, y)
    assert (y == 6).all()


def test_unused_and_default_arguments():
    @hetir.kernel
    def odd(unused, x, unused_array, value=7):
        x[0] = value

    x = np.zeros(1)
    odd[1, 1](3, x, np.zeros((2, 2), np.int8))
    assert x[0] == 7
    odd[1, 1](3, x, np.zeros((2, 2), np.int8), 9)
    assert x[0] == 9


def test_compile_gives_an_artifact():
    art = hetir.compile(scale, "f32[::1], f32, f32[::1]", target="cpu:x86-64-v3", workgroup=64)
    assert art.binary[:4] == b"\x7fELF"
    assert art.entry.encode() in art.binary
    assert art.workgroup == (64, 1, 1)
    assert art.reproducible
    assert [(s.source, s.dtype, s.ndim, s.writes) for s in art.layout.slots] == [
        ((0,), "f32", 1, False),
        ((1,), "f32", None, False),
        ((2,), "f32", 1, True),
    ]


def test_a_kernel_that_depends_on_order_says_so():
    @hetir.kernel
    def tickets(count: hl.Array[hl.i32, 1], out: hl.Array[hl.i32, 1]):
        mine = hl.atomic_add(count, 0, 1)
        out[mine] = hl.local_id(0)

    art = hetir.compile(tickets, target="cpu")
    assert not art.reproducible
    assert "old value" in art.irreproducible_reason
    assert f"{__name__.split('.')[-1]}.py:" in art.irreproducible_reason


def test_hir_is_read_back():
    text = scale.hir("f32[::1], f32, f32[::1]")
    module = hetir.parse(text)
    assert module.kernels[0].name == "scale"


def test_shared_memory_past_the_limit_is_an_error_with_both_numbers():
    @hetir.kernel
    def big(x: hl.Array[hl.f32, 1]):
        tile = hl.shared(1 << 20, hl.f32)
        tile[hl.local_id(0)] = x[0]

    with pytest.raises(HetirError) as caught:
        big[1, 1](np.zeros(1, np.float32))
    text = str(caught.value)
    assert "4194304" in text.replace(",", "")
    assert "tile = hl.shared(1 << 20, hl.f32)" in text


def test_a_workgroup_chosen_by_the_model():
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    asked = []

    def grid(workgroup):
        asked.append(workgroup)
        return hetir.cdiv(x.size, workgroup[0])

    scale.launch((x, 2.0, y), grid=grid, workgroup="auto", device="cpu").wait()
    assert (y == x * 2).all()
    # one work-item a workgroup tells the extents, then the choice is asked for
    assert asked[0] == (1, 1, 1)
    assert len(asked) == 2
    assert asked[1][0] in (32, 64, 128, 256, 512, 1024)


def test_a_fixed_grid_may_leave_the_workgroup_open_where_it_does_not_matter():
    @hetir.kernel
    def rows(x):
        for j in range(hl.local_id(0), x.shape[1], hl.group_size(0)):
            x[hl.group_id(0), j] += 1

    @hetir.kernel
    def strided(x):
        for i in range(hl.global_id(0), x.size, hl.global_size(0)):
            x[i // 100, i % 100] += 1

    x = np.zeros((7, 100), np.float32)
    rows.launch((x,), grid=7, workgroup="auto").wait()
    strided.launch((x,), grid=3, workgroup="auto").wait()
    assert (x == 2).all()


def test_a_fixed_grid_that_depends_on_the_workgroup_is_refused():
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    with pytest.raises(HetirError, match=r"grid=lambda w: hetir\.cdiv"):
        scale.launch((x, 2.0, y), grid=1, workgroup="auto")


class Adder:
    def __init__(self, step):
        self.step = step

    @hetir.kernel
    def add(self, x):
        i = hl.global_id(0)
        if i < x.shape[0]:
            x[i] += self.step


def test_methods_are_checked_and_compiled_ahead():
    x = np.zeros(3, np.float32)
    add = Adder(2).add
    assert hetir.check(add, (x,), 1, 4).faults == ()
    assert hetir.check(add, {"x": x}, 1, 4).faults == ()
    assert (x == 0).all()
    assert "%x: array<f32[?], global> from 1" in add.hir("f32[:]")


@hetir.kernel
def shift(x, y):
    i = hl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + 1


def test_check_sees_arrays_that_overlap():
    x = np.arange(11, dtype=np.float32)
    report = hetir.check(shift, (x[:-1], x[1:]), 1, 16)
    assert [fault.code for fault in report.faults] == ["HET602"]
    assert (x == np.arange(11)).all()
    assert hetir.check(shift, (x, x), 1, 16).faults == ()
    assert hetir.check(shift, (x[::-2], np.zeros(0)), 1, 16).faults[0].code == "HET600"


def test_check_keeps_strides():
    @hetir.kernel
    def strides(x):
        hl.print("{} {}", x.strides[0], x.strides[1])
        x[0, 1] = 5

    x = np.zeros((8, 8), np.float32)
    assert tuple(hetir.check(strides, (x[::-2, 1:3],), 1, 1).output) == ("-64 4",)
    assert (x == 0).all()


MISUSE = {
    "compile a function": (lambda x: hetir.compile(print, "f32[:]"), "HET362"),
    "check a function": (lambda x: hetir.check(print, (x,), 1, 1), "HET362"),
    "check with an argument missing": (lambda x: hetir.check(shift, (x,), 1, 1), "HET520"),
    "no work-items": (lambda x: hetir.compile(shift, "f32[:], f32[:]", workgroup=0), "HET404"),
    "an array for the tuple": (lambda x: shift.launch(x, grid=1, workgroup=1), "HET520"),
    "a number as device": (
        lambda x: shift.launch((x, x), grid=1, workgroup=1, device=3),
        "HET500",
    ),
    "device of a number": (lambda x: hetir.device(3), "HET500"),
    "a type that is none": (lambda x: hetir.zeros(3, "x32"), "HET501"),
    "a word as shape": (lambda x: hetir.empty("a"), "HET501"),
    "a kernel twice": (lambda x: hetir.kernel(shift), "HET521"),
    "a kernel of a class": (lambda x: hetir.kernel(int), "HET521"),
    "a decorator below": (lambda x: hetir.kernel(functools.cache(len)), "HET521"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_a_users_error(name):
    act, code = MISUSE[name]
    with pytest.raises(HetirError) as caught:
        act(np.zeros(4, np.float32))
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize("device", DEVICES)
def test_numpy_scalars_convert_to_the_declared_type(device):
    @hetir.kernel
    def both(n: hl.i32, a: hl.f32, y):
        y[0], y[1] = n, a

    y = np.zeros(2)
    for n, a in [(np.int64(5), np.float64(0.1)), (np.uint8(5), np.int64(7)), (5, np.float16(2))]:
        both.launch((n, a, y), grid=1, workgroup=1, device=device).wait()
        assert y.tolist() == [5, float(np.float32(a))]


REFUSED_ARGUMENTS = {
    "out of range": ((300, 1.0), "HET501"),
    "NumPy scalar out of range": ((np.int64(300), 1.0), "HET501"),
    "a fraction": ((1.5, 1.0), "HET501"),
    "NumPy fraction": ((np.float32(1.5), 1.0), "HET202"),
    "an array": ((np.array(5), 1.0), "HET202"),
    "read-only": ((1, 1.0, np.broadcast_to(np.float64(0), 2)), "HET501"),
    "too many dimensions": ((1, 1.0, np.zeros((2, 2))), "HET202"),
}


@pytest.mark.parametrize("name", REFUSED_ARGUMENTS)
def test_launch_and_check_refuse_the_same_arguments(name):
    @hetir.kernel
    def store(n: hl.i8, a: hl.f32, y: hl.Array[hl.f64, 1]):
        y[0] = n + a

    arguments, code = REFUSED_ARGUMENTS[name]
    arguments = (*arguments, np.zeros(2))[:3]
    said = []
    for act in (
        lambda: store[1, 1](*arguments),
        lambda: store.launch(arguments, grid=1, workgroup=1, device="emulator").wait(),
        lambda: hetir.check(store, arguments, 1, 1),
    ):
        with pytest.raises(HetirError) as caught:
            act()
        said.append(str(caught.value))
        assert caught.value.code == code
    assert len(set(said)) == 1


@pytest.mark.parametrize(("grid", "workgroup"), [(-1, 1), (1, 0), (1, 99999), ((1, 1, 1, 1), 1)])
def test_check_refuses_the_shapes_that_a_launch_refuses(grid, workgroup):
    x = np.zeros(4, np.float32)
    with pytest.raises(HetirError):
        shift[grid, workgroup](x, x)
    with pytest.raises(HetirError):
        hetir.check(shift, (x, x), grid, workgroup)


def test_a_new_process_knows_every_device_and_imports_little():
    script = (
        "import sys, numpy\n"
        "import hetir\n"
        "assert not {'llvmlite', 'pyopencl', 'typer', 'rich'} & set(sys.modules)\n"
        "assert hetir.device('emulator').name == 'emulator'\n"
        "assert hetir.device('ptx-emulator').name == 'ptx-emulator'\n"
        "assert 'llvmlite' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@dataclass(frozen=True)
class Setting:
    value: object


@hetir.kernel
def half_of(y, n: hl.static):
    y[0] = (n.value if isinstance(n, Setting) else n[0]) / 2 if n else 0


CHANGES = {
    "a list": (lambda n: n.__setitem__(0, 5), [1], 2.5),
    "a dict": (lambda n: n.__setitem__(0, 5), {0: 1}, 2.5),
    "an array": (lambda n: n.__setitem__(0, 5), np.array([1]), 2.5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_constants_that_change_specialise_again(name):
    change, constant, after = CHANGES[name]
    y = np.zeros(1)
    half_of[1, 1](y, constant)
    assert y[0] == 0.5
    change(constant)
    half_of[1, 1](y, constant)
    assert y[0] == after


def test_equal_constants_of_unlike_types_are_kept_apart():
    @hetir.kernel
    def store(y, n: hl.static):
        y[0] = n.value

    said = []
    for value in (1, True, 1.0):
        store[1, 1](np.zeros(1), Setting(value))
        store[1, 1](np.zeros(1), Setting(value))
        said.append(len(store.specialisations))
    assert said == [1, 2, 3]


def test_objects_of_methods_are_let_go():
    class Scale:
        def __init__(self, by):
            self.by = by

        @hetir.kernel
        def run(self, x):
            x[hl.global_id(0)] *= self.by

    alive, x = [], np.ones(1)
    for by in range(1, 101):
        scale = Scale(by)
        assert scale.run is scale.run
        alive.append(weakref.ref(scale))
    scale.run[1, 1](x)
    assert x[0] == 100
    del scale
    gc.collect()
    assert sum(ref() is not None for ref in alive) <= 32


def test_a_decorator_above_a_kernel_is_named_in_the_error():
    def logged(function):
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments)

        return call

    @logged
    @hetir.kernel(grid=1, workgroup=1)
    def kernel(x):
        x[0] = 7

    x = np.zeros(1)
    kernel(x)
    assert x[0] == 7
    for use in (
        lambda: hetir.compile(kernel, "f64[:]"),
        lambda: hetir.check(kernel, (x,), 1, 1),
    ):
        with pytest.raises(HetirError, match=r"a decorator above `@hetir\.kernel`") as caught:
            use()
        assert "kernel.__wrapped__" in str(caught.value)
    assert "store" in kernel.__wrapped__.hir("f64[:]")
