/* Inside the runtime: a launch in flight, and the pool that runs it. */
#ifndef HETIR_JOB_H
#define HETIR_JOB_H

#include <stdatomic.h>
#include <stdint.h>

#include "object.h"

enum { MOST_THREADS = 256, CHUNKS_PER_LANE = 64, NOT_LISTED = -1 };

/* A range [low, high) of chunks, low in the lower half. Whoever works on a job owns a lane of it
 * and takes from its front; who has nothing takes half of another's from the back. */
typedef struct {
    _Alignas(64) _Atomic uint64_t range;
    _Atomic int32_t owned;
} lane;

/* An edge to a job that waits for this one. */
typedef struct edge {
    struct edge *next;
    hetir_job *job;
} edge;

struct hetir_job {
    _Atomic int32_t references;
    _Atomic int32_t status;  /* enum hetir_status; a futex word */
    _Atomic int32_t waiters; /* threads asleep on `status` */
    _Atomic int32_t pending; /* unfinished predecessors, and one until it is complete */
    _Atomic int32_t trouble; /* what `status` becomes instead of HETIR_DONE */
    _Atomic(edge *) followers;
    _Atomic uint64_t stop;
    _Atomic uint32_t remaining; /* chunks not run */
    _Atomic int64_t begun, ended;
    _Atomic int32_t listed; /* its slot in the pool's list, or NOT_LISTED */
    hetir_program *program;
    hetir_launch launch;
    int64_t groups, chunk_groups;
    uint64_t scratch_bytes;
    uint8_t *args;
    int32_t lane_count;
    lane *lanes;
};

hetir_job *hetir_job_make(hetir_program *program, const uint8_t *args, size_t args_size,
                          const int64_t *shape, uint8_t *records);
int64_t hetir_now(void);

/* Takes a free lane, `wanted` if it can, and gives its index or -1 when all are owned. */
int32_t hetir_job_join(hetir_job *job, int32_t wanted);
void hetir_job_leave(hetir_job *job, int32_t index);

/* Runs chunks from the own lane and then from the others until none is left or `deadline` passes
 * (0: none); gives how many. The caller must keep the job alive. */
uint32_t hetir_job_work(hetir_job *job, int32_t index, int64_t deadline);
/* Whether there are chunks that nobody runs, and a lane for who would. */
int hetir_job_has_room(hetir_job *job);

/* Starts a job whose predecessors have ended; ends those that have nothing to run. */
void hetir_job_start(hetir_job *job, int list);
/* Ends it with `status` unless it has ended, and starts what waited for it. */
void hetir_job_end(hetir_job *job, int32_t status);

/* The pool: offers a job to the workers, takes it back, replaces workers that hang in it. */
void hetir_pool_list(hetir_job *job);
void hetir_pool_unlist(hetir_job *job);
void hetir_pool_replace(hetir_job *job);

/* This thread's scratch memory, aligned to 64 bytes, or null; it is freed with the thread. */
uint8_t *hetir_scratch(uint64_t size);

/* Sleeps while `*word` is `seen`, for ever when `timeout_ns` is negative. May wake early. */
void hetir_sleep(_Atomic int32_t *word, int32_t seen, int64_t timeout_ns);
void hetir_rouse(_Atomic int32_t *word, int count);
void hetir_pause(void);

#endif
