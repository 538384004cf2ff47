"""The C++ functions that emitted Ascend C files define where they use them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_HELPERS: Mapping[str, str] = {
    "WrapAdd": """\
template <typename T> __aicore__ inline T WrapAdd(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}""",
    "WrapSub": """\
template <typename T> __aicore__ inline T WrapSub(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}""",
    "WrapMul": """\
template <typename T> __aicore__ inline T WrapMul(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}""",
    "Quotient": """\
// Truncates; x / 0 is 0 and the least number / -1 is itself.
template <typename T> __aicore__ inline T Quotient(T a, T b) {
    if (b == 0) return 0;
    if (static_cast<T>(b + 1) == 0 && static_cast<T>(-1) < 0) return WrapSub(static_cast<T>(0), a);
    return static_cast<T>(a / b);
}""",
    "Remainder": """\
template <typename T> __aicore__ inline T Remainder(T a, T b) {
    return b == 0 ? static_cast<T>(0) : WrapSub(a, WrapMul(Quotient(a, b), b));
}""",
    "FloorQuotient": """\
template <typename T> __aicore__ inline T FloorQuotient(T a, T b) {
    const T rest = Remainder(a, b);
    const bool below = rest != 0 && ((rest < 0) != (b < 0));
    return below ? WrapSub(Quotient(a, b), static_cast<T>(1)) : Quotient(a, b);
}""",
    "FloorRemainder": """\
template <typename T> __aicore__ inline T FloorRemainder(T a, T b) {
    const T rest = Remainder(a, b);
    return rest != 0 && ((rest < 0) != (b < 0)) ? WrapAdd(rest, b) : rest;
}""",
    "Magnitude": """\
template <typename T> __aicore__ inline T Magnitude(T a) {
    return a < 0 ? WrapSub(static_cast<T>(0), a) : a;
}""",
    "Lesser": """\
template <typename T> __aicore__ inline T Lesser(T a, T b) { return a < b ? a : b; }""",
    "Greater": """\
template <typename T> __aicore__ inline T Greater(T a, T b) { return a > b ? a : b; }""",
    "Clamp": """\
__aicore__ inline int32_t Clamp(int64_t x, int64_t low, int64_t high) {
    return static_cast<int32_t>(x < low ? low : (x > high ? high : x));
}""",
    "LanesBelow": """\
// How many of the first lanes lie below `stop`: a lane's number times `factor` after `first`.
__aicore__ inline int32_t LanesBelow(int64_t first, int64_t stop, int32_t lanes,
                                     int32_t factor = 1) {
    if (first >= stop) return 0;
    const uint64_t room = static_cast<uint64_t>(stop) - static_cast<uint64_t>(first);
    const uint64_t below = (room - 1) / static_cast<uint64_t>(factor) + 1;
    return below < static_cast<uint64_t>(lanes) ? static_cast<int32_t>(below) : lanes;
}""",
    "LanesUpTo": """\
// How many of the first lanes do not lie above `last`.
__aicore__ inline int32_t LanesUpTo(int64_t first, int64_t last, int32_t lanes,
                                    int32_t factor = 1) {
    if (first > last) return 0;
    const uint64_t room = static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    const uint64_t above = room / static_cast<uint64_t>(factor);
    return above < static_cast<uint64_t>(lanes) ? static_cast<int32_t>(above) + 1 : lanes;
}""",
    "ShiftedLeft": """\
// The count is taken modulo the width.
template <typename T> __aicore__ inline T ShiftedLeft(T a, T count) {
    return static_cast<T>(static_cast<uint64_t>(a) << (count & (sizeof(T) * 8 - 1)));
}""",
    "ShiftedRight": """\
template <typename T> __aicore__ inline T ShiftedRight(T a, T count) {
    return static_cast<T>(a >> (count & (sizeof(T) * 8 - 1)));
}""",
    "OnesOf": """\
__aicore__ inline int32_t OnesOf(uint64_t a) {
    int32_t ones = 0;
    for (; a != 0; a &= a - 1) ++ones;
    return ones;
}""",
    "LeadingZeros": """\
