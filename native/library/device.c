/* Devices and their buffers, whatever is behind them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static hetir_device *devices[MOST_DEVICES];
static int device_count;
static pthread_once_t probed = PTHREAD_ONCE_INIT;

static void probe(void)
{
    device_count = hetir_probe_cpu(devices, device_count);
    device_count = hetir_probe_cuda(devices, device_count);
    device_count = hetir_probe_opencl(devices, device_count);
}

int hetir_resolve(const char *variable, const char *library, const symbol *symbols, size_t count)
{
    const char *path = getenv(variable);
    void *opened = dlopen(path && *path ? path : library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; opened && i < count; i++) {
        void *found = dlsym(opened, symbols[i].name);
        if (!found)
            return 0;
        memcpy(symbols[i].where, &found, sizeof found);
    }
    return opened != NULL;
}

hetir_device *hetir_device_new(const char *kind, int number, const device_calls *calls, void *state)
{
    hetir_device *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    if (number < 0)
        snprintf(made->name, sizeof made->name, "%s", kind);
    else
        snprintf(made->name, sizeof made->name, "%s:%d", kind, number);
    made->calls = calls;
    made->state = state;
    return made;
}

const char *hetir_device_name(size_t index)
{
    pthread_once(&probed, probe);
    return index < (size_t)device_count ? devices[index]->name : NULL;
}

hetir_result hetir_device_open(const char *name, hetir_device **device)
{
    char here[MOST_DEVICES * 26] = "";
    size_t used = 0, size;
    if (!name || !device)
        return hetir_fail(HETIR_BAD_ARGUMENT, "hetir_device_open takes no null pointers");
    pthread_once(&probed, probe);
    size = strlen(name);
    for (int i = 0; i < device_count; i++) {
        const char *known = devices[i]->name;
        if (strcmp(known, name) == 0 || (strncmp(known, name, size) == 0 && !strcmp(known + size, ":0"))) {
            *device = devices[i];
            return HETIR_OK;
        }
        used += (size_t)snprintf(here + used, sizeof here - used, "%s%s", used ? ", " : "", known);
    }
    return hetir_fail(HETIR_NOT_FOUND, "there is no device `%s`; here are %s", name, here);
}

const char *hetir_device_title(const hetir_device *device)
{
    return device ? device->title : NULL;
}

hetir_result hetir_allocate(hetir_device *device, size_t size, hetir_buffer **buffer)
{
    hetir_buffer *made;
    hetir_result result;
    if (!device || !buffer)
        return hetir_fail(HETIR_BAD_ARGUMENT, "hetir_allocate takes no null pointers");
    made = calloc(1, sizeof *made);
    if (!made)
        return hetir_fail(HETIR_OUT_OF_MEMORY, "no memory for a buffer");
    made->device = device;
    made->size = size;
    result = device->calls->allocate(device, made);
    if (result != HETIR_OK) {
        free(made);
        return result;
    }
    *buffer = made;
    return HETIR_OK;
}

void hetir_free(hetir_buffer *buffer)
{
    if (buffer) {
        buffer->device->calls->release(buffer);
        free(buffer);
    }
}

size_t hetir_buffer_size(const hetir_buffer *buffer)
{
    return buffer ? buffer->size : 0;
}

void *hetir_buffer_data(const hetir_buffer *buffer)
{
    return buffer ? buffer->token && strcmp(buffer->device->name, "cpu") == 0 ? buffer->token : NULL
                  : NULL;
}

static hetir_result check_span(const hetir_buffer *buffer, size_t offset, const void *data, size_t size)
{
    if (!buffer || (!data && size))
        return hetir_fail(HETIR_BAD_ARGUMENT, "a copy takes no null pointers");
    if (offset > buffer->size || size > buffer->size - offset)
        return hetir_fail(HETIR_BAD_ARGUMENT, "%zu bytes at %zu lie outside of a buffer of %zu bytes",
                          size, offset, buffer->size);
    return HETIR_OK;
}

hetir_result hetir_write(hetir_buffer *buffer, size_t offset, const void *data, size_t size)
{
    hetir_result result = check_span(buffer, offset, data, size);
    return result != HETIR_OK || size == 0 ? result
                                           : buffer->device->calls->write(buffer, offset, data, size);
}

hetir_result hetir_read(const hetir_buffer *buffer, size_t offset, void *data, size_t size)
{
    hetir_result result = check_span(buffer, offset, data, size);
    return result != HETIR_OK || size == 0 ? result
                                           : buffer->device->calls->read(buffer, offset, data, size);
}
