/* Tests of the C library: test_library FILE.hetbin, made of library_kernels.py for the CPU. Every
 * expected value was worked out by hand. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hetir.h"

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, hetir_error());      \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

enum { N = 200 };

static hetir_module *module;
static hetir_device *cpu;

static hetir_kernel *named(const char *name)
{
    hetir_kernel *kernel = NULL;
    CHECK(hetir_module_kernel(module, name, &kernel) == HETIR_OK);
    return kernel;
}

static int says(const char *what)
{
    return strstr(hetir_error(), what) != NULL;
}

static void run_saxpy(int64_t items)
{
    float x[N], y[N];
    hetir_argument arguments[] = {hetir_number(2), hetir_host(HETIR_F32, x, N), hetir_host(HETIR_F32, y, N)};
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    CHECK(hetir_launch_1d(named("saxpy"), cpu, (N + items - 1) / items, items, arguments, 3) == HETIR_OK);
    for (int i = 0; i < N; i++)
        CHECK(y[i] == 2 * (float)i + 1);
}

static void test_listing(void)
{
    CHECK(hetir_module_kernel_count(module) == 6);
    CHECK(strcmp(hetir_kernel_name(hetir_module_kernel_at(module, 0)), "saxpy") == 0);
    CHECK(hetir_module_kernel_at(module, 6) == NULL);
    CHECK(hetir_kernel_signature_count(named("saxpy")) == 2);
    CHECK(strcmp(hetir_kernel_signature(named("saxpy"), 0), "f32, f32[::1], f32[::1]") == 0);
    CHECK(strcmp(hetir_kernel_signature(named("saxpy"), 1), "f32, f32[:], f32[:]") == 0);
    CHECK(hetir_kernel_signature(named("saxpy"), 2) == NULL);
    CHECK(hetir_kernel_parameter_count(named("scalars")) == 10);
    CHECK(strcmp(hetir_kernel_parameter_name(named("scalars"), 8), "v") == 0);
    CHECK(hetir_kernel_parameter_name(named("scalars"), 10) == NULL);
    CHECK(strcmp(hetir_device_name(0), "cpu") == 0);
    CHECK(strcmp(hetir_result_name(HETIR_NO_PAYLOAD), "HETIR_NO_PAYLOAD") == 0);
    CHECK(strcmp(hetir_result_name((hetir_result)77), "no hetir_result") == 0);
}

static void test_scalars(void)
{
    const int32_t v[3] = {1, 2, 3};
    double out[9];
    hetir_argument good[] = {
        hetir_integer(1), hetir_integer(-128), hetir_integer(255), hetir_integer(-(INT64_C(1) << 62)),
        hetir_bits(HETIR_U64, UINT64_C(1) << 63),
        hetir_number(2049), /* halfway between 2048 and 2050: to even */
        hetir_number(1 + 1.5 / 128), /* halfway between 1 + 1/128 and 1 + 2/128: to even */
        hetir_number(0.1), hetir_vector(HETIR_I32, v, 3), hetir_host(HETIR_F64, out, 9),
    };
    static const struct {
        double number, f16;
    } halves[] = {{65519, 65504}, {65520, INFINITY}, {0x1p-24, 0x1p-24}, {0x1p-25, 0},
                  {0x1.8p-25, 0x1p-24}, {-0x1.ff8p-15, -0x1.ff8p-15}, {-0x1.ffcp-15, -0x1p-14},
                  {0x1.ffep-15, 0x1p-14}, {0, 0}};
    hetir_argument wrong[10];
    hetir_kernel *kernel = named("scalars");
    CHECK(hetir_launch_1d(kernel, cpu, 1, 1, good, 10) == HETIR_OK);
    CHECK(out[0] == 1 && out[1] == -128 && out[2] == 255 && out[3] == -0x1p62 && out[4] == 0x1p63);
    CHECK(out[5] == 2048 && out[6] == 1 + 2.0 / 128 && out[7] == 0.1 && out[8] == 321);
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++) {
        good[5] = hetir_number(halves[i].number);
        CHECK(hetir_launch_1d(kernel, cpu, 1, 1, good, 10) == HETIR_OK);
        CHECK(out[5] == halves[i].f16);
    }
    good[5] = hetir_number(NAN);
    good[6] = hetir_number(0x1.fffp127);
    CHECK(hetir_launch_1d(kernel, cpu, 1, 1, good, 10) == HETIR_OK);
    CHECK(isnan(out[5]) && isinf(out[6]));
    for (int i = 0; i < 10; i++) {
        static const char *const reasons[] = {"out of the range of `bool`", "out of the range of `i8`",
                                              "out of the range of `u8`", "must be a `i64`",
                                              "out of the range of `u64`", "does not take exactly",
                                              "must be a `bf16`", "must be a scalar", "must be a vector",
                                              "must be an array"};
        memcpy(wrong, good, sizeof wrong);
        wrong[i] = i == 0   ? hetir_integer(2)
                   : i == 1 ? hetir_integer(128)
                   : i == 2 ? hetir_integer(-1)
                   : i == 3 ? hetir_number(1)
                   : i == 4 ? hetir_integer(-1)
                   : i == 5 ? hetir_integer(INT64_MAX)
                   : i == 6 ? hetir_bits(HETIR_F16, 0)
                   : i == 7 ? hetir_host(HETIR_F64, out, 9)
                   : i == 8 ? hetir_vector(HETIR_I32, v, 2)
                            : hetir_host(HETIR_F32, out, 9);
        CHECK(hetir_launch_1d(kernel, cpu, 1, 1, wrong, 10) == HETIR_BAD_ARGUMENT);
        CHECK(says(reasons[i]));
    }
}

