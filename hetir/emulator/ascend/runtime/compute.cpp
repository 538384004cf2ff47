// What each vector instruction and each transfer does, and what it touches.
#include <cmath>
#include <cstdio>
#include <limits>

#include "state.h"

namespace hetir_shim {
namespace {

uint64_t hash(uint64_t value) {
    value += 0x9e3779b97f4a7c15ull + job.seed;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

template <typename T> T read_as(const uint8_t *at) {
    T value;
    memcpy(static_cast<void *>(&value), at, sizeof(T));
    return value;
}

template <typename T> void write_as(uint8_t *at, T value) {
    memcpy(at, static_cast<const void *>(&value), sizeof(T));
}

template <typename T> constexpr bool is_float = !std::is_integral_v<T>;

// Calls body with a value of the C++ type that `type` stands for.
template <typename Body> auto with_type(Type type, Body body) {
    switch (type) {
        case Type::i8: return body(int8_t());
        case Type::u8: return body(uint8_t());
        case Type::i16: return body(int16_t());
        case Type::u16: return body(uint16_t());
        case Type::i32: return body(int32_t());
        case Type::u32: return body(uint32_t());
        case Type::i64: return body(int64_t());
        case Type::u64: return body(uint64_t());
        case Type::f16: return body(half());
        case Type::bf16: return body(bfloat16_t());
        case Type::f64: return body(double());
        default: return body(float());
    }
}

template <typename T> using Wide = std::conditional_t<
    std::is_integral_v<T>, T, std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <typename T> Wide<T> wide(T value) { return static_cast<Wide<T>>(value); }
template <typename T> T narrow(Wide<T> value) { return static_cast<T>(value); }

// Results of the operations whose last bit is not promised move by one unit, by the operands.
float inexact(float value, uint64_t operands) {
    if (!(std::fabs(value) < std::numeric_limits<float>::infinity()) || value == 0) return value;
    switch (hash(operands) % 3) {
        case 0: return std::nextafter(value, std::numeric_limits<float>::infinity());
        case 1: return std::nextafter(value, -std::numeric_limits<float>::infinity());
        default: return value;
    }
}

// Subnormal results of these operations may be flushed to zero.
template <typename T> T rough(double value, uint64_t operands) {
    const double smallest = std::is_same_v<T, half> ? 6.103515625e-05 : 1.17549435082228751e-38;
    if (std::fabs(value) < smallest && hash(operands) % 2 == 0)
        return narrow<T>(std::copysign(Wide<T>(0), Wide<T>(value)));
    if constexpr (std::is_same_v<T, half>) {
        half result;
        result.bits = narrow_to_half(value, 0);
        if ((result.bits & 0x7fffu) == 0 || (result.bits & 0x7fffu) >= 0x7bffu) return result;
        const uint64_t which = hash(operands) % 3;
        result.bits = uint16_t(result.bits + (which == 0 ? 1 : which == 1 ? -1 : 0));
        return result;
    } else {
        return static_cast<T>(inexact(float(value), operands));
    }
}

// Rsqrt and Reciprocal miss a relative error of 1e-4 (float) and 1e-3 (half), says the reference.
template <typename T> T coarse(double value, uint64_t operands) {
    const double most = std::is_same_v<T, half> ? 2e-3 : 2e-4;
    const double part = double(int64_t(hash(operands) % 2001) - 1000) / 1000;
    return rough<T>(value * (1 + most * part), operands);
}

// Integers wrap.
template <typename T> T wrapped(Op op, T a, T b) {
    using U = std::make_unsigned_t<T>;
    using W = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
    const W x = W(U(a)), y = W(U(b));
    return T(U(op == Op::add || op == Op::adds ? x + y : op == Op::sub ? x - y : x * y));
}

template <typename T> T shifted(Op op, T a, uint64_t amount) {
    using U = std::make_unsigned_t<T>;
    constexpr uint64_t width = sizeof(T) * 8;
    if (op == Op::shift_left) return amount >= width ? T(0) : T(U(U(a) << amount));
    if (amount >= width) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    return T(a >> amount);
}

template <typename T> T arithmetic(Op op, T a, T b, T d) {
    const Wide<T> x = wide(a), y = wide(b);
    switch (op) {
        case Op::add: case Op::adds: case Op::sub: case Op::mul: case Op::muls:
            if constexpr (!is_float<T>) return wrapped(op, a, b);
            else if (op == Op::mul || op == Op::muls) return narrow<T>(x * y);
            else return narrow<T>(op == Op::sub ? x - y : x + y);
        case Op::max: case Op::maxs: case Op::min: case Op::mins:
            // with a NaN, or with zeros of two signs, the reference does not say which comes out
            if (!(x < y) && !(x > y)) return hash(to_bits(a) * 31 + to_bits(b)) % 2 ? a : b;
            return (x > y) == (op == Op::max || op == Op::maxs) ? a : b;
        case Op::div:
            if constexpr (!is_float<T>) return b == 0 ? T(-1) : T(a / b);
            else return rough<T>(double(x) / double(y), to_bits(a) * 31 + to_bits(b));
        case Op::abs: return x < 0 ? narrow<T>(-x) : x == 0 ? narrow<T>(0) : a;
        case Op::relu:
            if (x != x || x == 0) return hash(to_bits(a)) % 2 ? a : narrow<T>(0);
            return x > 0 ? a : narrow<T>(0);
        case Op::leaky_relu: return x > 0 ? a : narrow<T>(x * y);
        case Op::mul_add_dst: return narrow<T>(x * y + wide(d));
        case Op::axpy: return narrow<T>(x * y + wide(d));
        case Op::fused_mul_add: return narrow<T>(x * wide(d) + y);
        case Op::exp: return rough<T>(std::exp(double(x)), to_bits(a));
        case Op::ln: return rough<T>(std::log(double(x)), to_bits(a));
        case Op::sqrt: return rough<T>(std::sqrt(double(x)), to_bits(a));
        case Op::rsqrt: return coarse<T>(1 / std::sqrt(double(x)), to_bits(a));
        case Op::reciprocal: return coarse<T>(1 / double(x), to_bits(a));
        default: break;
    }
    if constexpr (!is_float<T>) {
        switch (op) {
            case Op::bit_and: return T(a & b);
            case Op::bit_or: return T(a | b);
            case Op::bit_not: return T(~a);
            case Op::shift_left: case Op::shift_right: return shifted(op, a, uint64_t(b));
            default: break;
        }
    }
    return a;
}

// By the place of the mode in CMPMODE; with a NaN only "not equal" holds.
template <typename T> bool holds(int mode, T left, T right) {
    const Wide<T> a = wide(left), b = wide(right);
    switch (mode) {
        case 0: return a < b;
        case 1: return a > b;
        case 2: return a == b;
        case 3: return a <= b;
        case 4: return a >= b;
        default: return a != b;
    }
}

double rounded(double value, int mode) {
    switch (mode) {
        case 2: return std::floor(value);
        case 3: return std::ceil(value);
        case 4: return std::round(value);
        case 5: return std::trunc(value);
        default: return std::nearbyint(value);
    }
}

// Narrowing to float with a direction; `value` is an int64_t or a double.
template <typename From> float to_float(From value, int mode) {
    const float nearest = float(value);
    const long double exact = value, got = nearest;
    if (got == exact || !(std::fabs(nearest) < std::numeric_limits<float>::infinity()))
        return nearest;
    const float up = got > exact ? nearest : std::nextafter(nearest, INFINITY);
    const float down = got < exact ? nearest : std::nextafter(nearest, -INFINITY);
    switch (mode) {
        case 2: return down;
        case 3: return up;
        case 4:
            if ((long double)up - exact == exact - (long double)down) return exact > 0 ? up : down;
            return nearest;
        case 5: return exact > 0 ? down : up;
        default: return nearest;
    }
}

// Floating point to integer saturates, and a NaN gives 0.
template <typename To> To saturated(double value) {
    if (value != value) return 0;
    if (value <= double(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= double(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return To(value);
}

int half_rounding(int mode) {
    static const int table[] = {0, 0, 1, 2, 4, 3, 5, 0};
    return table[mode];
}

template <typename From, typename To> To converted(From value, int mode) {
    if constexpr (is_float<To>) {
        To result{};
        if constexpr (std::is_same_v<To, half>) {
            result.bits = narrow_to_half(double(wide(value)), half_rounding(mode));
        } else if constexpr (std::is_same_v<To, bfloat16_t>) {
            result.bits = narrow_to_bfloat(to_float(double(wide(value)), mode),
                                           half_rounding(mode));
        } else if constexpr (std::is_same_v<To, float>) {
            if constexpr (std::is_same_v<From, float>) result = float(rounded(value, mode));
            else result = to_float(wide(value), mode);
        } else {
            result = To(wide(value));
        }
        return result;
    } else if constexpr (is_float<From>) {
        return saturated<To>(rounded(double(wide(value)), mode));
    } else {
        const auto low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
        if (int64_t(value) < int64_t(low)) return low;
        return int64_t(value) > int64_t(high) ? high : To(value);
    }
}

// Adjacent pairs first; a lane without a partner passes through.
template <typename T, typename Join> T tree(std::vector<T> values, Join join) {
    while (values.size() > 1) {
        size_t kept = 0;
        for (size_t i = 0; i < values.size(); i += 2)
            values[kept++] = i + 1 < values.size() ? join(values[i], values[i + 1]) : values[i];
        values.resize(kept);
    }
    return values[0];
}

struct Lane {
    uint32_t dst, a, b;
    uint32_t repeat;
};

// The lanes of an instruction, where each lies in its operands: in a row, or by mask and strides.
class Lanes {
public:
    explicit Lanes(const Instruction &in)
        : count_(in.count), dst_(size_of(in.dst.type)), a_(size_of(in.a.type)) {
        if (in.repeat.on) spread(in.repeat);
    }
    size_t size() const { return count_; }
    Lane operator[](size_t i) const {
        if (!spread_.empty()) return spread_[i];
        const auto at = uint32_t(i);
        return {at * dst_, at * a_, at * a_, 0};
    }
    uint64_t extent(uint32_t Lane::*which, uint32_t size) const {
        if (spread_.empty()) return uint64_t(count_) * size;
        uint64_t most = 0;
        for (const Lane &lane : spread_) most = std::max<uint64_t>(most, lane.*which + size);
        return most;
    }

private:
    void spread(const Repeat &r) {
        const uint32_t size = std::max(dst_, a_), per_block = block_bytes / size;
        for (uint32_t t = 0; t < r.times; ++t)
            for (uint32_t lane = 0; lane < 256 / size; ++lane) {
                if (!((r.mask[lane / 64] >> (lane % 64)) & 1)) continue;
                const uint32_t block = lane / per_block, inner = lane % per_block;
                spread_.push_back({(t * r.dst_repeat + block * r.dst_block) * 32 + inner * dst_,
                                   (t * r.a_repeat + block * r.a_block) * 32 + inner * a_,
                                   (t * r.b_repeat + block * r.b_block) * 32 + inner * a_, t});
            }
        count_ = uint32_t(spread_.size());
    }

    uint32_t count_, dst_, a_;
    std::vector<Lane> spread_;
};

bool reduces(Op op) { return op >= Op::reduce_sum && op <= Op::pair_sum; }
bool whole(Op op) { return op >= Op::whole_sum && op <= Op::whole_min; }
bool scalar_form(Op op) {
    return op == Op::adds || op == Op::muls || op == Op::maxs || op == Op::mins ||
           op == Op::shift_left || op == Op::shift_right || op == Op::leaky_relu || op == Op::axpy;
}
bool two_sources(Op op) {
    return op <= Op::bit_or || op == Op::mul_add_dst || op == Op::fused_mul_add;
}

template <typename T> void elementwise(const Instruction &in, const Lanes &lanes) {
    uint8_t *dst = current->local.data() + in.dst.address;
    const uint8_t *a = current->local.data() + in.a.address;
    const uint8_t *b = current->local.data() + in.b.address;
    const bool two = two_sources(in.op), has_scalar = scalar_form(in.op);
    const T scalar = of_bits<T>(in.scalar);
    for (size_t i = 0; i < lanes.size(); ++i) {
        const Lane lane = lanes[i];
        const T x = read_as<T>(a + lane.a);
        const T y = two ? read_as<T>(b + lane.b) : has_scalar ? scalar : x;
        write_as<T>(dst + lane.dst, arithmetic<T>(in.op, x, y, read_as<T>(dst + lane.dst)));
    }
}

template <typename T> void compared(const Instruction &in, const Lanes &lanes) {
    uint8_t *dst = current->local.data() + in.dst.address;
    const uint8_t *a = current->local.data() + in.a.address;
    const uint8_t *b = current->local.data() + in.b.address;
    std::vector<uint8_t> bits((lanes.size() + 7) / 8, 0);
    for (size_t i = 0; i < lanes.size(); ++i) {
        const T x = read_as<T>(a + lanes[i].a);
        const T y = in.op == Op::compare ? read_as<T>(b + lanes[i].b) : of_bits<T>(in.scalar);
        bits[i / 8] = uint8_t(bits[i / 8] | holds(in.kind, x, y) << (i % 8));
    }
    memcpy(dst, bits.data(), bits.size());
}

template <typename T> void selected(const Instruction &in, const Lanes &lanes) {
    uint8_t *dst = current->local.data() + in.dst.address;
    const uint8_t *a = current->local.data() + in.a.address;
    const uint8_t *b = current->local.data() + in.b.address;
    const uint8_t *mask = current->local.data() + in.c.address;
    const size_t period = in.kind == 0 ? 256 / sizeof(T) : SIZE_MAX;
    for (size_t i = 0; i < lanes.size(); ++i) {
        const size_t at = i % period;
        const bool first = (mask[at / 8] >> (at % 8)) & 1;
        const T other = in.op == Op::select ? read_as<T>(b + lanes[i].b) : of_bits<T>(in.scalar);
        write_as<T>(dst + lanes[i].dst, first ? read_as<T>(a + lanes[i].a) : other);
    }
}

template <typename T> void gathered(const Instruction &in) {
    uint8_t *local = current->local.data();
    const bool gather = in.op == Op::gather;
    const View &table = gather ? in.a : in.dst;
    for (uint32_t i = 0; i < in.count; ++i) {
        const uint32_t offset = read_as<uint32_t>(local + in.b.address + i * 4);
        const uint64_t at = uint64_t(in.scalar) + offset;
        if (at % sizeof(T) != 0)
            refuse("alignment", in.line, "%s: offset %u of lane %u is not a multiple of %zu",
                   in.name, offset, i, sizeof(T));
        if (at + sizeof(T) > table.bytes)
            refuse("bounds", in.line, "%s: lane %u touches byte %llu of a tensor of %u bytes",
                   in.name, i, static_cast<unsigned long long>(at), table.bytes);
        uint8_t *dst = gather ? local + in.dst.address + i * sizeof(T) : local + table.address + at;
        const uint8_t *src = gather ? local + table.address + at
                                    : local + in.a.address + i * sizeof(T);
        memmove(dst, src, sizeof(T));
    }
}

template <typename T> T joined(Op op, T a, T b) {
    switch (op) {
        case Op::reduce_max: case Op::whole_max: case Op::block_max:
            return arithmetic<T>(Op::max, a, b, a);
        case Op::reduce_min: case Op::whole_min: case Op::block_min:
            return arithmetic<T>(Op::min, a, b, a);
        default: return arithmetic<T>(Op::add, a, b, a);
    }
}

// The lanes of a repeat by adjacent pairs. The results of the repeats then: on 2201 a sum goes from
// the first to the last; on 3510 the repeats of a short sum are first added lane by lane; all else
// goes by pairs again.
template <typename T> void reduced(const Instruction &in) {
    const uint8_t *a = current->local.data() + in.a.address;
    uint8_t *dst = current->local.data() + in.dst.address;
    std::vector<T> values(in.count);
    for (uint32_t i = 0; i < in.count; ++i) values[i] = read_as<T>(a + i * sizeof(T));
    const std::vector<T> inputs = values;
    const auto join = [&](T x, T y) { return joined<T>(in.op, x, y); };
    constexpr size_t lanes = 256 / sizeof(T);
    const size_t bytes = values.size() * sizeof(T);
    const bool sums = in.op == Op::reduce_sum;
    if (sums && job.arch == 3510 && (sizeof(T) == 8 || (bytes >= 256 && bytes <= 1024))) {
        for (size_t i = lanes; i < values.size(); ++i)
            values[i % lanes] = join(values[i % lanes], values[i]);
        values.resize(std::min(values.size(), lanes));
    }
    if (sums && job.arch == 2201) {
        T total{};
        for (size_t i = 0; i < values.size(); i += lanes) {
            const auto end = values.begin() + long(std::min(i + lanes, values.size()));
            const T part = tree(std::vector<T>(values.begin() + long(i), end), join);
            total = i == 0 ? part : join(total, part);
        }
        values = {total};
    }
    while (values.size() > 1) {
        std::vector<T> next;
        for (size_t i = 0; i < values.size(); i += lanes)
            next.push_back(tree(std::vector<T>(values.begin() + long(i),
                                               values.begin() + long(std::min(i + lanes,
                                                                              values.size()))),
                                join));
        values = std::move(next);
    }
    write_as<T>(dst, values[0]);
    if (in.op == Op::reduce_sum || in.kind == 0) return;
    uint64_t index = 0;
    while (index + 1 < in.count && to_bits(inputs[index]) != to_bits(values[0])) ++index;
    memcpy(dst + sizeof(T), &index, sizeof(T));
}

// One result a repeat (whole), a block of 32 bytes, or a pair.
template <typename T>
void reduced_by_parts(const Instruction &in, const Lanes &lanes) {
    const uint8_t *a = current->local.data() + in.a.address;
    uint8_t *dst = current->local.data() + in.dst.address;
    const auto join = [&](T x, T y) { return joined<T>(in.op, x, y); };
    const uint32_t part = whole(in.op) ? 256 : in.op == Op::pair_sum ? 2 * sizeof(T) : block_bytes;
    for (size_t i = 0; i < lanes.size();) {
        const uint32_t repeat = lanes[i].repeat;
        const uint32_t start = repeat * in.repeat.a_repeat * 32;
        const uint32_t which = whole(in.op) ? 0 : (lanes[i].a - start) / part;
        std::vector<T> values;
        std::vector<uint32_t> places;
        for (; i < lanes.size() && lanes[i].repeat == repeat &&
               (whole(in.op) || (lanes[i].a - start) / part == which);
             ++i) {
            values.push_back(read_as<T>(a + lanes[i].a));
            places.push_back(uint32_t(values.size() - 1));
        }
        const T result = tree(values, join);
        if (!whole(in.op)) {
            const uint32_t each = in.op == Op::pair_sum ? 128 / sizeof(T) : 8;
            write_as<T>(dst + (repeat * in.repeat.dst_repeat * each + which) * sizeof(T), result);
            continue;
        }
        if (in.op == Op::whole_sum) {
            write_as<T>(dst + repeat * in.repeat.dst_repeat * sizeof(T), result);
            continue;
        }
        uint64_t index = 0;
        while (index + 1 < values.size() && to_bits(values[index]) != to_bits(result)) ++index;
        T place{};
        memcpy(static_cast<void *>(&place), &index, std::min(sizeof(T), sizeof(index)));
        if (in.kind == 2 || in.kind == 3) {
            write_as<T>(dst + repeat * in.repeat.dst_repeat * sizeof(T),
                        in.kind == 2 ? result : place);
            continue;
        }
        uint8_t *at = dst + repeat * in.repeat.dst_repeat * 2 * sizeof(T);
        write_as<T>(at, in.kind == 0 ? result : place);
        write_as<T>(at + sizeof(T), in.kind == 0 ? place : result);
    }
}

// Of half and bfloat16_t: infinities become the largest value and NaN becomes 0.
void saturate(const Instruction &in, uint64_t bytes) {
    const uint16_t largest = in.dst.type == Type::f16 ? 0x7bff : 0x7f7f;
    uint8_t *dst = current->local.data() + in.dst.address;
    for (uint64_t i = 0; i + 2 <= bytes; i += 2) {
        const uint16_t bits = read_as<uint16_t>(dst + i);
        if ((bits & 0x7fff) <= largest) continue;
        const bool infinite = (bits & 0x7fff) == largest + 1;
        write_as<uint16_t>(dst + i, infinite ? uint16_t((bits & 0x8000) | largest) : uint16_t(0));
    }
}

// What computes or converts; what moves or chooses leaves bits as they are.
bool rounds(Op op) {
    return op <= Op::min || (op >= Op::abs && op <= Op::relu) ||
           (op >= Op::adds && op <= Op::mins) || (op >= Op::leaky_relu && op <= Op::cast) ||
           (op >= Op::reduce_sum && op <= Op::pair_sum);
}

void perform(const Instruction &in, const Lanes &lanes) {
    with_type(in.a.type, [&](auto zero) {
        using T = decltype(zero);
        switch (in.op) {
            case Op::cast:
                with_type(in.dst.type, [&](auto to) {
                    using To = decltype(to);
                    uint8_t *local = current->local.data();
                    std::vector<To> results(lanes.size());
                    for (size_t i = 0; i < lanes.size(); ++i)
                        results[i] = converted<T, To>(
                            read_as<T>(local + in.a.address + lanes[i].a), in.kind);
                    for (size_t i = 0; i < lanes.size(); ++i)
                        write_as<To>(local + in.dst.address + lanes[i].dst, results[i]);
                });
                break;
            case Op::duplicate:
                for (size_t i = 0; i < lanes.size(); ++i)
                    write_as<T>(current->local.data() + in.dst.address + lanes[i].dst,
                                of_bits<T>(in.scalar));
                break;
            case Op::create_index:
                for (uint32_t i = 0; i < in.count; ++i) {
                    const T first = of_bits<T>(in.scalar);
                    write_as<T>(current->local.data() + in.dst.address + i * sizeof(T),
                                narrow<T>(Wide<T>(wide(first) + Wide<T>(i))));
                }
                break;
            case Op::compare: case Op::compare_scalar: compared<T>(in, lanes); break;
            case Op::select: case Op::select_scalar: selected<T>(in, lanes); break;
            case Op::gather: case Op::scatter: gathered<T>(in); break;
            case Op::reduce_sum: case Op::reduce_max: case Op::reduce_min: reduced<T>(in); break;
            default:
                if (reduces(in.op)) reduced_by_parts<T>(in, lanes);
                else elementwise<T>(in, lanes);
        }
    });
}

// How much of the destination an instruction writes.
uint64_t written(const Instruction &in, const Lanes &lanes) {
    const uint32_t size = size_of(in.dst.type);
    switch (in.op) {
        case Op::compare: case Op::compare_scalar: return (lanes.size() + 7) / 8;
        case Op::reduce_sum: return size;
        case Op::reduce_max: case Op::reduce_min: return in.kind ? 2 * size : size;
        case Op::whole_sum: return ((in.repeat.times - 1) * in.repeat.dst_repeat + 1) * size;
        case Op::whole_max: case Op::whole_min: {
            const uint64_t each = in.kind < 2 ? 2 * size : size;
            return ((in.repeat.times - 1) * in.repeat.dst_repeat + 1) * each;
        }
        case Op::block_sum: case Op::block_max: case Op::block_min:
            return uint64_t((in.repeat.times - 1) * in.repeat.dst_repeat + 1) * 8 * size;
        case Op::pair_sum:
            return uint64_t((in.repeat.times - 1) * in.repeat.dst_repeat + 1) * 128;
        case Op::scatter: return in.dst.bytes;
        default: return lanes.extent(&Lane::dst, size);
    }
}

// A result for each repeat need not begin a block, a value with its index takes two elements.
uint32_t result_alignment(const Instruction &in) {
    const uint32_t size = size_of(in.dst.type);
    switch (in.op) {
        case Op::whole_sum: case Op::reduce_sum: return size;
        case Op::whole_max: case Op::whole_min: return in.kind == 2 ? size : 2 * size;
        case Op::reduce_max: case Op::reduce_min: return in.kind ? 2 * size : size;
        default: return block_bytes;
    }
}

void check_shape(const Instruction &in) {
    const uint32_t size = std::max(size_of(in.dst.type), size_of(in.a.type));
    if (in.repeat.on) {
        if (in.repeat.times == ~0u)
            refuse("mask", in.line, "%s: a repeat of 256 bytes has %u elements of this type, the "
                   "mask names more", in.name, 256 / size);
        if (in.repeat.times > 255)
            refuse("count", in.line, "%s repeats %u times: 255 at most", in.name, in.repeat.times);
        if (256 / size < 64 ? (in.repeat.mask[0] >> (256 / size)) != 0 || in.repeat.mask[1] != 0
                            : 256 / size == 64 && in.repeat.mask[1] != 0)
            refuse("mask", in.line, "%s: the mask names lanes past the %u of a repeat", in.name,
                   256 / size);
        return;
    }
    if ((in.op == Op::shift_left || in.op == Op::shift_right) && job.arch != 3510 &&
        in.scalar > 8 * size_of(in.a.type))
        refuse("count", in.line, "%s by %llu: more than the %u bits of an element", in.name,
               static_cast<unsigned long long>(in.scalar), 8 * size_of(in.a.type));
    if (int32_t(in.count) < 0) refuse("count", in.line, "%s of a negative count", in.name);
    if ((in.op == Op::compare || in.op == Op::compare_scalar) &&
        uint64_t(in.count) * size_of(in.a.type) % 256 != 0)
        refuse("count", in.line, "%s of %u elements: they must fill a multiple of 256 bytes",
               in.name, in.count);
    if ((in.op == Op::compare || in.op == Op::compare_scalar) && job.arch != 3510 &&
        in.a.type == Type::i32 && in.kind != 2)
        refuse("type", in.line, "%s of int32_t knows EQ alone on architecture %d", in.name,
               job.arch);
}

void check_overlap(const Instruction &in, const View &src, uint64_t src_bytes, uint64_t dst_bytes,
                   const char *operand) {
    if (src.address == in.dst.address && in.op != Op::gather && in.op != Op::scatter &&
        size_of(in.a.type) == size_of(in.dst.type))
        return;
    if (in.dst.address < src.address + src_bytes && src.address < in.dst.address + dst_bytes)
        refuse("overlap", in.line, "%s: dst and %s overlap in part", in.name, operand);
}

// What a reduction needs of its sharedTmpBuffer, by the reference's formulas.
uint64_t scratch_bytes(const Instruction &in) {
    const uint64_t size = size_of(in.a.type), block = 32 / size, repeat = 256 / size;
    const auto whole_blocks = [&](uint64_t n) { return (n + block - 1) / block * block; };
    const uint64_t first = std::max<uint64_t>(1, (in.count + repeat - 1) / repeat);
    if (job.arch == 3510) return 0;
    if (in.op == Op::reduce_sum) return job.arch == 2201 ? 0 : whole_blocks(first) * size;
    uint64_t made = first * 2, needed = whole_blocks(made);
    while (in.kind && made > 2) {
        made = (made + repeat - 1) / repeat * 2;
        needed += whole_blocks(made);
    }
    return needed * size;
}

constexpr uint32_t select_scratch = 8192;

void check_select(const Instruction &in) {
    const bool scalar = in.op == Op::select_scalar;
    if (scalar != (in.kind == 1))
        refuse("type", in.line, "Select with %s takes %s", scalar ? "a scalar" : "two tensors",
               scalar ? "VSEL_TENSOR_SCALAR_MODE" : "no VSEL_TENSOR_SCALAR_MODE");
    if (job.arch == 3510 || in.kind == 0) return;
    if (job.reserve < select_scratch && current->used + select_scratch > job.limit)
        refuse("budget", in.line, "Select of this mode needs 8192 bytes of the Unified Buffer for "
               "itself: %u of %u are taken", current->used, job.limit);
}

}  // namespace

void issue(const Instruction &given) {
    Instruction in = given;
    current->last_line = in.line;
    in.saturates = current->saturates && rounds(in.op) &&
                   (in.dst.type == Type::f16 || in.dst.type == Type::bf16);
    if (in.op == Op::select || in.op == Op::select_scalar) check_select(in);
    check_shape(in);
    const Lanes lanes(in);
    if (lanes.size() == 0) return;
    const uint64_t dst_bytes = written(in, lanes);
    const bool table = in.op == Op::gather;
    const uint64_t a_bytes = table ? in.a.bytes
                                   : lanes.extent(&Lane::a, size_of(in.a.type));
    Accesses accesses;
    const bool reads_a = in.op != Op::duplicate && in.op != Op::create_index;
    check_view(in.dst, in.op == Op::scatter ? 0 : dst_bytes, in.name, "dst", in.line,
               result_alignment(in));
    if (reads_a) {
        check_view(in.a, a_bytes, in.name, "src0", in.line);
        check_overlap(in, in.a, a_bytes, dst_bytes, "src0");
        accesses.local_reads.push_back({in.a.address, a_bytes});
    }
    if (two_sources(in.op) || in.op == Op::compare || in.op == Op::select) {
        const uint64_t bytes = lanes.extent(&Lane::b, size_of(in.a.type));
        check_view(in.b, bytes, in.name, "src1", in.line);
        check_overlap(in, in.b, bytes, dst_bytes, "src1");
        accesses.local_reads.push_back({in.b.address, bytes});
    }
    if (in.op == Op::gather || in.op == Op::scatter) {
        check_view(in.b, uint64_t(in.count) * 4, in.name, "the offsets", in.line);
        check_overlap(in, in.b, uint64_t(in.count) * 4, dst_bytes, "the offsets");
        accesses.local_reads.push_back({in.b.address, uint64_t(in.count) * 4});
    }
    if (in.op == Op::select || in.op == Op::select_scalar) {
        const uint64_t bits = in.kind == 0 ? std::min<uint64_t>(in.count, 256 / size_of(in.a.type))
                                           : in.count;
        check_view(in.c, (bits + 7) / 8, in.name, "selMask", in.line);
        accesses.local_reads.push_back({in.c.address, (bits + 7) / 8});
    }
    if (in.op == Op::mul_add_dst || in.op == Op::fused_mul_add || in.op == Op::axpy)
        accesses.local_reads.push_back({in.dst.address, dst_bytes});
    if (in.op == Op::reduce_sum || in.op == Op::reduce_max || in.op == Op::reduce_min) {
        check_view(in.b, scratch_bytes(in), in.name, "sharedTmpBuffer", in.line);
        accesses.local_writes.push_back({in.b.address, in.b.bytes});
    }
    accesses.local_writes.push_back({in.dst.address, dst_bytes});
    Core *core = current;
    submit(Pipe::V, in.line, accesses, [core, in, lanes, dst_bytes] {
        Core *before = current;
        current = core;
        perform(in, lanes);
        if (in.saturates) saturate(in, dst_bytes);
        current = before;
    });
}

void accumulate(int operation, Type type, uint8_t *to, const uint8_t *from, uint64_t bytes) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const Op op = operation == 1 ? Op::add : operation == 2 ? Op::max : Op::min;
        for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
            const T old = read_as<T>(to + i), more = read_as<T>(from + i);
            write_as<T>(to + i, arithmetic<T>(op, old, more, old));
        }
    });
}

namespace {

void check_copy(const Copy &copy) {
    const uint32_t size = size_of(copy.local.type);
    if (copy.ragged && job.arch == 2002)
        refuse("type", copy.line, "architecture 2002 has no DataCopyPad");
    if (copy.blocks > 4095)
        refuse("count", copy.line, "%s of %u blocks: 4095 at most", copy.name, copy.blocks);
    if (copy.ragged && copy.block_bytes > 2097151)
        refuse("count", copy.line, "DataCopyPad of blocks of %llu bytes: 2097151 at most",
               static_cast<unsigned long long>(copy.block_bytes));
    if (!copy.ragged && copy.block_bytes % block_bytes != 0)
        refuse("count", copy.line, "DataCopy of %llu bytes: not a multiple of 32, the rest would "
               "be left out", static_cast<unsigned long long>(copy.block_bytes));
    if (copy.block_bytes % size != 0)
        refuse("count", copy.line, "DataCopyPad of blocks of %llu bytes: not whole elements of %u",
               static_cast<unsigned long long>(copy.block_bytes), size);
    if (!copy.ragged && copy.global % size != 0)
        refuse("alignment", copy.line, "DataCopy at a global address that is not a multiple of %u",
               size);
    if (copy.left * size > 32 || copy.right * size > 32)
        refuse("count", copy.line, "DataCopyPad pads by more than 32 bytes");
    if (copy.pads && size == 8 && copy.padding != 0)
        refuse("type", copy.line, "DataCopyPad pads 64-bit elements with 0 alone");
    if (copy.global_gap < -int64_t(copy.block_bytes) || (job.arch != 3510 && copy.global_gap < 0))
        refuse("count", copy.line, "DataCopyPad with a negative stride");
}

// How much of a copy lies in its array, and in what SetGlobalBuffer was told. Without DataCopyPad
// the last block of 32 bytes is read whole: allocations are documented to go on for 32 bytes, and
// nobody may use what is there.
uint64_t bytes_there(const Copy &copy, uint64_t global) {
    const Region *region = region_of(global);
    const bool rounded = job.arch == 2002 && !copy.to_global && region != nullptr;
    if (!rounded) return copy.block_bytes;
    const uint64_t told = copy.global_bytes != 0 ? copy.global_bytes : region->end;
    const uint64_t end = std::min(region->end, told), stop = global + copy.block_bytes;
    const uint64_t past = stop > end ? stop - end : 0;
    return past < block_bytes ? copy.block_bytes - past : copy.block_bytes;
}

void move_block(Core *core, const Copy &copy, uint64_t global, uint64_t local, uint64_t span,
                int atomic, Type atomic_type) {
    const uint32_t size = size_of(copy.local.type);
    uint8_t *at = core->local.data() + local;
    auto *memory = reinterpret_cast<uint8_t *>(global);
    if (copy.to_global) {
        if (atomic) accumulate(atomic, atomic_type, memory, at, copy.block_bytes);
        else memcpy(memory, at, copy.block_bytes);
        return;
    }
    const uint64_t left = uint64_t(copy.left) * size;
    for (uint64_t i = 0; i < span; i += 1) {
        if (i >= left && i < left + copy.block_bytes) continue;
        if (copy.pads) at[i] = uint8_t(copy.padding >> (i % size * 8));
        else if (copy.left == 0 && copy.right == 0) at[i] = memory[i % size];
        else at[i] = uint8_t(hash(i ^ global));
    }
    const uint64_t there = bytes_there(copy, global);
    memcpy(at + left, memory, there);
    for (uint64_t i = there; i < copy.block_bytes; ++i) at[left + i] = uint8_t(hash(i ^ global));
}

}  // namespace

// Padding is what the reference promises: with no padding asked for, the first element; with
// padding but no value, anything.
void issue(const Copy &copy) {
    current->last_line = copy.line;
    check_copy(copy);
    if (copy.blocks == 0 || copy.block_bytes == 0) return;
    const uint32_t size = size_of(copy.local.type);
    const uint64_t filled = copy.block_bytes + uint64_t(copy.left + copy.right) * size;
    const uint64_t span = (filled + block_bytes - 1) / block_bytes * block_bytes;
    Accesses accesses;
    for (uint32_t i = 0; i < copy.blocks; ++i) {
        const uint64_t global = copy.global + uint64_t(i) * (copy.block_bytes +
                                                             uint64_t(copy.global_gap));
        const uint64_t local = i * (span + uint64_t(copy.local_gap));
        const uint64_t there = bytes_there(copy, global);
        check_global(global, there, copy.global_bytes, copy.to_global, copy.line, copy.name);
        const uint64_t used = copy.to_global ? copy.block_bytes : span;
        check_view(copy.local, local + used, copy.name, copy.to_global ? "src" : "dst", copy.line);
        auto &locals = copy.to_global ? accesses.local_reads : accesses.local_writes;
        auto &globals = copy.to_global ? accesses.global_writes : accesses.global_reads;
        locals.push_back({copy.local.address + local, used});
        if (!(copy.to_global && current->atomic)) globals.push_back({global, there});
    }
    Core *core = current;
    const int atomic = copy.to_global ? current->atomic : 0;
    const Type atomic_type = current->atomic_type;
    if (atomic && atomic_type != copy.local.type)
        refuse("type", copy.line, "%s of %s while the atomic type is %s", copy.name,
               type_name(copy.local.type), type_name(atomic_type));
    submit(copy.to_global ? Pipe::MTE3 : Pipe::MTE2, copy.line, accesses,
           [core, copy, span, atomic, atomic_type] {
               for (uint32_t i = 0; i < copy.blocks; ++i)
                   move_block(core, copy,
                              copy.global + uint64_t(i) * (copy.block_bytes +
                                                           uint64_t(copy.global_gap)),
                              copy.local.address + i * (span + uint64_t(copy.local_gap)), span,
                              atomic, atomic_type);
           });
}

void copy_local(const View &dst, const View &src, uint32_t blocks, uint32_t bytes,
                uint32_t src_gap, uint32_t dst_gap, int line) {
    current->last_line = line;
    if (bytes % block_bytes != 0)
        refuse("count", line, "DataCopy of %u bytes: not a multiple of 32", bytes);
    if (blocks == 0 || bytes == 0) return;
    const uint64_t from = uint64_t(blocks) * bytes + uint64_t(blocks - 1) * src_gap;
    const uint64_t to = uint64_t(blocks) * bytes + uint64_t(blocks - 1) * dst_gap;
    check_view(src, from, "DataCopy", "src", line);
    check_view(dst, to, "DataCopy", "dst", line);
    if (dst.address < src.address + from && src.address < dst.address + to)
        refuse("overlap", line, "DataCopy: dst and src overlap");
    Accesses accesses;
    accesses.local_reads.push_back({src.address, from});
    accesses.local_writes.push_back({dst.address, to});
    Core *core = current;
    submit(Pipe::V, line, accesses, [=] {
        uint8_t *local = core->local.data();
        for (uint32_t i = 0; i < blocks; ++i)
            memmove(local + dst.address + uint64_t(i) * (bytes + dst_gap),
                    local + src.address + uint64_t(i) * (bytes + src_gap), bytes);
    });
}

uint64_t load_local(const View &view, int line) {
    const uint32_t size = size_of(view.type);
    current->last_line = line;
    if (size > view.bytes) refuse("bounds", line, "GetValue past the end of a LocalTensor");
    advance(Pipe::S, line);
    touch_local(Pipe::S, {view.address, size}, false, line);
    uint64_t bits = 0;
    memcpy(&bits, current->local.data() + view.address, size);
    return bits;
}

void store_local(const View &view, uint64_t bits, int line) {
    const uint32_t size = size_of(view.type);
    current->last_line = line;
    if (size > view.bytes) refuse("bounds", line, "SetValue past the end of a LocalTensor");
    advance(Pipe::S, line);
    touch_local(Pipe::S, {view.address, size}, true, line);
    memcpy(current->local.data() + view.address, &bits, size);
}

}  // namespace hetir_shim
