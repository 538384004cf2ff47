"""The verifier: each rule broken once, every fault reported, no crash on any input."""

import dataclasses
import random
import time

import pytest

from hetir.ir import ops
from hetir.ir.binary import decode, encode
from hetir.ir.build import Builder, IllFormedError
from hetir.ir.canonical import content_hash
from hetir.ir.core import Function, Kernel, Module, Operation, Options, Param, Region, Value
from hetir.ir.fields import MAX_CALLERS, MAX_NESTING
from hetir.ir.text import parse_module, print_module
from hetir.ir.types import BOOL, F32, I32, I64, ArrayType, RefType, Scalar, array
from hetir.ir.verify import ManyFaultsError, faults, verify
from hetir.source import Loc
from tests.property.random_ir import random_module

HEAD = (
    "kernel k(%a: f32 from 0, %b: i32 from 1, %n: i64 from 2, %p: bool from 3,"
    " %x: array<f32[?], global> from 4, %c: array<f32[?], constant> from 5) {\n"
)
TAIL = "\n}\n"
FUNCTION = "func f(%v: f32) -> f32 {\n return %v\n}\n"


def messages(text):
    return [error.message for error in faults(parse_module(text))]


# the body of a kernel, and the one fault in it
BODIES = [
    ("%z: f32 = add %a, %b\nreturn", "`add` needs operands of one type, got `f32` and `i32`"),
    ("%z: f32 = add %a\nreturn", "`add` takes 2 operands, got 1"),
    ("%z: i32 = add %a, %a\nreturn", "`add` gives `f32`, not `i32`"),
    ("add %a, %a\nreturn", "`add` gives `f32`, not nothing"),
    ("%z: f32 = sqrt %b\nreturn", "operand 0 of `sqrt` must be a float, got `i32`"),
    ("%z: bool = and %a, %a\nreturn", "operand 0 of `and` must be a bool or integer, got `f32`"),
    ("%z: i64 = global_id\nreturn", "`global_id` needs the attribute `axis`"),
    ("%z: i64 = global_id axis=3\nreturn", "`global_id` takes no operands and an axis of 0 to 2"),
    ("%z: i64 = global_id axis=x\nreturn", "`axis` of `global_id` must be int"),
    ("%z: i64 = global_id axis=true\nreturn", "`axis` of `global_id` must be int"),
    ("%z: i64 = lane_id axis=0\nreturn", "`lane_id` has no attribute `axis`"),
    ("barrier scope=system\nreturn", "`scope` of `barrier` must be one of"),
    ("%z: i64 = bitcast %a\nreturn", "`bitcast` needs types of one width, got `f32` and `i64`"),
    ("%z: i32 = const bits=-1\nreturn", "the bits of `const` do not fit `i32`"),
    ("%z: i32 = const bits=4294967296\nreturn", "the bits of `const` do not fit `i32`"),
    ("%z: f32 = load %x\nreturn", "takes 1 `i64` indices, got none"),
    ("%z: f32 = load %x, %b\nreturn", "takes 1 `i64` indices, got `i32`"),
    ("%z: i32 = load %x, %n\nreturn", "`load` gives `f32`, not `i32`"),
    ("%z: f32 = load %x, %n element=f32\nreturn", "`element` belongs to an access through"),
    ("%r: ref<global> = base %x\n%z: f32 = load %r, %n\nreturn", "needs the attribute `element`"),
    ("store %x, %n, %b\nreturn", "`store` takes 1 values of type `f32`, got `i32`"),
    ("store %c, %n, %a\nreturn", "`store` cannot write constant memory"),
    ("store %a, %n, %a\nreturn", "operand 0 of `store` must be an array, got `f32`"),
    ("%z: i64 = dim %x axis=1\nreturn", "`array<f32[?], global>` has no axis 1"),
    ("%z: i64 = dim %a axis=0\nreturn", "`dim` takes one array"),
    (
        "%v: array<f32[?], global> = view %x, %n, %n steps=[2]\n%r: ref<global> = base %v\nreturn",
        "`base` takes a parameter or the result of `alloc`",
    ),
    ("%v: array<f32[?], global> = view %x, %n steps=[1]\nreturn", "start and count"),
    ("%v: array<f32[?], global> = view %x steps=[]\nreturn", "an array and one step an axis"),
    (
        "%v: array<f32[], global> = view %x, %n steps=[a]\nreturn",
        "steps of `view` must be integers",
    ),
    ("%s: array<f32[4], global> = alloc\nreturn", "`alloc` makes shared or private arrays"),
    ("%s: array<f32[?], shared> = alloc\nreturn", "`alloc` needs a static shape"),
    (
        "%s: array<f32[4], shared> = alloc\n%t: array<f32[4], shared> = select %p, %s, %s\nreturn",
        "`select` cannot choose between arrays of `shared` memory",
    ),
    (
        "%s: array<f32[4], private> = alloc\n"
        "%t: array<f32[4], private> = if %p {\n yield %s\n} else {\n return\n}\nreturn",
        "`yield` cannot carry `array<f32[4], private>`",
    ),
    (
        "%z: f32 = atomic.rmw %x, %n, %a kind=and order=relaxed scope=device\nreturn",
        "`atomic.rmw` and needs an integer, got `f32`",
    ),
    (
        "%z: f32 = atomic.load %x, %n order=release scope=device\nreturn",
        "`order` of `atomic.load` must be one of relaxed, acquire, seq_cst",
    ),
    ("%z: f32 = subgroup_reduce %a, %p kind=xor\nreturn", "xor needs a bool or integer, got `f32`"),
    ('print %a format="none"\nreturn', "`print` has 0 places in its format for 1 operands"),
    ('print %x format="{}"\nreturn', "`print` takes scalars"),
    ('safe_point id="s"\nsafe_point id="s"\nreturn', "two safe points are called `s`"),
    # structure
    ("", "a region must end in a terminator"),
    ("%z: f32 = neg %a", "a region must end in a terminator"),
    ("return\nreturn", "`return` must be the last op of its region"),
    ("return %a", "`return` must carry nothing here, got `f32`"),
    ("yield", "`yield` outside of a loop or `if`"),
    ("break", "`break` outside of a loop"),
    ("continue", "`continue` outside of a loop"),
    ("if %p {\n break\n} else {\n yield\n}\nreturn", "`break` outside of a loop"),
    ("if %a {\n yield\n} else {\n yield\n}\nreturn", "`if` takes one `bool`, got `f32`"),
    ("if %p {\n yield\n}\nreturn", "`if` takes 2 regions, got 1"),
    ("%z: f32 = neg %a {\n return\n}\nreturn", "`neg` takes 0 regions, got 1"),
    (
        "%z: f32 = if %p {\n yield %a\n} else {\n yield\n}\nreturn",
        "`yield` must carry `f32` here, got nothing",
    ),
    (
        "if %p (%y: f32) {\n yield\n} else {\n yield\n}\nreturn",
        "the arguments of the region must be nothing",
    ),
    (
        "%z: f32 = if %p {\n return\n} else {\n return\n}\nreturn",
        "an `if` whose regions both leave has no results",
    ),
    (
        "if %p {\n return\n} else {\n return\n}\n%z: f32 = neg %a\nreturn",
        "only a terminator can follow an `if` whose regions both leave",
    ),
    (
        "for %n, %n, %n (%i: i64) {\n if %p {\n  break\n } else {\n  break\n }\n yield\n}\nreturn",
        "`yield` cannot follow an `if` whose regions both leave",
    ),
    ("for %n, %n (%i: i64) {\n yield\n}\nreturn", "`for` takes start, stop and step as `i64`"),
    (
        "for %n, %n, %n (%i: i32) {\n yield\n}\nreturn",
        "the arguments of the region must be `i64`",
    ),
    (
        "%z: f32 = for %n, %n, %n, %a (%i: i64, %y: f32) {\n yield\n}\nreturn",
        "`yield` must carry `f32` here, got nothing",
    ),
    (
        "for %n, %n, %n, %a (%i: i64, %y: f32) {\n yield %y\n}\nreturn",
        "`for` gives `f32`, not nothing",
    ),
    (
        "%z: i32 = loop %a (%y: f32) {\n break %y\n}\nreturn",
        "`break` must carry `i32` here, got `f32`",
    ),
    (
        "%z: i32 = loop %a (%y: f32) {\n continue %b\n}\nreturn",
        "`continue` must carry `f32` here, got `i32`",
    ),
    (
        "if %p {\n %z: f32 = neg %a\n yield\n} else {\n yield\n}\n%y: f32 = neg %z\nreturn",
        "`%z` is used outside the region that defines it",
    ),
    # calls
    ('%z: f32 = call %a callee="g"\nreturn', "`call` of `g`, which is not a function of the"),
    ('%z: f32 = call %b callee="f"\nreturn', "`f` takes `f32`, got `i32`"),
    ('%z: i32 = call %a callee="f"\nreturn', "`call` gives `f32`, not `i32`"),
    ('call %a callee="f" extra=1\nreturn', "`call` has no attribute `extra`"),
]