static void test_strides(void)
{
    int32_t x[2][6] = {{1, 0, 2, 0, 3, 0}, {4, 0, 5, 0, 6, 0}}, y[3][2];
    const int64_t grid[3] = {1, 1, 1}, workgroup[3] = {4, 4, 1};
    const int64_t from[2] = {2, 3}, to[2] = {3, 2}, every_other[2] = {24, 8}, backwards[2] = {-24, 8};
    hetir_argument arguments[2] = {hetir_host(HETIR_I32, x, 0), hetir_host(HETIR_I32, y, 0)};
    arguments[0].ndim = arguments[1].ndim = 2;
    arguments[0].shape = from;
    arguments[0].strides = every_other;
    arguments[1].shape = to;
    CHECK(hetir_launch_grid(named("transpose"), cpu, grid, workgroup, arguments, 2) == HETIR_OK);
    CHECK(y[0][0] == 1 && y[1][0] == 2 && y[2][0] == 3 && y[0][1] == 4 && y[1][1] == 5 && y[2][1] == 6);
    arguments[0].strides = backwards; /* from the last row up */
    arguments[0].host = x[1];
    CHECK(hetir_launch_grid(named("transpose"), cpu, grid, workgroup, arguments, 2) == HETIR_OK);
    CHECK(y[0][0] == 4 && y[0][1] == 1 && y[2][0] == 6 && y[2][1] == 3);
}

static void test_bad_arrays(void)
{
    float x[N], y[N];
    const int64_t negative[1] = {-1}, far[1] = {INT64_MAX}, odd[1] = {6}, zero[1] = {0}, least[1] = {INT64_MIN};
    hetir_argument good[] = {hetir_number(1), hetir_host(HETIR_F32, x, 4), hetir_host(HETIR_F32, y, 4)};
    hetir_kernel *kernel = named("saxpy");
    hetir_argument a[3];
    hetir_buffer *buffer = NULL;
#define REFUSED(change, reason)                                                       \
    do {                                                                              \
        memcpy(a, good, sizeof a);                                                    \
        change;                                                                       \
        CHECK(hetir_launch_1d(kernel, cpu, 1, 4, a, 3) == HETIR_BAD_ARGUMENT);        \
        CHECK(says(reason));                                                          \
    } while (0)
    for (int i = 0; i < 4; i++)
        x[i] = y[i] = 1;
    REFUSED(a[1].shape = negative, "extent -1");
    REFUSED((a[1].shape = far, a[1].strides = far), "reaches too far");
    REFUSED(a[1].strides = odd, "not aligned");
    REFUSED(a[1].strides = least, "extent");
    REFUSED(a[2].strides = zero, "overlaps itself");
    REFUSED(a[1].host = NULL, "is null");
    REFUSED(a[1].host = (char *)x + 1, "not aligned");
    REFUSED(a[1].ndim = 2, "with 1 dimensions");
    REFUSED(a[1].ndim = -1, "with 1 dimensions");
    REFUSED(a[1].kind = (hetir_argument_kind)9, "must be an array");
    REFUSED(a[0].kind = (hetir_argument_kind)9, "must be a scalar");
    CHECK(hetir_allocate(cpu, 12, &buffer) == HETIR_OK);
    REFUSED((a[1].buffer = buffer), "out of its buffer of 12 bytes");
    REFUSED((a[1].buffer = buffer, a[1].extent = 1, a[1].offset = -4), "out of its buffer");
    REFUSED((a[1].buffer = buffer, a[1].extent = 1, a[1].offset = INT64_MAX), "out of its buffer");
    CHECK(hetir_write(buffer, 8, x, 8) == HETIR_BAD_ARGUMENT && says("8 bytes at 8"));
    CHECK(hetir_write(buffer, SIZE_MAX, x, 8) == HETIR_BAD_ARGUMENT);
    CHECK(hetir_read(buffer, 0, NULL, 8) == HETIR_BAD_ARGUMENT);
    CHECK(hetir_buffer_data(buffer) != NULL && hetir_buffer_size(buffer) == 12);
    hetir_free(buffer);
    hetir_free(NULL);
    CHECK(hetir_allocate(cpu, SIZE_MAX, &buffer) == HETIR_OUT_OF_MEMORY);
    CHECK(hetir_launch_1d(kernel, cpu, 1, 4, good, 2) == HETIR_BAD_ARGUMENT && says("takes 3 arguments, got 2"));
    CHECK(hetir_launch_1d(kernel, cpu, 1, 4, NULL, 3) == HETIR_BAD_ARGUMENT);
    CHECK(hetir_launch_1d(NULL, cpu, 1, 4, good, 3) == HETIR_BAD_ARGUMENT);
    CHECK(hetir_launch_1d(kernel, cpu, -1, 4, good, 3) == HETIR_BAD_SHAPE);
    CHECK(hetir_launch_1d(kernel, cpu, 1, 0, good, 3) == HETIR_BAD_SHAPE);
    CHECK(hetir_launch_1d(kernel, cpu, 1, 5000, good, 3) == HETIR_BAD_SHAPE && says("takes 4096"));
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == 1);
    /* an empty grid runs nothing; an empty array is no mistake */
    CHECK(hetir_launch_1d(kernel, cpu, 0, 4, good, 3) == HETIR_OK && y[0] == 1);
    good[1].extent = good[2].extent = 0;
    good[1].host = NULL;
    CHECK(hetir_launch_1d(kernel, cpu, 1, 4, good, 3) == HETIR_OK && y[0] == 1);
    good[1] = good[2] = hetir_host(HETIR_F32, y, 4); /* the same array twice: 1 * y + y */
    CHECK(hetir_launch_1d(kernel, cpu, 1, 4, good, 3) == HETIR_OK && y[0] == 2 && y[3] == 2);
}

