"""The op table: every op of hetIR, one row each.

Construction, verifier, printer, parser, evaluator, constant folder, the legality of dead
code and common subexpression elimination, docs/ops.md and the kernel generator all read
this table; nothing else lists the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from types import MappingProxyType

import numpy as np

from hetir.ir import numerics
from hetir.ir.core import Attr
from hetir.ir.types import BOOL, F32, I64, SCALARS, ArrayType, RefType, Scalar, Type


class Effect(Flag):
    """What an op may do besides producing its result."""

    PURE = 0
    READ = auto()
    WRITE = auto()
    SYNC = auto()  # waits for, or exchanges with, other work-items: never moved or duplicated


class RuleError(Exception):
    """An operation breaks its row; the verifier and the builder add the place."""


Types = Sequence[Type]
Attrs = Mapping[str, Attr]
Rule = Callable[[Types, Attrs], tuple[Type, ...]]
Evaluate = Callable[..., "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spec:
    """One row.

    `signature` reads "operands -> results" over type classes (see CLASSES; every use of
    one letter is the same type), scalar type names, `array`, `ref` and `...` (the row's
    `rule` says the rest). `attrs` maps a name to its legal values, or to a Python type.
    `evaluate(attrs, result_dtype, *lanes)` computes all lanes with NumPy. `varying` says
    how the result may differ between the work-items of a workgroup: never, always, or as
    the operands do.
    """

    name: str
    signature: str
    doc: str
    attrs: Mapping[str, tuple[str, ...] | type] = field(
        default_factory=dict[str, "tuple[str, ...] | type"]
    )
    effect: Effect = Effect.PURE
    commutative: bool = False
    terminator: bool = False
    regions: int = 0
    varying: str = "operands"
    evaluate: Evaluate | None = None
    rule: Rule | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """The operand slots of the signature."""
        return tuple(self.signature.split("->")[0].split())

    @property
    def results(self) -> tuple[str, ...]:
        """The result slots of the signature."""
        return tuple(self.signature.split("->")[1].split())

    @property
    def pure(self) -> bool:
        """Whether the op may be removed, moved, duplicated and merged freely."""
        return self.effect is Effect.PURE and not self.terminator and not self.regions

    def __repr__(self) -> str:
        return f"<op {self.name}>"


CLASSES: Mapping[str, tuple[str, Callable[[Scalar], bool]]] = MappingProxyType(
    {
        "N": ("an integer or float", lambda t: t.is_int or t.is_float),
        "I": ("an integer", lambda t: t.is_int),
        "F": ("a float", lambda t: t.is_float),
        "B": ("a bool or integer", lambda t: t.is_int or t.kind == "bool"),
        "C": ("a bool, integer or float", lambda t: t.kind != "f8"),
        "S": ("a scalar", lambda t: True),
    }
)

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
SCOPES = ("subgroup", "workgroup", "device", "system")
LOAD_ORDERS = ("relaxed", "acquire", "seq_cst")
STORE_ORDERS = ("relaxed", "release", "seq_cst")
RMW_KINDS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
REDUCE_KINDS = ("add", "mul", "min", "max", "and", "or", "xor")
NATIVE_KINDS = (
    *("exp2", "log2", "sin", "cos", "rsqrt", "tanh", "sqrt", "exp", "log", "recip", "divide"),
)

TABLE: dict[str, Spec] = {}


def _op(name: str, signature: str, doc: str, **fields: object) -> Spec:
    spec = Spec(name=name, signature=signature, doc=doc, **fields)  # pyright: ignore[reportArgumentType]
    if TABLE.setdefault(name, spec) is not spec:
        raise AssertionError(f"two rows for {name}")
    return spec


def infer(spec: Spec, operands: Types, attrs: Attrs) -> tuple[Type, ...]:
    """The result types of an op, or RuleError saying which rule its operands break.

    Structured ops and `call` have no inferred results: their types are given.
    """
    check_attrs(spec, attrs)
    if spec.rule is not None:
        return spec.rule(operands, attrs)
    if len(operands) != len(spec.operands):
        raise RuleError(f"`{spec.name}` takes {len(spec.operands)} operands, got {len(operands)}")
    bound: dict[str, Type] = {}
    for index, (want, got) in enumerate(zip(spec.operands, operands, strict=True)):
        _match(spec, index, want, got, bound)
    return tuple(_result(want, bound, attrs) for want in spec.results)


def _match(spec: Spec, index: int, want: str, got: Type, bound: dict[str, Type]) -> None:
    if want in CLASSES:
        words, allowed = CLASSES[want]
        if not isinstance(got, Scalar) or not allowed(got):
            raise RuleError(f"operand {index} of `{spec.name}` must be {words}, got `{got}`")
        if bound.setdefault(want, got) != got:
            raise RuleError(
                f"`{spec.name}` needs operands of one type, got `{bound[want]}` and `{got}`"
            )
    elif str(got) != want:
        raise RuleError(f"operand {index} of `{spec.name}` must be `{want}`, got `{got}`")


def _result(want: str, bound: Mapping[str, Type], attrs: Attrs) -> Type:
    if want == "to":
        to = attrs["to"]
        assert isinstance(to, Scalar)
        return to
    return bound[want] if want in bound else SCALARS[want]


def check_attrs(spec: Spec, attrs: Attrs) -> None:
    """RuleError unless the attributes are the ones that the row names, with legal values."""
    for name, allowed in spec.attrs.items():
        if name not in attrs:
            raise RuleError(f"`{spec.name}` needs the attribute `{name}`")
        value = attrs[name]
        if isinstance(allowed, tuple):
            if value not in allowed:
                raise RuleError(f"`{name}` of `{spec.name}` must be one of {', '.join(allowed)}")
        elif type(value) is not allowed:
            raise RuleError(f"`{name}` of `{spec.name}` must be {allowed.__name__}")
    if unknown := set(attrs) - set(spec.attrs) - {"element"}:
        raise RuleError(f"`{spec.name}` has no attribute `{min(unknown)}`")


# ---- rules of the ops whose types a signature cannot say -------------------------------


def _const(_: Types, attrs: Attrs) -> tuple[Type, ...]:
    kind, bits = attrs["type"], attrs["bits"]
    assert isinstance(kind, Scalar)
    assert isinstance(bits, int)
    if not 0 <= bits < 1 << kind.bits:
        raise RuleError(f"the bits of `const` do not fit `{kind}`")
    return (kind,)


def _bitcast(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
    (source,), to = operands, attrs["to"]
    if not isinstance(source, Scalar) or not isinstance(to, Scalar) or source.bits != to.bits:
        raise RuleError(f"`bitcast` needs types of one width, got `{source}` and `{to}`")
    return (to,)


def _element(operands: Types, attrs: Attrs, name: str) -> tuple[Scalar, Types]:
    """The element type of the addressed array and the operands after the address."""
    head = operands[0] if operands else None
    if isinstance(head, ArrayType):
        count, element = head.ndim, head.element
    elif isinstance(head, RefType):
        count, element = 1, attrs.get("element")
        if not isinstance(element, Scalar):
            raise RuleError(f"`{name}` on a reference needs the attribute `element`")
    else:
        raise RuleError(f"operand 0 of `{name}` must be an array, got `{head}`")
    indices = operands[1 : 1 + count]
    if len(indices) != count or any(i != I64 for i in indices):
        shown = ", ".join(f"`{t}`" for t in operands[1:]) or "none"
        raise RuleError(f"`{name}` on `{head}` takes {count} `i64` indices, got {shown}")
    return element, operands[1 + count :]


def _access(name: str, values: int, *, result: bool, integers_only: tuple[str, ...] = ()) -> Rule:
    """A rule for an access with `values` element-typed operands after the address."""

    def rule(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
        element, rest = _element(operands, attrs, name)
        if tuple(rest) != (element,) * values:
            shown = ", ".join(f"`{t}`" for t in rest) or "none"
            raise RuleError(f"`{name}` takes {values} values of type `{element}`, got {shown}")
        head = operands[0]
        if values and isinstance(head, (ArrayType, RefType)) and head.space == "constant":
            raise RuleError(f"`{name}` cannot write constant memory")
        if name.startswith("atomic") and element.kind not in ("int", "uint", "float"):
            raise RuleError(f"`{name}` is not defined for `{element}`")
        if attrs.get("kind") in integers_only and not element.is_int:
            raise RuleError(f"`{name}` {attrs['kind']} needs an integer, got `{element}`")
        return (element,) if result else ()

    return rule


def _of_array(name: str, *, axis: bool) -> Rule:
    def rule(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
        if len(operands) != 1 or not isinstance(operands[0], ArrayType):
            raise RuleError(f"`{name}` takes one array")
        at = attrs.get("axis", 0)
        assert isinstance(at, int)
        if axis and not 0 <= at < operands[0].ndim:
            raise RuleError(f"`{operands[0]}` has no axis {at}")
        return (I64,) if axis else (RefType(operands[0].space),)

    return rule


def _view(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
    source, steps = operands[0] if operands else None, attrs["steps"]
    assert isinstance(steps, tuple)
    if not isinstance(source, ArrayType) or len(steps) != source.ndim:
        raise RuleError("`view` takes an array and one step an axis")
    if any(type(s) is not int for s in steps):
        raise RuleError("the steps of `view` must be integers")
    if len(operands) != 1 + sum(2 if s else 1 for s in steps) or any(
        t != I64 for t in operands[1:]
    ):
        raise RuleError("`view` takes an `i64` index, or start and count, for each axis")
    known = source.strides or _c_strides(source)
    kept = tuple(k if s == 1 or k == 0 else None for k, s in zip(known, steps, strict=True) if s)
    return (ArrayType(source.element, len(kept), source.space, None, kept),)


def _c_strides(source: ArrayType) -> tuple[int | None, ...]:
    """Static arrays are contiguous: only the last axis' stride is 1."""
    if source.shape is None or not source.ndim:
        return (None,) * source.ndim
    return (*(None,) * (source.ndim - 1), 1)