@pytest.mark.parametrize(("body", "message"), BODIES)
def test_one_fault_in_a_body(body, message):
    (found,) = messages(FUNCTION + HEAD + body + TAIL)
    assert message in found


MODULES = [
    ("kernel k() {\n return\n}\nkernel k() {\n return\n}", "kernels or functions are called `k`"),
    ("func k() {\n return\n}\nkernel k() {\n return\n}", "kernels or functions are called `k`"),
    ("func f() -> f32 {\n return\n}", "`return` must carry `f32` here, got nothing"),
    (
        'func f() {\n call callee="g"\n return\n}\nfunc g() {\n call callee="f"\n return\n}',
        "recursion: `g` calls `f`",
    ),
    ('func f() {\n call callee="f"\n return\n}', "recursion: `f` calls `f`"),
    ("kernel k() subgroup_size=3 {\n return\n}", "the option `subgroup_size` cannot be `3`"),
    ("kernel k() math=fast {\n return\n}", "the option `math` cannot be `'fast'`"),
    ("kernel k() debug=1 {\n return\n}", "the option `debug` cannot be `1`"),
    ("kernel k(%x: f32 from 0, %y: f32 from 0) {\n return\n}", "type `f32` have one source"),
    ("kernel k(%x: f32 from -1) {\n return\n}", "a source is a parameter's position"),
    ("kernel k(%x: ref<global> from 0) {\n return\n}", "a parameter of a kernel cannot be `ref"),
    ("kernel k(%x: array<f32[4], shared> from 0) {\n return\n}", "parameter of a kernel cannot be"),
    ("kernel k(%x: array<f32[?], local> from 0) {\n return\n}", "unknown space `'local'`"),
    ("kernel k(%x: array<f32[?:1, ?], global> from 0) {\n return\n}", "1 on the last axis"),
    ("kernel k(%x: array<f32[?:7], global> from 0) {\n return\n}", "known strides are 0, or 1"),
    ("kernel k(%x: array<f32[?], global, align 3> from 0) {\n return\n}", "a power of two or 0"),
    ("kernel k(%x: array<f32[?,?,?,?,?,?,?], global> from 0) {\n return\n}", "0 to 6 dimensions"),
]


