// hetir's own model of the SIMT programming interface of Ascend C, written from its reference.
#pragma once

#if __NPU_ARCH__ != 3510
#error "only architecture 3510 has the SIMT mode"
#endif

#include "hetir_shim/simt.h"
#include "hetir_shim/simt_float.h"
#include "hetir_shim/simt_functions.h"
#include "hetir_shim/simt_math.h"
#include "hetir_shim/simt_small.h"

#define __global__
#define __aicore__
#define __gm__
#define __launch_bounds__(most)

// The compiler driver gives `__ubuf__` arrays their storage before the compiler sees them.
#define __ubuf__

// Division flushes subnormal operands on this architecture, so `float` is a class with its own.
#define float hetir_shim::Float