static void test_constants(void)
{
    float x[2] = {1, 2};
    hetir_argument arguments[] = {hetir_integer(3), hetir_host(HETIR_F32, x, 2)};
    CHECK(hetir_kernel_signature_count(named("scaled")) == 2);
    CHECK(hetir_launch_1d(named("scaled"), cpu, 1, 2, arguments, 2) == HETIR_OK && x[1] == 6);
    arguments[0] = hetir_number(0.5);
    CHECK(hetir_launch_1d(named("scaled"), cpu, 1, 2, arguments, 2) == HETIR_OK && x[1] == 3);
    arguments[0] = hetir_integer(4);
    CHECK(hetir_launch_1d(named("scaled"), cpu, 1, 2, arguments, 2) == HETIR_BAD_ARGUMENT);
    CHECK(says("was built as the constant `0.5`"));
    arguments[0] = hetir_number(3);
    CHECK(hetir_launch_1d(named("scaled"), cpu, 1, 2, arguments, 2) == HETIR_BAD_ARGUMENT);
}

static void test_output(void)
{
    float x[3] = {0.1f, 2, -1.5f};
    const int64_t shape[2] = {1, 3};
    hetir_argument arguments[] = {hetir_host(HETIR_F32, x, 3)};
    CHECK(hetir_launch_1d(named("told"), cpu, 1, 2, arguments, 1) == HETIR_OK);
    CHECK(hetir_launch_1d(named("told"), cpu, 1, 3, arguments, 1) == HETIR_CHECK_FAILED);
    arguments[0].ndim = 2;
    arguments[0].shape = shape;
    CHECK(hetir_launch_1d(named("shifted"), cpu, 1, 3, arguments, 1) == HETIR_CHECK_FAILED);
    CHECK(says("index (0, 3) is out of bounds for `x` of shape (1, 3) in `shifted`") && x[2] == 5);
    arguments[0] = hetir_host(HETIR_F32, x, 3);
    x[2] = -1.5f;
    CHECK(hetir_launch_1d(named("told"), cpu, 1, 3, arguments, 1) == HETIR_CHECK_FAILED);
    CHECK(says("assertion failed in `told`: negative (library_kernels.py:") && says("work-item 2 of"));
}

static void test_payloads(void)
{
    const int64_t grid[3] = {4, 1, 1}, workgroup[3] = {64, 1, 1};
    float x[N] = {0};
    hetir_argument a[] = {hetir_number(1), hetir_host(HETIR_F32, x, N), hetir_host(HETIR_F32, x, N)};
    const char *level = getenv("HETIR_CPU_LEVEL");
    const char *target = hetir_launch_target(named("saxpy"), cpu, grid, workgroup, a, 3);
    if (level && strcmp(level, "1") == 0) {
        CHECK(target && strcmp(target, "cpu:x86-64") == 0); /* as on a machine without AVX2 */
    } else
        CHECK(target && strncmp(target, "cpu:", 4) == 0);
}