@pytest.mark.parametrize(("text", "message"), MODULES)
def test_one_fault_in_a_module(text, message):
    (found,) = messages(text)
    assert message in found


WELL_FORMED = [
    "kernel k(%x: f32 from 0, %y: i32 from 0) {\n return\n}",  # one source, unlike types
    "kernel k(%p: bool from 0) {\n if %p {\n  return\n } else {\n  return\n }\n return\n}",
    "kernel k(%p: bool from 0) {\n loop {\n  if %p {\n   break\n  } else {\n   continue\n  }\n"
    "  return\n }\n return\n}",
    "kernel k(%x: array<f32[?], global> from 0, %n: i64 from 1) {\n"
    " %y: array<f32[?], global> = for %n, %n, %n, %x (%i: i64, %z: array<f32[?], global>) {\n"
    "  %w: array<f32[?], global> = view %z, %n, %n steps=[2]\n  yield %w\n }\n return\n}",
    "func f(%s: array<f32[4], shared>) {\n return\n}\n"
    'kernel k() {\n %s: array<f32[4], shared> = alloc\n call %s callee="f"\n return\n}',
]


@pytest.mark.parametrize("text", WELL_FORMED)
def test_well_formed(text):
    assert messages(text) == []


def test_random_modules_are_well_formed_and_use_every_op():
    used = set()
    for seed in range(150):
        module = random_module(seed)
        assert faults(module) == ()
        used |= {
            line.split(" = ")[-1].split()[0] for line in print_module(module).split("\n") if line
        }
    assert set(ops.TABLE) <= used


def kernel(*body, params=(), **rest):
    return Kernel(name="k", params=params, body=Region((), body), **rest)


RETURN = Operation(ops.RETURN)


def one(item):
    (error,) = faults(item)
    return error.message


