"""What a kernel's body may say: `import hetir.lang as hl`."""

# ruff: noqa: A004 - some names are Python's, on purpose

from hetir.ir.types import BF16 as bf16
from hetir.ir.types import BOOL as bool_
from hetir.ir.types import F8E4M3 as f8e4m3
from hetir.ir.types import F8E5M2 as f8e5m2
from hetir.ir.types import F16 as f16
from hetir.ir.types import F32 as f32
from hetir.ir.types import F64 as f64
from hetir.ir.types import I8 as i8
from hetir.ir.types import I16 as i16
from hetir.ir.types import I32 as i32
from hetir.ir.types import I64 as i64
from hetir.ir.types import U8 as u8
from hetir.ir.types import U16 as u16
from hetir.ir.types import U32 as u32
from hetir.ir.types import U64 as u64
from hetir.lang.annotations import Array, static
from hetir.lang.atomics import (
    atomic_add,
    atomic_and_,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_load,
    atomic_max,
    atomic_min,
    atomic_or_,
    atomic_store,
    atomic_sub,
    atomic_xor,
)
from hetir.lang.control import assert_, assume_uniform, print, static_assert, static_range
from hetir.lang.indices import (
    global_id,
    global_size,
    group_id,
    group_size,
    lane_id,
    local_id,
    num_groups,
    subgroup_id,
    subgroup_size,
)
from hetir.lang.math import exp
from hetir.lang.memory import barrier, fence, private, shared, subgroup_barrier
from hetir.lang.subgroups import (
    all_,
    any_,
    ballot,
    shuffle,
    shuffle_down,
    shuffle_up,
    shuffle_xor,
    subgroup_reduce,
    subgroup_scan,
)
from hetir.lang.values import (
    abs,
    bitcast,
    cast,
    ceil,
    clamp,
    clz,
    div,
    floor,
    fma,
    isfinite,
    isinf,
    isnan,
    max,
    maximum,
    maximum_number,
    min,
    minimum,
    minimum_number,
    mul_hi,
    popcount,
    rem,
    rint,
    sign,
    sqrt,
    trunc,
    where,
)
from hetir.lang.workgroup import workgroup_reduce, workgroup_scan

__all__ = [
    "Array",
    "abs",
    "all_",
    "any_",
    "assert_",
    "assume_uniform",
    "atomic_add",
    "atomic_and_",
    "atomic_compare_exchange",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or_",
    "atomic_store",
    "atomic_sub",
    "atomic_xor",
    "ballot",
    "barrier",
    "bf16",
    "bitcast",
    "bool_",
    "cast",
    "ceil",
    "clamp",
    "clz",
    "div",
    "exp",
    "f16",
    "f32",
    "f64",
    "f8e4m3",
    "f8e5m2",
    "fence",
    "floor",
    "fma",
    "global_id",
    "global_size",
    "group_id",
    "group_size",
    "i16",
    "i32",
    "i64",
    "i8",
    "isfinite",
    "isinf",
    "isnan",
    "lane_id",
    "local_id",
    "max",
    "maximum",
    "maximum_number",
    "min",
    "minimum",
    "minimum_number",
    "mul_hi",
    "num_groups",
    "popcount",
    "print",
    "private",
    "rem",
    "rint",
    "shared",
    "shuffle",
    "shuffle_down",
    "shuffle_up",
    "shuffle_xor",
    "sign",
    "sqrt",
    "static",
    "static_assert",
    "static_range",
    "subgroup_barrier",
    "subgroup_id",
    "subgroup_reduce",
    "subgroup_scan",
    "subgroup_size",
    "trunc",
    "u16",
    "u32",
    "u64",
    "u8",
    "where",
    "workgroup_reduce",
    "workgroup_scan",
]