template <typename T> __aicore__ inline T LeadingZeros(T a) {
    int32_t zeros = sizeof(T) * 8;
    for (uint64_t left = static_cast<uint64_t>(a) & (~0ull >> (64 - sizeof(T) * 8)); left != 0;
         left >>= 1) {
        --zeros;
    }
    return static_cast<T>(zeros);
}""",
    "TrailingZeros": """\
template <typename T> __aicore__ inline T TrailingZeros(T a) {
    int32_t zeros = 0;
    while (zeros < static_cast<int32_t>(sizeof(T) * 8) && ((a >> zeros) & 1) == 0) ++zeros;
    return static_cast<T>(zeros);
}""",
    "HighProduct": """\
// The upper half of a product of twice the width.
template <typename T> __aicore__ inline T HighProduct(T a, T b) {
    if (sizeof(T) == 4) {
        if (static_cast<T>(-1) < 0) {
            return static_cast<T>((static_cast<int64_t>(a) * static_cast<int64_t>(b)) >> 32);
        }
        return static_cast<T>((static_cast<uint64_t>(a) * static_cast<uint64_t>(b)) >> 32);
    }
    if (sizeof(T) < 4) {
        return static_cast<T>((static_cast<int64_t>(a) * static_cast<int64_t>(b)) >>
                              (sizeof(T) * 8));
    }
    const uint64_t x = static_cast<uint64_t>(a);
    const uint64_t y = static_cast<uint64_t>(b);
    const uint64_t low = 0xffffffffull;
    const uint64_t cross = (x >> 32) * (y & low) + (((x & low) * (y & low)) >> 32);
    const uint64_t other = (x & low) * (y >> 32) + (cross & low);
    uint64_t high = (x >> 32) * (y >> 32) + (cross >> 32) + (other >> 32);
    if (static_cast<T>(-1) < 0) {
        high -= a < 0 ? y : 0;
        high -= b < 0 ? x : 0;
    }
    return static_cast<T>(high);
}""",
    "FloatOfBits": """\
__aicore__ inline float FloatOfBits(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } both;
    both.bits = bits;
    return both.value;
}""",
    "BitsOfFloat": """\
__aicore__ inline uint32_t BitsOfFloat(float value) {
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    return both.bits;
}""",
    "CanonicalBits": """\
// The bits of a float; a NaN has one pattern.
__aicore__ inline uint32_t CanonicalBits(float value) {
    return value == value ? BitsOfFloat(value) : 0x7fc00000u;
}""",
    "CanonicalNarrow": """\
// The bits of a float of 16 or fewer bits: above `infinity` there is only one NaN.
template <typename T> __aicore__ inline T CanonicalNarrow(T bits, T sign, T infinity, T nan) {
    return static_cast<T>(bits & static_cast<T>(~sign)) > infinity ? nan : bits;
}""",
    "CanonicalDouble": """\
// The bits of an f64; a NaN has one pattern.
__aicore__ inline uint64_t CanonicalDouble(uint64_t bits) {
    return (bits << 1) > 0xffe0000000000000ull ? 0x7ff8000000000000ull : bits;
}""",
    "Minimum": """\
// IEEE 754-2019 minimum: a NaN is the result, -0 is less than +0.
__aicore__ inline float Minimum(float a, float b) {
    if (a != a || b != b) return FloatOfBits(0x7fc00000u);
    if (a == b) return FloatOfBits(BitsOfFloat(a) | BitsOfFloat(b));
    return a < b ? a : b;
}""",
    "Maximum": """\
// IEEE 754-2019 maximum: a NaN is the result, -0 is less than +0.
__aicore__ inline float Maximum(float a, float b) {
    if (a != a || b != b) return FloatOfBits(0x7fc00000u);
    if (a == b) return FloatOfBits(BitsOfFloat(a) & BitsOfFloat(b));
    return a > b ? a : b;
}""",
    "MinimumNumber": """\