def test_every_fault_is_reported_with_its_place():
    here = Loc("kernel.py", 3, 4, 3, 9)
    a, b = Value(F32, "a"), Value(I32, "b")
    bad = Operation(ops.ADD, (a, b), (Value(F32),), loc=here)
    worse = Operation(ops.NEG, (a, a), (Value(F32),))
    k = kernel(bad, worse, Operation(ops.BREAK), params=(Param(a, (0,)), Param(b, (1,))))
    with pytest.raises(ManyFaultsError) as caught:
        verify(k)
    first, second, third = caught.value.faults
    assert first.labels[0].loc == here
    assert second.message == "`neg` takes 1 operands, got 2, at op 1 (`neg`) of `k`"
    assert third.message == "`break` outside of a loop, at op 2 (`break`) of `k`"
    shown = str(caught.value)
    assert shown.count("error[HET101]") == 3
    assert "kernel.py:3:5" in shown


def test_a_single_fault_is_raised_itself():
    with pytest.raises(IllFormedError) as caught:
        verify(kernel())
    assert not isinstance(caught.value, ManyFaultsError)


def test_position_in_nested_regions():
    p = Value(BOOL)
    inner = Region((), (Operation(ops.NEG, (p,), (Value(BOOL),)), Operation(ops.YIELD)))
    other = Region((), (Operation(ops.YIELD),))
    branch = Operation(ops.IF, (p,), regions=(other, inner))
    assert one(kernel(branch, RETURN, params=(Param(p, (0,)),))).endswith(
        "at op 0.0 (`neg`) of `k`"
    )


def test_values_and_operations_stand_in_one_place():
    a = Value(F32, "a")
    twice = [Operation(ops.CONST, (), (a,), {"type": F32, "bits": 0}) for _ in range(2)]
    assert "`%a` is defined twice" in one(kernel(*twice, RETURN))
    fence = Operation(ops.FENCE, attrs={"order": "acquire", "scope": "device"})
    assert "one `fence` stands in two places" in one(kernel(fence, fence, RETURN))
    assert "`%a` is defined twice" in one(kernel(RETURN, params=(Param(a, (0,)), Param(a, (1,)))))


def test_use_before_definition():
    a, b = Value(F32, "a"), Value(F32, "b")
    use = Operation(ops.NEG, (a,), (b,))
    define = Operation(ops.CONST, (), (a,), {"type": F32, "bits": 0})
    assert "`%a` is used before its definition" in one(kernel(use, define, RETURN))
    loop = Operation(ops.NEG, (b,), (b,))
    assert "`%b` is used before its definition" in one(kernel(loop, RETURN))


def test_a_kernel_alone_has_no_functions_to_call():
    call = Operation(ops.CALL, attrs={"callee": "f"})
    assert "not a function of the module" in one(kernel(call, RETURN))


GARBAGE = (
    None,
    0,
    1,
    -1,
    True,
    1.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    b"x",
    (),
    (1,),
    ((),),
    [],
    {},
)
GARBAGE += (10**5000, object(), F32, I64, array(F32, 1), RefType("nowhere"), ops.ADD, RETURN)
GARBAGE += (Scalar("f99", "float", 99), Scalar(3, None, "x"), ArrayType(3, "x", [], 7), Options())
GARBAGE += (Value(F32), Value(3, 4), Region((), ()), Loc("a\0", 1, 1, 1, 1), Loc("a", -1, 0, "", 1))


@pytest.mark.parametrize("garbage", GARBAGE, ids=[str(i) for i in range(len(GARBAGE))])
def test_garbage_in_every_field(garbage):
    a = Value(F32, "a")
    good = Operation(ops.NEG, (a,), (Value(F32),), loc=Loc("a.py", 1, 1, 1, 1))
    function = Function(name="f", params=(), results=(), body=Region((), (RETURN,)))
    for name in ("spec", "operands", "results", "attrs", "regions", "loc"):
        for value in (garbage, (garbage,), {"x": garbage}):
            check(
                kernel(dataclasses.replace(good, **{name: value}), RETURN, params=(Param(a, (0,)),))
            )
    for unit in (kernel(good, RETURN, params=(Param(a, (0,)),)), function):
        for field in dataclasses.fields(unit):
            for value in (garbage, (garbage,)):
                bad = dataclasses.replace(unit, **{field.name: value})
                check(Module(kernels=(bad,)) if unit is not function else Module(functions=(bad,)))
    for field in dataclasses.fields(Options):
        check(kernel(RETURN, options=dataclasses.replace(Options(), **{field.name: garbage})))
    for value in (garbage, (garbage,)):
        check(Module(kernels=value))
        check(Module(functions=value))
        check(kernel(RETURN, params=(Param(value, (0,)),)))
        check(kernel(RETURN, params=(Param(a, value),)))
    check(garbage)