def _alloc(_: Types, attrs: Attrs) -> tuple[Type, ...]:
    kind = attrs["type"]
    if not isinstance(kind, ArrayType) or kind.space not in ("shared", "private"):
        raise RuleError("`alloc` makes shared or private arrays")
    if kind.shape is None or any(n < 0 for n in kind.shape):
        raise RuleError("`alloc` needs a static shape of non-negative extents")
    return (kind,)


def _reduction(name: str) -> Rule:
    def rule(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
        if len(operands) != 2 or operands[1] != BOOL or not isinstance(operands[0], Scalar):
            raise RuleError(f"`{name}` takes a value and a `bool` participation")
        value, kind = operands[0], attrs["kind"]
        words, allowed = CLASSES["B" if kind in ("and", "or", "xor") else "N"]
        if not allowed(value):
            raise RuleError(f"`{name}` {kind} needs {words}, got `{value}`")
        return (value,)

    return rule


def _same(operands: Types, _: Attrs) -> tuple[Type, ...]:
    return tuple(operands)


def movable(kind: Type) -> bool:
    """Whether such values may be block arguments, results of regions and `select` operands."""
    return isinstance(kind, Scalar) or kind.space not in ("shared", "private")


def _index(name: str) -> Rule:
    def rule(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
        axis = attrs["axis"]
        assert isinstance(axis, int)
        if operands or not 0 <= axis <= 2:
            raise RuleError(f"`{name}` takes no operands and an axis of 0 to 2")
        return (I64,)

    return rule


def _print(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
    if any(not isinstance(t, Scalar) for t in operands):
        raise RuleError("`print` takes scalars")
    # a doubled brace stands for itself, as in Python
    places = str(attrs["format"]).replace("{{", "").replace("}}", "").count("{}")
    if places != len(operands):
        raise RuleError(f"`print` has {places} places in its format for {len(operands)} operands")
    return ()


def _pairs(operands: Types, _: Attrs) -> tuple[Type, ...]:
    if len(operands) % 2 or any(t != I64 for t in operands):
        raise RuleError("`out_of_bounds` takes an `i64` index and extent for each axis")
    return ()


def _native(operands: Types, attrs: Attrs) -> tuple[Type, ...]:
    """The arguments, then the reproducible value unless a target has taken the op over."""
    count = 2 if attrs["kind"] == "divide" else 1
    if len(operands) not in (count, count + 1) or any(t != F32 for t in operands):
        raise RuleError(f"`native` {attrs['kind']} takes {count} `f32` and the value it stands for")
    return (F32,)


def _nothing(_: Types, __: Attrs) -> tuple[Type, ...]:
    return ()


def _select(operands: Types, _: Attrs) -> tuple[Type, ...]:
    if len(operands) != 3 or operands[0] != BOOL or operands[1] != operands[2]:
        shown = ", ".join(f"`{t}`" for t in operands)
        raise RuleError(f"`select` takes a `bool` and two values of one type, got {shown}")
    if not isinstance(operands[1], Scalar) and not movable(operands[1]):
        raise RuleError(f"`select` cannot choose between arrays of `{operands[1].space}` memory")
    return (operands[1],)


# ---- the table ---------------------------------------------------------------------------
# fmt: off
n = numerics
_AXIS = {"axis": int}
_MEM = {"order": ORDERS, "scope": SCOPES}
_RW = Effect.READ | Effect.WRITE

CONST      = _op("const", "-> ...", "A constant, given by its bits.", attrs={"type": Scalar, "bits": int}, varying="never", evaluate=n.const, rule=_const)

# indices; axis 0 is x, the fastest
LOCAL_ID   = _op("local_id", "-> i64", "Index of the work-item in its workgroup.", attrs=_AXIS, varying="always", rule=_index("local_id"))
GROUP_ID   = _op("group_id", "-> i64", "Index of the workgroup in the grid.", attrs=_AXIS, varying="never", rule=_index("group_id"))
GROUP_SIZE = _op("group_size", "-> i64", "Work-items a workgroup along an axis.", attrs=_AXIS, varying="never", rule=_index("group_size"))
NUM_GROUPS = _op("num_groups", "-> i64", "Workgroups in the grid along an axis.", attrs=_AXIS, varying="never", rule=_index("num_groups"))
GLOBAL_ID  = _op("global_id", "-> i64", "group_id * group_size + local_id.", attrs=_AXIS, varying="always", rule=_index("global_id"))
LANE_ID    = _op("lane_id", "-> i64", "Linear local id modulo the logical subgroup width.", varying="always")
SUBGROUP_ID = _op("subgroup_id", "-> i64", "Linear local id divided by the logical subgroup width.", varying="always")
SUBGROUP_SIZE = _op("subgroup_size", "-> i64", "The logical subgroup width.", varying="never")

# arithmetic
ADD = _op("add", "N N -> N", "Sum; integers wrap.", commutative=True, evaluate=n.add)
SUB = _op("sub", "N N -> N", "Difference; integers wrap.", evaluate=n.sub)
MUL = _op("mul", "N N -> N", "Product; integers wrap.", commutative=True, evaluate=n.mul)
DIV = _op("div", "N N -> N", "Quotient: IEEE for floats; integers truncate, x/0 is 0, MIN/-1 is MIN.", evaluate=n.div)
REM = _op("rem", "N N -> N", "Remainder of the truncated quotient, exact (C's fmod); integer x rem 0 is 0.", evaluate=n.rem)
FLOORDIV = _op("floordiv", "N N -> N", "Python's //: floors; integer x//0 is 0, float x//0 the IEEE quotient. Floats by CPython's steps in their own type; f16 and bf16 by way of f32, rounded at the end.", evaluate=n.floordiv)
MOD = _op("mod", "N N -> N", "Python's %: the sign of the divisor; integer x%0 is 0, float x%0 is NaN. Floats by CPython's steps, as floordiv.", evaluate=n.mod)
NEG = _op("neg", "N -> N", "Negation; integers wrap, floats flip the sign bit.", evaluate=n.neg)
ABS = _op("abs", "N -> N", "Magnitude; MIN stays MIN, floats clear the sign bit.", evaluate=n.abs_)
MIN = _op("min", "N N -> N", "IEEE 754-2019 minimum: NaN propagates, -0 < +0.", commutative=True, evaluate=n.minimum)
MAX = _op("max", "N N -> N", "IEEE 754-2019 maximum: NaN propagates, -0 < +0.", commutative=True, evaluate=n.maximum)
MIN_NUMBER = _op("min_number", "F F -> F", "IEEE 754-2019 minimumNumber: a NaN operand is ignored.", commutative=True, evaluate=n.minimum_number)
MAX_NUMBER = _op("max_number", "F F -> F", "IEEE 754-2019 maximumNumber: a NaN operand is ignored.", commutative=True, evaluate=n.maximum_number)
FMA = _op("fma", "F F F -> F", "a*b + c with one rounding.", evaluate=n.fma)
SQRT = _op("sqrt", "F -> F", "Square root, correctly rounded.", evaluate=n.sqrt)
FLOOR = _op("floor", "F -> F", "Largest integral value not above.", evaluate=n.floor)
CEIL = _op("ceil", "F -> F", "Smallest integral value not below.", evaluate=n.ceil)
TRUNC = _op("trunc", "F -> F", "Integral value towards zero.", evaluate=n.trunc)
RINT = _op("rint", "F -> F", "Nearest integral value, ties to even.", evaluate=n.rint)
NATIVE = _op("native", "f32 ... -> f32", "A device's own function of the operands before the last one, near the last one, which is the reproducible value and the op's meaning. A target that has the function, in a kernel with math=native, drops the last operand.", attrs={"kind": NATIVE_KINDS}, evaluate=n.last, rule=_native)
MUL_HI = _op("mul_hi", "I I -> I", "High half of the double-width product.", commutative=True, evaluate=n.mul_hi)

# bits
AND = _op("and", "B B -> B", "Bitwise and.", commutative=True, evaluate=n.and_)
OR  = _op("or", "B B -> B", "Bitwise or.", commutative=True, evaluate=n.or_)
XOR = _op("xor", "B B -> B", "Bitwise exclusive or.", commutative=True, evaluate=n.xor)
NOT = _op("not", "B -> B", "Bitwise complement.", evaluate=n.not_)
SHL = _op("shl", "I I -> I", "Left shift; the count is taken modulo the width.", evaluate=n.shl)
SHR = _op("shr", "I I -> I", "Right shift, arithmetic on signed types; the count is taken modulo the width.", evaluate=n.shr)
POPCOUNT = _op("popcount", "I -> I", "Number of one bits.", evaluate=n.popcount)
CTZ = _op("ctz", "I -> I", "Number of trailing zero bits; the width for 0.", evaluate=n.ctz)
CLZ = _op("clz", "I -> I", "Number of leading zero bits; the width for 0.", evaluate=n.clz)

# comparison and choice; NaN compares unordered
EQ = _op("eq", "C C -> bool", "Equal.", commutative=True, evaluate=n.eq)
NE = _op("ne", "C C -> bool", "Not equal; true on NaN.", commutative=True, evaluate=n.ne)
LT = _op("lt", "N N -> bool", "Less.", evaluate=n.lt)
LE = _op("le", "N N -> bool", "Less or equal.", evaluate=n.le)
GT = _op("gt", "N N -> bool", "Greater.", evaluate=n.gt)
GE = _op("ge", "N N -> bool", "Greater or equal.", evaluate=n.ge)
SELECT = _op("select", "bool ... -> ...", "The second operand if the first is true, else the third; both are evaluated.", evaluate=n.select, rule=_select)

# conversion
CAST = _op("cast", "S -> to", "Conversion: integers wrap; float to integer truncates and saturates, NaN gives 0; to floats rounds to nearest even; to f8 saturates, infinities too; to bool is != 0. One rounding.", attrs={"to": Scalar}, evaluate=n.cast)
BITCAST = _op("bitcast", "S -> to", "The same bits as another type of the width; a float NaN becomes the canonical quiet NaN first when the result is an integer.", attrs={"to": Scalar}, evaluate=n.bitcast, rule=_bitcast)
ASSUME_UNIFORM = _op("assume_uniform", "S -> S", "The value, promised to be the same in the whole workgroup; the evaluator checks.", effect=Effect.SYNC, varying="never", evaluate=n.identity)

# arrays and memory; an access addresses an array by indices, or (after array expansion) a reference by byte offset
ALLOC = _op("alloc", "-> array", "A shared (one a workgroup) or private (one a work-item) array, uninitialised.", attrs={"type": ArrayType}, effect=Effect.WRITE, varying="always", rule=_alloc)
DIM   = _op("dim", "array -> i64", "Extent of an axis.", attrs=_AXIS, rule=_of_array("dim", axis=True))
STRIDE = _op("stride", "array -> i64", "Stride of an axis in bytes.", attrs=_AXIS, rule=_of_array("stride", axis=True))
BASE  = _op("base", "array -> ref", "Address of the first element of a parameter or alloc.", rule=_of_array("base", axis=False))
VIEW  = _op("view", "array i64... -> array", "Sub-array: for each axis, step 0 takes an index, another step takes start and count.", attrs={"steps": tuple}, rule=_view)
LOAD  = _op("load", "array i64... -> S", "Element at the indices.", effect=Effect.READ, rule=_access("load", 0, result=True))
STORE = _op("store", "array i64... S ->", "Write the element at the indices.", effect=Effect.WRITE, rule=_access("store", 1, result=False))
ATOMIC_LOAD = _op("atomic.load", "array i64... -> S", "Atomic load.", attrs={"order": LOAD_ORDERS, "scope": SCOPES}, effect=_RW, varying="always", rule=_access("atomic.load", 0, result=True))
ATOMIC_STORE = _op("atomic.store", "array i64... S ->", "Atomic store.", attrs={"order": STORE_ORDERS, "scope": SCOPES}, effect=_RW, rule=_access("atomic.store", 1, result=False))
ATOMIC_RMW = _op("atomic.rmw", "array i64... S -> S", "Atomic read-modify-write; the old value.", attrs={"kind": RMW_KINDS, **_MEM}, effect=_RW, varying="always", rule=_access("atomic.rmw", 1, result=True, integers_only=("and", "or", "xor")))
ATOMIC_CAS = _op("atomic.cas", "array i64... S S -> S", "Atomic compare (of bits) and exchange: expected, desired; the old value.", attrs=_MEM, effect=_RW, varying="always", rule=_access("atomic.cas", 2, result=True))

# synchronisation and subgroups; `where` says which lanes take part
BARRIER = _op("barrier", "->", "Wait for the whole scope; orders all spaces at that scope.", attrs={"scope": ("subgroup", "workgroup", "device")}, effect=Effect.SYNC | _RW)
FENCE = _op("fence", "->", "Order memory accesses without waiting.", attrs={"order": ORDERS[1:], "scope": SCOPES}, effect=_RW)
SHUFFLE = _op("shuffle", "S i64 bool -> S", "Another lane's value: lane index, xor mask, or distance up/down; 0 from a lane that does not exist or take part.", attrs={"mode": ("index", "xor", "up", "down")}, effect=Effect.SYNC, varying="always")
BALLOT = _op("ballot", "bool bool -> u64", "One bit a lane, for lanes 0 to 63: the predicate of the lanes that take part.", effect=Effect.SYNC, varying="always")
VOTE = _op("vote", "bool bool -> bool", "Whether any, or all, of the lanes that take part hold true.", attrs={"mode": ("any", "all")}, effect=Effect.SYNC, varying="always")
SUBGROUP_REDUCE = _op("subgroup_reduce", "S bool -> S", "Reduction over a subgroup in a fixed tree: distances P/2 down to 1, lane i combines i and i xor distance, with P the width rounded up to a power of two. Lanes that do not exist or take part hold the identity: +0, 1, the largest value (min), the least (max), all ones.", attrs={"kind": REDUCE_KINDS}, effect=Effect.SYNC, varying="always", rule=_reduction("subgroup_reduce"))
SUBGROUP_SCAN = _op("subgroup_scan", "S bool -> S", "Prefix reduction over a subgroup: distances 1, 2, 4 up to P/2 (as subgroup_reduce), lane i combines i - distance and i; exclusive takes the result of lane i - 1, lane 0 the identity.", attrs={"kind": REDUCE_KINDS, "inclusive": bool}, effect=Effect.SYNC, varying="always", rule=_reduction("subgroup_scan"))

# structure
IF = _op("if", "bool -> ...", "Run one of two regions; results are what it yields.", regions=2, effect=_RW)
FOR = _op("for", "i64 i64 i64 ... -> ...", "Python's range(start, stop, step): the body takes the index and the carried values; a step of 0 runs nothing.", regions=1, effect=_RW)
LOOP = _op("loop", "... -> ...", "Run the body with the carried values until a break, whose operands are the results.", regions=1, effect=_RW)
YIELD = _op("yield", "... ->", "End an if's region with its results, or a loop's body with the next carried values.", terminator=True, rule=_nothing)
BREAK = _op("break", "... ->", "Leave the innermost loop with its results.", terminator=True, rule=_nothing)
CONTINUE = _op("continue", "... ->", "Go on with the innermost loop's next iteration and these carried values.", terminator=True, rule=_nothing)
RETURN = _op("return", "... ->", "End the work-item, or leave a function with its results.", terminator=True, rule=_nothing)
CALL = _op("call", "... -> ...", "Call a function of the module.", attrs={"callee": str}, effect=Effect.SYNC | _RW)
SAFE_POINT = _op("safe_point", "... -> ...", "A place where a launch can be stopped: live values go in and come back.", attrs={"id": str}, effect=Effect.SYNC | _RW, rule=_same)
PRINT = _op("print", "... ->", "Write a line to the launch's output; `{}` in the format takes the operands in order.", attrs={"format": str}, effect=_RW, rule=_print)
ASSERT = _op("assert", "bool ->", "Report a failed check with its place; the kernel goes on.", attrs={"message": str}, effect=_RW)
OUT_OF_BOUNDS = _op("out_of_bounds", "i64... ->", "Report an access that was skipped: index and extent of each axis.", attrs={"array": str}, effect=_RW, rule=_pairs)
# fmt: on
