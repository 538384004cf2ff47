// The bfloat16_t type's operations of the SIMT mode.
#pragma once

#include "simt_api/asc_simt.h"

using namespace hetir_shim::bf16;
