// Launches kernels that the build embedded, on every device of this machine, and checks what they
// give against values computed here.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hetir.h"
#include "kernels.hetbin.h"

namespace {

void check(hetir_result result)
{
    if (result != HETIR_OK)
        throw std::runtime_error(std::string(hetir_result_name(result)) + ": " + hetir_error());
}

void require(bool condition, const char *what)
{
    if (!condition)
        throw std::runtime_error(std::string("wrong: ") + what);
}

struct Module {
    hetir_module *module = nullptr;
    Module() { check(hetir_module_from_memory(hetir_kernels, hetir_kernels_size, &module)); }
    ~Module() { hetir_module_close(module); }
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;
    hetir_kernel *operator[](const char *name) const
    {
        hetir_kernel *kernel = nullptr;
        check(hetir_module_kernel(module, name, &kernel));
        return kernel;
    }
};

template <typename T> struct Buffer {
    hetir_buffer *buffer = nullptr;
    explicit Buffer(hetir_device *device, const std::vector<T> &values)
    {
        check(hetir_allocate(device, values.size() * sizeof(T), &buffer));
        check(hetir_write(buffer, 0, values.data(), values.size() * sizeof(T)));
    }
    ~Buffer() { hetir_free(buffer); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    std::vector<T> read() const
    {
        std::vector<T> values(hetir_buffer_size(buffer) / sizeof(T));
        check(hetir_read(buffer, 0, values.data(), values.size() * sizeof(T)));
        return values;
    }
};

void saxpy(const Module &module, hetir_device *device)
{
    const std::int64_t n = 1000;
    std::vector<float> x(n), y(n, 1.0f);
    std::iota(x.begin(), x.end(), 0.0f);
    Buffer<float> dx(device, x), dy(device, y);
    const hetir_argument arguments[] = {hetir_number(2.0), hetir_array(HETIR_F32, dx.buffer, n),
                                        hetir_array(HETIR_F32, dy.buffer, n)};
    check(hetir_launch_1d(module["saxpy"], device, (n + 255) / 256, 256, arguments, 3));
    y = dy.read();
    for (std::int64_t i = 0; i < n; i++)
        require(y[i] == 2.0f * x[i] + 1.0f, "saxpy");
}

void group_sums(const Module &module, hetir_device *device)
{
    std::vector<std::int32_t> x(100);
    std::iota(x.begin(), x.end(), 1); // 1 to 100, in groups of 64
    Buffer<std::int32_t> dx(device, x);
    Buffer<std::int64_t> sums(device, {0, 0});
    const hetir_argument arguments[] = {hetir_array(HETIR_I32, dx.buffer, 100),
                                        hetir_array(HETIR_I64, sums.buffer, 2)};
    check(hetir_launch_1d(module["group_sums"], device, 2, 64, arguments, 2));
    require(sums.read() == std::vector<std::int64_t>({64 * 65 / 2, 5050 - 64 * 65 / 2}), "group_sums");
}

void checked_sqrt(const Module &module, hetir_device *device)
{
    Buffer<double> x(device, {4.0, 2.0, -1.0, 0.25});
    const hetir_argument arguments[] = {hetir_array(HETIR_F64, x.buffer, 4)};
    const hetir_result result = hetir_launch_1d(module["checked_sqrt"], device, 1, 4, arguments, 1);
    require(result == HETIR_CHECK_FAILED, "the failed assertion");
    require(std::strstr(hetir_error(), "a negative number") != nullptr, "its message");
    const std::vector<double> roots = x.read();
    require(roots[0] == 2.0 && roots[1] == std::sqrt(2.0) && roots[3] == 0.5, "checked_sqrt");
}

// One module, one device, several threads: each has its own arrays.
void several_threads(const Module &module, hetir_device *device)
{
    std::vector<std::thread> threads;
    std::vector<std::string> errors(4);
    for (std::string &error : errors)
        threads.emplace_back([&module, device, &error] {
            try {
                for (int i = 0; i < 10; i++)
                    saxpy(module, device);
            } catch (const std::exception &failure) {
                error = failure.what();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const std::string &error : errors)
        require(error.empty(), error.c_str());
}

} // namespace

int main()
{
    try {
        const Module module;
        int tried = 0;
        for (std::size_t i = 0; hetir_device_name(i) != nullptr; i++) {
            hetir_device *device = nullptr;
            check(hetir_device_open(hetir_device_name(i), &device));
            std::printf("%s (%s)\n", hetir_device_name(i), hetir_device_title(device));
            saxpy(module, device);
            group_sums(module, device);
            checked_sqrt(module, device);
            several_threads(module, device);
            tried++;
        }
        std::printf("%d devices give the right values\n", tried);
        return tried > 0 ? 0 : 1;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
