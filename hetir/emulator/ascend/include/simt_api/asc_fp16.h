// The half type's operations of the SIMT mode.
#pragma once

#include "simt_api/asc_simt.h"

using namespace hetir_shim::fp16;