__aicore__ inline float MinimumNumber(float a, float b) {
    return Minimum(a != a ? b : a, b != b ? a : b);
}""",
    "MaximumNumber": """\
__aicore__ inline float MaximumNumber(float a, float b) {
    return Maximum(a != a ? b : a, b != b ? a : b);
}""",
    "ToInteger": """\
// Truncates and saturates; NaN gives 0.
template <typename T> __aicore__ inline T ToInteger(float x) {
    const bool is_signed = static_cast<T>(-1) < 0;
    const uint32_t bits = BitsOfFloat(x);
    const int32_t exponent = static_cast<int32_t>((bits >> 23) & 255) - 127;
    const bool negative = (bits >> 31) != 0;
    if (x != x || exponent < 0) return 0;
    const int32_t width = static_cast<int32_t>(sizeof(T) * 8) - (is_signed ? 1 : 0);
    if (!is_signed && negative) return 0;
    if (exponent >= width) {
        const uint64_t most = ~0ull >> (64 - width);
        return static_cast<T>(negative ? most + 1 : most);
    }
    const uint64_t fraction = (bits & 0x7fffffu) | 0x800000u;
    const uint64_t size = exponent < 23 ? fraction >> (23 - exponent) : fraction << (exponent - 23);
    return static_cast<T>(negative ? 0 - size : size);
}""",
    "SquareRoot": """\
// Correctly rounded, digit by digit: the chip's root is not exact.
__aicore__ inline float SquareRoot(float x) {
    const uint32_t bits = BitsOfFloat(x);
    if (x != x || (bits >> 31 != 0 && bits << 1 != 0)) return FloatOfBits(0x7fc00000u);
    if (bits << 1 == 0 || bits == 0x7f800000u) return x;
    int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
    uint64_t fraction = bits & 0x7fffffu;
    if (exponent == -127) {
        for (exponent = -126; (fraction & 0x800000u) == 0; --exponent) fraction <<= 1;
    } else {
        fraction |= 0x800000u;
    }
    if ((exponent & 1) != 0) {
        fraction <<= 1;
        --exponent;
    }
    uint64_t rest = fraction << 27;
    uint64_t root = 0;
    for (uint64_t bit = 1ull << 50; bit != 0; bit >>= 2) {
        const bool fits = rest >= root + bit;
        rest -= fits ? root + bit : 0;
        root = (root >> 1) + (fits ? bit : 0);
    }
    const uint64_t odd = root | (rest != 0 ? 1 : 0);
    const uint64_t rounded = (odd + 1 + ((odd >> 2) & 1)) >> 2;
    return FloatOfBits(static_cast<uint32_t>(((exponent >> 1) + 126) << 23) +
                       static_cast<uint32_t>(rounded));
}""",
    "FusedMultiplyAdd": """\