def check(item):
    """The verifier answers; what it accepts, everything else can take."""
    found = faults(item)
    assert all(isinstance(error, IllFormedError) and str(error) for error in found)
    if found:
        with pytest.raises(IllFormedError):
            verify(item)
        return
    verify(item)
    module = Module(kernels=(item,)) if isinstance(item, Kernel) else item
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    assert print_module(decode(encode(module))) == text
    content_hash(module)


def mutate(thing, rng):
    """A copy of a tree of dataclasses and tuples with one place changed."""
    roll = rng.random()
    if isinstance(thing, tuple) and thing and roll < 0.95:
        index = rng.randrange(len(thing))
        if roll < 0.7:
            new = mutate(thing[index], rng)
            return (*thing[:index], new, *thing[index + 1 :])
        if roll < 0.8:
            return thing[:index] + thing[index + 1 :]
        return (*thing[:index], rng.choice(thing), *thing[index:])
    if dataclasses.is_dataclass(thing) and not isinstance(thing, ops.Spec) and roll < 0.98:
        field = rng.choice(dataclasses.fields(thing))
        return dataclasses.replace(thing, **{field.name: mutate(getattr(thing, field.name), rng)})
    if isinstance(thing, ops.Spec) and roll < 0.9:
        return rng.choice(list(ops.TABLE.values()))
    if isinstance(thing, int) and roll < 0.7:
        return thing + rng.choice((-1, 1))
    return rng.choice(GARBAGE)


def test_random_mutations():
    rng = random.Random(1)
    faulty = 0
    for seed in range(60):
        module = random_module(seed, 12)
        for _ in range(25):
            try:
                changed = mutate(module, rng)
            except TypeError:  # a type that cannot even be built
                continue
            check(changed)
            faulty += bool(faults(changed))
    assert faulty > 500


def nested(depth):
    p = Value(BOOL, "p")
    body = (Operation(ops.RETURN),)
    for level in range(depth):
        other = Region((), (Operation(ops.YIELD),))
        branch = Operation(ops.IF, (p,), regions=(Region((), body), other))
        body = (branch, Operation(ops.RETURN if level == depth - 1 else ops.YIELD))
    return kernel(*body, params=(Param(p, (0,)),))


def test_deep_nesting():
    check(nested(MAX_NESTING - 1))
    for depth in (MAX_NESTING, 20 * MAX_NESTING):
        then, other = faults(nested(depth))
        assert f"regions are nested deeper than {MAX_NESTING}" in then.message
        assert then.message == other.message


def test_shared_regions_do_not_explode():
    p = Value(BOOL, "p")
    region = Region((), (Operation(ops.YIELD),))
    for _ in range(MAX_NESTING - 2):
        branch = Operation(ops.IF, (p,), regions=(region, region))
        region = Region((), (branch, Operation(ops.YIELD)))
    last = Operation(ops.IF, (p,), regions=(region, region))
    assert len(faults(kernel(last, RETURN, params=(Param(p, (0,)),)))) < 10 * MAX_NESTING


def test_long_chains_of_callers_and_calls():
    loc = None
    for _ in range(5000):
        loc = Loc("a.py", 1, 0, 1, 1, loc)
    assert f"more than {MAX_CALLERS} callers" in one(kernel(Operation(ops.RETURN, loc=loc)))
    functions = tuple(
        Function(
            name=f"f{i}",
            params=(),
            results=(),
            body=Region(
                (),
                (
                    Operation(ops.CALL, attrs={"callee": f"f{(i + 1) % 3000}"}),
                    Operation(ops.RETURN),
                ),
            ),
        )
        for i in range(3000)
    )
    assert "recursion: `f2999` calls `f0`" in one(Module(functions=functions))


def test_ten_thousand_ops_are_no_trouble():
    """A hundred times what it takes: only a cost that is not linear goes past it."""
    a, b = Value(F32, "a"), Builder(Loc("a.py", 1, 0, 1, 1))
    x = a
    for index in range(5000):
        x = b.value(ops.MUL, b.const(F32, index / 7), x)
    s = Value(array(F32, 0), "s")
    b.emit(ops.STORE, s, x)
    b.emit(ops.RETURN)
    k = Kernel(name="k", params=(Param(a, (0,)), Param(s, (1,))), body=b.region())
    start = time.process_time()
    verify(k)
    print_module(Module(kernels=(k,)))
    content_hash(k)
    assert time.process_time() - start < 30