static void *work(void *ignored)
{
    for (int i = 0; i < 50; i++)
        run_saxpy(i % 2 ? 64 : 50);
    return ignored;
}

static void test_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- files that are not what they should be */

static uint32_t crc32c(uint32_t crc, const uint8_t *data, uint64_t size)
{
    crc = ~crc;
    for (uint64_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
    }
    return ~crc;
}

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* Makes the checksum of the tables right again, so that what they say is looked at. */
static void sign(uint8_t *data, uint64_t size)
{
    uint32_t end = word(data + 24), crc;
    if (end < 32 || end > size)
        return;
    memset(data + 12, 0, 4);
    crc = crc32c(0, data, end);
    memcpy(data + 12, &crc, 4);
}

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    data = malloc(*size);
    CHECK(data && fread(data, 1, *size, file) == *size);
    fclose(file);
    return data;
}

/* Opens mutated copies and looks at all that can be looked at without running code. */
static void test_mutations(const char *path, int rounds)
{
    size_t size;
    uint8_t *data = read_all(path, &size), *copy = malloc(size);
    int taken = 0;
    uint32_t tables = word(data + 24);
    CHECK(copy);
    for (int i = 0; i < rounds; i++) {
        size_t length = rand() % 8 ? size : (size_t)rand() % size;
        hetir_module *opened = NULL;
        memcpy(copy, data, length);
        for (int j = rand() % 3; j >= 0; j--) {
            static const uint32_t numbers[] = {0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, 64, 4096};
            size_t at = (size_t)rand() % tables / 4 * 4;
            uint32_t number = rand() % 2 ? numbers[rand() % 7] : word(data + at) ^ 1u << rand() % 32;
            if (at + 4 <= length)
                memcpy(copy + at, &number, 4);
        }
        if (length >= 32)
            sign(copy, length);
        if (hetir_module_from_memory(copy, length, &opened) == HETIR_OK) {
            for (size_t k = 0; k < hetir_module_kernel_count(opened); k++) {
                hetir_kernel *kernel = hetir_module_kernel_at(opened, k);
                hetir_argument none[3] = {hetir_integer(0), hetir_integer(0), hetir_integer(0)};
                taken += (int)strlen(hetir_kernel_name(kernel));
                for (size_t s = 0; s < hetir_kernel_signature_count(kernel); s++)
                    taken += (int)strlen(hetir_kernel_signature(kernel, s));
                for (size_t p = 0; p < hetir_kernel_parameter_count(kernel); p++)
                    taken += (int)strlen(hetir_kernel_parameter_name(kernel, p));
                hetir_launch_1d(kernel, cpu, 0, 1, none, 3);
            }
            hetir_module_close(opened);
        }
    }
    CHECK(taken > 0);
    free(copy);
    free(data);
}

static void test_bad_files(const char *path)
{
    size_t size;
    uint8_t *data = read_all(path, &size);
    hetir_module *opened = NULL;
    CHECK(hetir_module_open("/nowhere/at/all.hetbin", &opened) == HETIR_BAD_FILE && says("cannot be read"));
    CHECK(hetir_module_open(NULL, &opened) == HETIR_BAD_ARGUMENT);
    CHECK(hetir_module_from_memory("no hetbin", 9, &opened) == HETIR_BAD_FILE && says("byte 0"));
    CHECK(hetir_module_from_memory(data, 20, &opened) == HETIR_BAD_FILE && says("byte 20"));
    CHECK(hetir_module_from_memory(data, size - 1, &opened) == HETIR_BAD_FILE && says("byte 16"));
    data[size - 1] ^= 1;
    CHECK(hetir_module_from_memory(data, size, &opened) == HETIR_BAD_FILE && says("checksum"));
    data[size - 1] ^= 1;
    data[8] = 2;
    CHECK(hetir_module_from_memory(data, size, &opened) == HETIR_NEWER_FILE && says("format 2.0"));
    free(data);
}

int main(int count, char **arguments)
{
    hetir_kernel *kernel = NULL;
    hetir_device *device = NULL;
    CHECK(count == 3);
    srand(7);
    test_bad_files(arguments[1]);
    CHECK(hetir_module_open(arguments[1], &module) == HETIR_OK);
    CHECK(hetir_device_open("cpu", &cpu) == HETIR_OK);
    CHECK(hetir_module_kernel(module, "nope", &kernel) == HETIR_NOT_FOUND && says("no kernel `nope`"));
    CHECK(hetir_device_open("abacus", &device) == HETIR_NOT_FOUND && says("here are cpu"));
    test_listing();
    test_scalars();
    test_strides();
    test_bad_arrays();
    test_constants();
    test_output();
    test_payloads();
    test_threads();
    test_mutations(arguments[1], atoi(arguments[2]));
    hetir_module_close(module);
    hetir_module_close(NULL);
    puts("the C library's tests pass");
    return 0;
}