// a * b + c with one rounding, by integers: to nearest, or to odd for a second rounding after it.
template <bool to_odd = false>
__aicore__ inline float FusedMultiplyAdd(float a, float b, float c) {
    const uint32_t ab = BitsOfFloat(a), bb = BitsOfFloat(b), cb = BitsOfFloat(c);
    const uint32_t ea = (ab >> 23) & 255, eb = (bb >> 23) & 255, ec = (cb >> 23) & 255;
    if (ea == 255 || eb == 255 || ec == 255) {
        return ea == 255 || eb == 255 ? a * b + c : c + 0.0f;
    }
    if (ab << 1 == 0 || bb << 1 == 0) return a * b + c;
    const bool ps = ((ab ^ bb) >> 31) != 0, cs = (cb >> 31) != 0;
    const uint64_t fa = ea == 0 ? ab & 0x7fffffu : (ab & 0x7fffffu) | 0x800000u;
    const uint64_t fb = eb == 0 ? bb & 0x7fffffu : (bb & 0x7fffffu) | 0x800000u;
    const uint64_t fc = ec == 0 ? cb & 0x7fffffu : (cb & 0x7fffffu) | 0x800000u;
    // values are p * 2^pe and q * 2^qe, both with 13 spare bits below
    uint64_t p = fa * fb, q = fc;
    int32_t pe = static_cast<int32_t>((ea == 0 ? 1 : ea) + (eb == 0 ? 1 : eb)) - 300;
    int32_t qe = static_cast<int32_t>(ec == 0 ? 1 : ec) - 150;
    for (; (p >> 61) == 0; p <<= 1) --pe;
    for (; q != 0 && (q >> 61) == 0; q <<= 1) --qe;
    if (q == 0) qe = pe;
    bool ls = ps, ss = cs;
    uint64_t large = p, small = q;
    int32_t le = pe, se = qe;
    if (q != 0 && (qe > pe || (qe == pe && q > p))) {
        large = q, small = p, le = qe, se = pe, ls = cs, ss = ps;
    }
    const int32_t shift = le - se;
    if (shift > 0) {
        const uint64_t lost = shift > 63 ? small : small & ((1ull << shift) - 1);
        small = (shift > 63 ? 0 : small >> shift) | (lost != 0 ? 1 : 0);
    }
    uint64_t sum = ls == ss ? large + small : large - small;
    if (sum == 0) return q == 0 && ps == cs && ps ? -0.0f : 0.0f;
    for (; (sum >> 62) == 0; sum <<= 1) --le;
    if ((sum >> 63) != 0) {
        sum = (sum >> 1) | (sum & 1);
        ++le;
    }
    // sum has 63 bits: its leading one weighs 2^(le + 62)
    int32_t drop = 39;
    int32_t exponent = le + 62 + 127;
    if (exponent <= 0) {
        drop += 1 - exponent;
        exponent = 0;
    }
    const uint64_t sign = ls ? 0x80000000u : 0;
    if (drop > 63) return FloatOfBits(static_cast<uint32_t>(sign | (to_odd ? 1 : 0)));
    const uint64_t kept = sum >> drop, rest = sum & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    const uint64_t up = rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
    const uint64_t base = exponent > 0 ? static_cast<uint64_t>(exponent - 1) << 23 : 0;
    if (to_odd) {
        const uint64_t odd = base + (kept | (rest != 0 ? 1 : 0));
        return FloatOfBits(static_cast<uint32_t>(sign | (odd > 0x7f7fffffu ? 0x7f7fffffu : odd)));
    }
    const uint64_t bits = base + kept + up;
    return FloatOfBits(static_cast<uint32_t>(sign | (bits > 0x7f800000u ? 0x7f800000u : bits)));
}""",
    "FloatRemainder": """\
// C's fmod, exactly, by long division of the significands.
__aicore__ inline float FloatRemainder(float x, float y) {
    const uint32_t sign = BitsOfFloat(x) & 0x80000000u;
    uint32_t a = BitsOfFloat(x) & 0x7fffffffu, b = BitsOfFloat(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0) return FloatOfBits(0x7fc00000u);
    if (a < b || b == 0x7f800000u) return x;
    const uint32_t ea = (a >> 23) == 0 ? 1 : a >> 23, eb = (b >> 23) == 0 ? 1 : b >> 23;
    uint64_t rest = (a & 0x7fffffu) | ((a >> 23) != 0 ? 0x800000u : 0);
    const uint64_t divisor = (b & 0x7fffffu) | ((b >> 23) != 0 ? 0x800000u : 0);
    rest %= divisor;
    for (uint32_t left = ea - eb; left != 0;) {
        const uint32_t step = left < 39 ? left : 39;
        rest = (rest << step) % divisor;
        left -= step;
    }
    uint32_t exponent = eb;
    for (; rest != 0 && (rest & 0x800000u) == 0 && exponent > 1; rest <<= 1) --exponent;
    const uint32_t field = (rest & 0x800000u) != 0 ? exponent << 23 : 0;
    return FloatOfBits(sign | field | static_cast<uint32_t>(rest & 0x7fffffu));
}""",
    "FloatFloor": """\
