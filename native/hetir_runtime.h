/* The C runtime: loads compiled kernels and runs grids of workgroups on the cores of this machine.
 *
 * Everything is thread-safe. Objects are reference-counted; a job keeps its program. The text
 * between the two `cffi` lines is what the Python side reads, so it holds declarations only.
 */
#ifndef HETIR_RUNTIME_H
#define HETIR_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Inside another library these are its own. */
#ifdef HETIR_RUNTIME_HIDDEN
#pragma GCC visibility push(hidden)
#else
#pragma GCC visibility push(default)
#endif
/* cffi: begin */

/* What a kernel sees of its launch. `records` is the hidden buffer of print and assert (a u64
 * capacity, a u64 of bytes used, then records) or null; `stop` becomes non-zero when the launch
 * should end early. */
typedef struct hetir_launch {
    int64_t num_groups[3];
    int64_t group_size[3];
    uint8_t *records;
    uint64_t *stop;
} hetir_launch;

typedef struct hetir_program hetir_program;
typedef struct hetir_job hetir_job;

enum hetir_status {
    HETIR_RUNNING = 0,   /* or not begun */
    HETIR_DONE = 1,
    HETIR_CANCELLED = 2, /* some workgroups did not run */
    HETIR_NO_MEMORY = 3, /* a worker had no memory for its scratch */
    HETIR_LOST = 4,      /* the process forked while it ran; its threads are in the parent */
    HETIR_ABANDONED = 5, /* given up while a workgroup hung */
};

/* Grows by one whenever a declaration here changes its meaning. */
int hetir_runtime_version(void);

/* Loads a relocatable object and finds `entry`, a function
 *   void entry(const uint8_t *args, const hetir_launch *launch, uint8_t *scratch,
 *              int64_t first_group, int64_t last_group)
 * that runs the linear workgroups [first, last), x fastest. Scratch is per worker, aligned to
 * 64 bytes: `shared_bytes` (rounded up to 64), then `item_bytes` for each work-item.
 * On failure gives null and writes a sentence to `message`. */
hetir_program *hetir_program_load(const uint8_t *object, size_t object_size, const char *entry,
                                  uint64_t shared_bytes, uint64_t item_bytes, char *message,
                                  size_t message_size);
void hetir_program_free(hetir_program *program);

/* Threads that work on one launch at most, the waiting one included. HETIR_NUM_THREADS or the
 * cores this process may use; -1 when HETIR_NUM_THREADS is not a number from 1 to 256. */
int hetir_threads(void);

/* Starts a launch once every job of `after` has ended, and returns at once; null without memory.
 * A null program makes a job that does nothing: a marker. The arguments are copied. */
hetir_job *hetir_submit(hetir_program *program, const uint8_t *args, size_t args_size,
                        const int64_t *shape, uint8_t *records, hetir_job **after,
                        size_t after_count);

/* Runs a launch on this thread and the pool. Returns its status; after `slice_ns` without an end
 * it returns HETIR_RUNNING and leaves the job, to be waited for and released, in `*job`.
 * HETIR_NO_MEMORY with a null `*job` also means that the job could not be made. */
int hetir_run(hetir_program *program, const uint8_t *args, size_t args_size, int64_t groups_x,
              int64_t groups_y, int64_t groups_z, int64_t size_x, int64_t size_y, int64_t size_z,
              uint8_t *records, int64_t slice_ns, hetir_job **job);

/* Waits, for ever when `timeout_ns` is negative; with `help` this thread runs workgroups too, and
 * then the time is looked at between workgroups only. Returns the status. */
int hetir_wait(hetir_job *job, int64_t timeout_ns, int help);
int hetir_job_status(hetir_job *job);

/* Whether a thread is still inside the job's kernel: its arguments must stay alive. */
int hetir_job_busy(hetir_job *job);

/* Monotonic nanoseconds at which it began and ended; 0 for not yet. */
void hetir_job_times(hetir_job *job, int64_t *begun_and_ended);

/* Asks the launch to end early: no further workgroup starts. */
void hetir_cancel(hetir_job *job);

/* Ends the job now, whatever its workgroups do. Threads that hang in it are replaced. Jobs that
 * wait for it are cancelled. */
void hetir_abandon(hetir_job *job);
void hetir_job_free(hetir_job *job);

/* cffi: end */
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
