/* Errors, modules and their kernels. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static _Thread_local char last_error[512];

const char *hetir_error(void)
{
    return last_error;
}

hetir_result hetir_fail(hetir_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return result;
}

const char *hetir_result_name(hetir_result result)
{
    static const char *const names[] = {
        "HETIR_OK", "HETIR_BAD_FILE", "HETIR_NEWER_FILE", "HETIR_NOT_FOUND", "HETIR_BAD_ARGUMENT",
        "HETIR_BAD_SHAPE", "HETIR_NO_PAYLOAD", "HETIR_OUT_OF_MEMORY", "HETIR_DEVICE_FAILED",
        "HETIR_CHECK_FAILED",
    };
    size_t index = (size_t)result;
    return index < sizeof names / sizeof names[0] ? names[index] : "no hetir_result";
}

/* Groups the specialisations by name, in the order of the file. */
static int group_kernels(hetir_module *module)
{
    uint32_t count = module->file.tables[KERNELS].count, filled = 0;
    module->kernels = calloc(count ? count : 1, sizeof *module->kernels);
    module->rows = calloc(count ? count : 1, sizeof *module->rows);
    if (!module->kernels || !module->rows)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = container_string(&module->file, container_kernel(&module->file, i).name);
        hetir_kernel *kernel = &module->kernels[module->kernel_count];
        size_t known = 0;
        while (known < module->kernel_count && strcmp(module->kernels[known].name, name) != 0)
            known++;
        if (known < module->kernel_count)
            continue;
        module->kernel_count++;
        kernel->module = module;
        kernel->name = name;
        kernel->rows = module->rows + filled;
        for (uint32_t j = i; j < count; j++) {
            uint32_t other = container_kernel(&module->file, j).name;
            if (strcmp(container_string(&module->file, other), name) == 0) {
                kernel->rows[kernel->row_count++] = j;
                filled++;
            }
        }
    }
    return 1;
}

static hetir_result open_bytes(const uint8_t *data, uint64_t size, uint8_t *owned, const char *path,
                               hetir_module **module)
{
    char message[256] = "";
    int newer = 0;
    hetir_module *made = calloc(1, sizeof *made);
    if (made)
        made->path = strdup(path);
    if (!made || !made->path) {
        free(owned);
        free(made);
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for %s", path);
    }
    made->owned = owned;
    pthread_mutex_init(&made->lock, NULL);
    if (!container_check(&made->file, data, size, &newer, message, sizeof message)) {
        hetir_result result = newer ? HETIR_NEWER_FILE : HETIR_BAD_FILE;
        hetir_fail(result, newer ? "%s has %s" : "%s is %s", path, message);
        hetir_module_close(made);
        return result;
    }
    if (!group_kernels(made)) {
        hetir_module_close(made);
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for %s", path);
    }
    *module = made;
    return HETIR_OK;
}

static hetir_result read_file(const char *path, uint8_t **data, uint64_t *size)
{
    FILE *file = fopen(path, "rb");
    long end;
    if (!file)
        return hetir_fail(HETIR_BAD_FILE, "%s cannot be read: %s", path, strerror(errno));
    *data = NULL;
    if (fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        fclose(file);
        return hetir_fail(HETIR_BAD_FILE, "%s cannot be read: %s", path, strerror(errno));
    }
    *size = (uint64_t)end;
    *data = malloc(end ? (size_t)end : 1);
    if (!*data || fread(*data, 1, (size_t)end, file) != (size_t)end) {
        int no_memory = !*data;
        free(*data);
        fclose(file);
        return no_memory ? hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for the %ld bytes of %s", end, path)
                         : hetir_fail(HETIR_BAD_FILE, "%s cannot be read to its end", path);
    }
    fclose(file);
    return HETIR_OK;
}

hetir_result hetir_module_open(const char *path, hetir_module **module)
{
    uint8_t *data = NULL;
    uint64_t size = 0;
    hetir_result result;
    if (!path || !module)
        return hetir_fail(HETIR_BAD_ARGUMENT, "hetir_module_open takes no null pointers");
    result = read_file(path, &data, &size);
    return result == HETIR_OK ? open_bytes(data, size, data, path, module) : result;
}

hetir_result hetir_module_from_memory(const void *data, size_t size, hetir_module **module)
{
    if (!data || !module)
        return hetir_fail(HETIR_BAD_ARGUMENT, "hetir_module_from_memory takes no null pointers");
    return open_bytes(data, size, NULL, "the hetbin in memory", module);
}

void hetir_module_close(hetir_module *module)
{
    if (!module)
        return;
    while (module->programs) {
        loaded *first = module->programs;
        module->programs = first->next;
        first->device->calls->unload(first->device, first->program);
        free(first);
    }
    pthread_mutex_destroy(&module->lock);
    free(module->kernels);
    free(module->rows);
    free(module->owned);
    free(module->path);
    free(module);
}

size_t hetir_module_kernel_count(const hetir_module *module)
{
    return module ? module->kernel_count : 0;
}

hetir_kernel *hetir_module_kernel_at(const hetir_module *module, size_t index)
{
    return module && index < module->kernel_count ? &module->kernels[index] : NULL;
}

hetir_result hetir_module_kernel(const hetir_module *module, const char *name, hetir_kernel **kernel)
{
    if (!module || !name || !kernel)
        return hetir_fail(HETIR_BAD_ARGUMENT, "hetir_module_kernel takes no null pointers");
    for (size_t i = 0; i < module->kernel_count; i++)
        if (strcmp(module->kernels[i].name, name) == 0) {
            *kernel = &module->kernels[i];
            return HETIR_OK;
        }
    return hetir_fail(HETIR_NOT_FOUND, "%s has no kernel `%s`", module->path, name);
}

const char *hetir_kernel_name(const hetir_kernel *kernel)
{
    return kernel ? kernel->name : NULL;
}

size_t hetir_kernel_signature_count(const hetir_kernel *kernel)
{
    return kernel ? kernel->row_count : 0;
}

const char *hetir_kernel_signature(const hetir_kernel *kernel, size_t index)
{
    const container *file;
    if (!kernel || index >= kernel->row_count)
        return NULL;
    file = &kernel->module->file;
    return container_string(file, container_kernel(file, kernel->rows[index]).signature);
}

size_t hetir_kernel_parameter_count(const hetir_kernel *kernel)
{
    if (!kernel)
        return 0;
    return container_kernel(&kernel->module->file, kernel->rows[0]).parameters.count;
}

const char *hetir_kernel_parameter_name(const hetir_kernel *kernel, size_t index)
{
    const container *file;
    kernel_row row;
    if (!kernel)
        return NULL;
    file = &kernel->module->file;
    row = container_kernel(file, kernel->rows[0]);
    return index < row.parameters.count
               ? container_parameter(file, row.parameters.first + (uint32_t)index)
               : NULL;
}