__aicore__ inline float FloatFloor(float x) {
    const float cut = FloatTrunc(x);
    return cut > x ? cut - 1.0f : cut;
}""",
    "FloatCeil": """\
__aicore__ inline float FloatCeil(float x) {
    const float cut = FloatTrunc(x);
    const uint32_t sign = BitsOfFloat(x) & 0x80000000u;
    return cut < x ? FloatOfBits((BitsOfFloat(cut + 1.0f) & 0x7fffffffu) | sign) : cut;
}""",
    "FloatTrunc": """\
__aicore__ inline float FloatTrunc(float x) {
    const uint32_t bits = BitsOfFloat(x);
    const int32_t exponent = static_cast<int32_t>((bits >> 23) & 255) - 127;
    if (exponent >= 23) return x;
    if (exponent < 0) return FloatOfBits(bits & 0x80000000u);
    return FloatOfBits(bits & ~(0x7fffffu >> exponent));
}""",
    "FloatRint": """\
// To the nearest integral value, ties to even.
__aicore__ inline float FloatRint(float x) {
    const uint32_t bits = BitsOfFloat(x);
    if (((bits >> 23) & 255) >= 150) return x;
    const float size = FloatOfBits(bits & 0x7fffffffu);
    const float rounded = (size + 8388608.0f) - 8388608.0f;
    return FloatOfBits(BitsOfFloat(rounded) | (bits & 0x80000000u));
}""",
    "PythonRemainder": """\
// Python's % of floats, by CPython's steps.
__aicore__ inline float PythonRemainder(float a, float b) {
    const float left = FloatRemainder(a, b);
    if (left != 0.0f && ((left < 0.0f) != (b < 0.0f))) return left + b;
    if (left != 0.0f) return left;
    return FloatOfBits((BitsOfFloat(left) & 0x7fffffffu) | (BitsOfFloat(b) & 0x80000000u));
}""",
    "PythonQuotient": """\
// Python's // of floats, by CPython's steps; x // 0 is x / 0.
__aicore__ inline float PythonQuotient(float a, float b) {
    const float ratio = a / b;
    if (b == 0.0f) return ratio;
    const float left = FloatRemainder(a, b);
    float quotient = (a - left) / b;
    if (left != 0.0f && ((left < 0.0f) != (b < 0.0f))) quotient = quotient - 1.0f;
    const float low = FloatFloor(quotient);
    if (quotient == 0.0f) return FloatOfBits(BitsOfFloat(ratio) & 0x80000000u);
    return quotient - low > 0.5f ? low + 1.0f : low;
}""",
    "HalfToFloat": """\
__aicore__ inline float HalfToFloat(uint16_t code) {
    const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
    const uint32_t field = static_cast<uint32_t>(code & 0x7fffu) << 13;
    if (field >= 0x0f800000u) return FloatOfBits(sign | 0x70000000u | field);
    const float scaled = FloatOfBits(field) * FloatOfBits(0x77800000u);
    return FloatOfBits(sign | BitsOfFloat(scaled));
}""",
    "FloatToHalf": """\
