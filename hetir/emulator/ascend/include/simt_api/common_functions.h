// Part of simt_api/asc_simt.h.
#pragma once

#include "simt_api/asc_simt.h"
