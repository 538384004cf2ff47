/* Scratch memory: one block a thread, grown on demand. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "job.h"

typedef struct {
    uint8_t *bytes;
    uint64_t size;
} block;

static _Thread_local block scratch;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    pthread_key_create(&at_exit, free);
}

uint8_t *hetir_scratch(uint64_t size)
{
    uint64_t rounded = size == 0 ? 4096 : (size + 4095) & ~(uint64_t)4095;
    if (rounded < size)
        return NULL;
    if (rounded > scratch.size) {
        pthread_once(&once, make_key);
        free(scratch.bytes);
        scratch.bytes = aligned_alloc(64, rounded);
        scratch.size = scratch.bytes ? rounded : 0;
        pthread_setspecific(at_exit, scratch.bytes);
    }
    return scratch.bytes;
}