// Rounds to nearest, ties to even.
__aicore__ inline uint16_t FloatToHalf(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (size >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
    uint32_t drop = 13, fraction = size, base = 0x1c000u;
    if (size < 0x38800000u) {
        const uint32_t short_of = 113 - (size >> 23);
        if (short_of > 24) return static_cast<uint16_t>(sign);
        fraction = (size & 0x7fffffu) | ((size >> 23) != 0 ? 0x800000u : 0);
        drop = 13 + short_of;
        base = 0;
    }
    if (drop > 31) return static_cast<uint16_t>(sign);
    const uint32_t kept = (fraction >> drop) - base, rest = fraction & ((1u << drop) - 1);
    const uint32_t half = 1u << (drop - 1);
    const uint32_t up = rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
    return static_cast<uint16_t>(sign | (kept + up));
}""",
    "FusedHalf": """\
__aicore__ inline uint16_t FusedHalf(uint16_t a, uint16_t b, uint16_t c) {
    return FloatToHalf(
        FusedMultiplyAdd<true>(HalfToFloat(a), HalfToFloat(b), HalfToFloat(c)));
}""",
    "FusedBfloat": """\
__aicore__ inline uint16_t FusedBfloat(uint16_t a, uint16_t b, uint16_t c) {
    return FloatToBfloat(
        FusedMultiplyAdd<true>(BfloatToFloat(a), BfloatToFloat(b), BfloatToFloat(c)));
}""",
    "BfloatToFloat": """\
__aicore__ inline float BfloatToFloat(uint16_t code) {
    return FloatOfBits(static_cast<uint32_t>(code) << 16);
}""",
    "FloatToBfloat": """\
// Rounds to nearest, ties to even.
__aicore__ inline uint16_t FloatToBfloat(float value) {
    const uint32_t bits = BitsOfFloat(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}""",
    "TripCount": """\
// How often Python's range(start, stop, step) runs.
__aicore__ inline uint64_t TripCount(int64_t start, int64_t stop, int64_t step) {
    if (step == 0 || (step > 0 ? start >= stop : start <= stop)) return 0;
    const uint64_t distance = step > 0
                                  ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
    const uint64_t size = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    return (distance - 1) / size + 1;
}""",
    "Global": """\
// The element that lies `offset` bytes after an address.
template <typename T> __aicore__ inline GlobalTensor<T> Global(GM_ADDR base, int64_t offset) {
    GlobalTensor<T> found;
    found.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(base + offset));
    return found;
}""",
    "LoadGlobal": """\
template <typename T> __aicore__ inline T LoadGlobal(GM_ADDR base, int64_t offset) {
    return Global<T>(base, offset).GetValue(0);
}""",
    "StoreGlobal": """\
// Through the cache: the line is that of memory, and is written back at once.
template <typename T> __aicore__ inline void StoreGlobal(GM_ADDR base, int64_t offset, T value) {
    GlobalTensor<T> place = Global<T>(base, offset);
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(place);
    place.SetValue(0, value);
    DataCacheCleanAndInvalid<T, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(place);
}""",
    "CopyIn": """\
// `count` elements to the Unified Buffer; `left` of them stand before the first one there.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T> &to, GM_ADDR from, int64_t offset, int32_t count,
                              uint8_t left = 0) {
    if (count <= 0) return;
    const DataCopyExtParams shape(1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0);
    const DataCopyPadExtParams<T> padding(left != 0, left, 0, static_cast<T>(0));
    DataCopyPad(to, Global<T>(from, offset), shape, padding);
}""",
    "CopyOut": """\
template <typename T>
__aicore__ inline void CopyOut(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                               int32_t count) {
    if (count <= 0) return;
    DataCopyPad(Global<T>(to, offset), from,
                DataCopyExtParams(1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0));
}""",
    "CopyBlocksIn": """\
// `count` elements to the Unified Buffer, and what follows them in the last block of 32 bytes.
template <typename T>
__aicore__ inline void CopyBlocksIn(const LocalTensor<T> &to, GM_ADDR from, int64_t offset,
                                    int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    if (count <= 0) return;
    GlobalTensor<T> row;
    row.SetGlobalBuffer(reinterpret_cast<__gm__ T *>(from + offset), count);
    DataCopy(to, row, (count + block - 1) / block * block);
}""",
    "CopyBlocksOut": """\
// The whole blocks of 32 bytes among `count` elements.
template <typename T>
__aicore__ inline void CopyBlocksOut(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                                     int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    if (count < block) return;
    DataCopy(Global<T>(to, offset), from, count / block * block);
}""",
    "StoreTail": """\
// The elements after the last whole block.
template <typename T>
__aicore__ inline void StoreTail(GM_ADDR to, int64_t offset, const LocalTensor<T> &from,
                                 int32_t count) {
    constexpr int32_t block = 32 / sizeof(T);
    for (int32_t at = count / block * block; at < count; ++at) {
        StoreGlobal<T>(to, offset + at * static_cast<int64_t>(sizeof(T)), from.GetValue(at));
    }
}""",
    "CopyLanes": """\
