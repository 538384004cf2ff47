// hetir's own model of the Ascend C programming interface, written from its public reference.
// It has the subset that hetir emits, under the documented names.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hetir_shim/engine.h"
#include "hetir_shim/tables.h"
#include "hetir_shim/types.h"

#define __global__
#define __aicore__
#define __gm__
#define __ubuf__
#define __mix__(cubes, vectors)
#define __vector__
#define __schedmode__(mode)
#define __inout_pipe__(pipe)
#define GM_ADDR uint8_t *
#define KERNEL_TASK_TYPE_DEFAULT(type) static_cast<void>(AscendC::type)
#define KERNEL_TASK_TYPE(key, type) static_cast<void>(AscendC::type)

#include "hetir_shim/names.h"
#include "hetir_shim/tensor.h"
#include "hetir_shim/queue.h"
#include "hetir_shim/copy.h"
#include "hetir_shim/vector.h"
#include "hetir_shim/sync.h"
