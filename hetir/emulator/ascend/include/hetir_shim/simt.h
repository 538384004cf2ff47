// What the SIMT headers ask of the engine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hetir_shim/types.h"

struct dim3 {
    uint32_t x = 1, y = 1, z = 1;
    constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
constexpr int32_t warpSize = 32;

namespace hetir_shim {

enum class Atomic { add, sub, exchange, max, min, inc, dec, cas, bit_and, bit_or, bit_xor };
enum class Warp { shuffle, up, down, exclusive, all, any, ballot, active, sum, max, min };

[[noreturn]] void refuse(const char *kind, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void simt_barrier(int line);
void simt_fence(bool device, int line);
uint64_t simt_atomic(Atomic operation, void *address, Type type, uint64_t value, uint64_t compare,
                     int line);
uint64_t simt_warp(Warp operation, Type type, uint64_t value, int32_t lane, int32_t width,
                   int line);
uint64_t simt_load(const void *address, uint32_t bytes, int line);
void simt_store(void *address, uint32_t bytes, uint64_t bits, int line);
uint32_t simt_lane();
bool simt_rough(uint64_t operands, int choices, int *which);
float simt_inexact(double value, uint64_t operands, int ulps);

}  // namespace hetir_shim