// Any bits, `units` times 16 of them: x | x is x.
template <typename T>
__aicore__ inline void CopyLanes(const LocalTensor<T> &to, const LocalTensor<T> &from,
                                 int32_t units) {
    if (units <= 0) return;
    const LocalTensor<uint16_t> source = from.template ReinterpretCast<uint16_t>();
    Or(to.template ReinterpretCast<uint16_t>(), source, source, units);
}""",
    "CopyRows": """\
// As CopyLanes, for rows that lie blocks of 32 bytes apart.
template <typename T>
__aicore__ inline void CopyRows(const LocalTensor<T> &to, const LocalTensor<T> &from, int32_t rows,
                                int32_t units, uint8_t to_blocks, uint8_t from_blocks) {
    if (rows <= 0) return;
    const LocalTensor<uint16_t> target = to.template ReinterpretCast<uint16_t>();
    const LocalTensor<uint16_t> source = from.template ReinterpretCast<uint16_t>();
    const BinaryRepeatParams strides(1, 1, 1, to_blocks, from_blocks, from_blocks);
    for (int32_t at = 0; at < units; at += 128) {
        const uint64_t count = units - at < 128 ? units - at : 128;
        Or(target[at], source[at], source[at], count, static_cast<uint8_t>(rows), strides);
    }
}""",
    "BitOf": """\
// One lane of a mask.
__aicore__ inline bool BitOf(const LocalTensor<uint8_t> &mask, int32_t lane) {
    return ((mask.GetValue(lane >> 3) >> (lane & 7)) & 1) != 0;
}""",
    "ClearMask": """\
__aicore__ inline void ClearMask(const LocalTensor<uint8_t> &mask, int32_t lanes) {
    const LocalTensor<uint64_t> words = mask.ReinterpretCast<uint64_t>();
    for (int32_t word = 0; word < lanes / 64; ++word) words.SetValue(word, 0);
}""",
    "SetBit": """\
__aicore__ inline void SetBit(const LocalTensor<uint8_t> &mask, int32_t lane, bool value) {
    const uint8_t rest = mask.GetValue(lane >> 3) & static_cast<uint8_t>(~(1u << (lane & 7)));
    mask.SetValue(lane >> 3, static_cast<uint8_t>(rest | (value ? 1u << (lane & 7) : 0u)));
}""",
    "FirstLane": """\
// The first lane that is on, or `lanes`.
__aicore__ inline int32_t FirstLane(const LocalTensor<uint8_t> &mask, int32_t lanes) {
    for (int32_t lane = 0; lane < lanes; lane += 8) {
        if (mask.GetValue(lane >> 3) == 0) continue;
        for (int32_t at = lane; at < lanes && at < lane + 8; ++at) {
            if (BitOf(mask, at)) return at;
        }
    }
    return lanes;
}""",
    "AnyLane": """\
__aicore__ inline bool AnyLane(const LocalTensor<uint8_t> &mask, int32_t lanes) {
    return FirstLane(mask, lanes) < lanes;
}""",
}

_WORD = re.compile(r"\b[A-Z]\w+")


def helpers(texts: Iterable[str]) -> list[str]:
    """The definitions of the helpers that some lines of C++ use, each after those it needs."""
    wanted: set[str] = set()
    work = list(texts)
    while work:
        found = {w for w in _WORD.findall(work.pop()) if w in _HELPERS} - wanted
        wanted |= found
        work += (_HELPERS[name] for name in found)
    placed: list[str] = []

    def place(name: str) -> None:
        if name in placed:
            return
        needs = {w for w in _WORD.findall(_HELPERS[name]) if w in _HELPERS and w != name}
        for need in sorted(needs):
            place(need)
        placed.append(name)

    for name in _HELPERS:
        if name in wanted:
            place(name)
    return [_HELPERS[name] for name in placed]
