"""What a kernel's body may say: `import hetir.lang as hl`."""

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
