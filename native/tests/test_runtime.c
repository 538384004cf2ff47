/* Tests of the C runtime on objects that the C compiler wrote: argv[1] is kernels.o;
 * argv[2] leaves the test of fork out.
 * Every check stops the program with its line. Run it under the sanitizers. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hetir_runtime.h"
#include "kernels.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static uint8_t *object;
static size_t object_size;
static const int64_t SECOND = 1000000000;

static hetir_program *load(const char *entry, uint64_t shared, uint64_t item)
{
    char message[256] = "";
    hetir_program *program =
        hetir_program_load(object, object_size, entry, shared, item, message, sizeof message);
    if (!program)
        fprintf(stderr, "%s\n", message);
    CHECK(program);
    return program;
}

static void read_object(const char *path)
{
    FILE *file = fopen(path, "rb");
    CHECK(file);
    object = malloc(1 << 20);
    object_size = fread(object, 1, 1 << 20, file);
    fclose(file);
}

static int run(hetir_program *program, const void *args, size_t size, int64_t x, int64_t y,
               int64_t z)
{
    hetir_job *job;
    int status = hetir_run(program, args, size, x, y, z, 4, 1, 1, NULL, -1, &job);
    CHECK(!job);
    return status;
}

static void every_group_runs_once(void)
{
    static const int64_t grids[][3] = {{1, 1, 1},    {2, 1, 1},  {63, 1, 1}, {64, 3, 1}, {1000, 1, 1},
                                       {7, 11, 13}, {65536, 1, 1}, {0, 5, 5}, {5, 0, 1}};
    hetir_program *program = load("count_groups", 0, 0);
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        int64_t groups = grids[i][0] * grids[i][1] * grids[i][2];
        uint32_t *seen = calloc((size_t)groups + 1, sizeof *seen);
        count_args args = {.seen = seen};
        CHECK(run(program, &args, sizeof args, grids[i][0], grids[i][1], grids[i][2]) == HETIR_DONE);
        for (int64_t g = 0; g < groups; g++)
            CHECK(seen[g] == 1);
        CHECK(seen[groups] == 0);
        free(seen);
    }
    hetir_program_free(program);
}

static void huge_grids_are_counted_right(void)
{
    hetir_program *program = load("sum_ranges", 0, 0);
    uint64_t total = 0;
    sum_args args = {.total = &total};
    hetir_job *job;
    CHECK(run(program, &args, sizeof args, 3000000000, 7, 5) == HETIR_DONE);
    CHECK(total == 3000000000u * 35ull);
    CHECK(hetir_run(program, (void *)&args, sizeof args, INT64_MAX, 2, 1, 1, 1, 1, NULL, -1, &job) ==
          HETIR_NO_MEMORY);
    CHECK(!job);
    hetir_program_free(program);
}

static void scratch_is_aligned_and_private(void)
{
    hetir_program *program = load("use_scratch", 1000, 24);
    uint64_t bad = 0;
    sum_args args = {.total = &bad};
    CHECK(run(program, &args, sizeof args, 5000, 1, 1) == HETIR_DONE);
    CHECK(bad == 0);
    hetir_program_free(program);
}

static void jobs_run_in_order(void)
{
    enum { STEPS = 300 };
    static const int64_t shape[6] = {37, 1, 1, 1, 1, 1};
    hetir_program *program = load("chain_step", 0, 0);
    uint64_t state[2] = {0, 0};
    hetir_job *last = NULL;
    for (uint64_t i = 0; i < STEPS; i++) {
        chain_args args = {.state = state, .step = i, .groups = 37};
        hetir_job *job =
            hetir_submit(program, (void *)&args, sizeof args, shape, NULL, &last, last != NULL);
        hetir_job_free(last);
        last = job;
    }
    CHECK(hetir_wait(last, -1, 1) == HETIR_DONE);
    CHECK(state[0] == (uint64_t)STEPS * 37 && state[1] == 0);
    hetir_job_free(last);
    hetir_program_free(program);
}

static void long_chains_of_markers_do_not_recurse(void)
{
    uint64_t go = 0;
    wait_args args = {.go = &go};
    static const int64_t one[6] = {1, 1, 1, 1, 1, 1};
    hetir_program *program = load("wait_for", 0, 0);
    hetir_job *last = hetir_submit(program, (void *)&args, sizeof args, one, NULL, NULL, 0);
    for (int i = 0; i < 200000; i++) {
        hetir_job *job = hetir_submit(NULL, NULL, 0, NULL, NULL, &last, 1);
        hetir_job_free(last);
        last = job;
    }
    CHECK(hetir_job_status(last) == HETIR_RUNNING);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    CHECK(hetir_wait(last, -1, 0) == HETIR_DONE);
    hetir_job_free(last);
    hetir_program_free(program);
}

static void more_jobs_than_slots(void)
{
    enum { JOBS = 200 };
    static const int64_t shape[6] = {8, 1, 1, 1, 1, 1};
    hetir_program *waits = load("wait_for", 0, 0);
    hetir_program *sums = load("sum_ranges", 0, 0);
    uint64_t go = 0, total = 0;
    wait_args first = {.go = &go};
    sum_args args = {.total = &total};
    hetir_job *blocker = hetir_submit(waits, (void *)&first, sizeof first, shape, NULL, NULL, 0);
    hetir_job *jobs[JOBS];
    for (int i = 0; i < JOBS; i++)
        jobs[i] = hetir_submit(sums, (void *)&args, sizeof args, shape, NULL, NULL, 0);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < JOBS; i++) {
        CHECK(hetir_wait(jobs[i], -1, i % 2) == HETIR_DONE);
        hetir_job_free(jobs[i]);
    }
    CHECK(hetir_wait(blocker, -1, 0) == HETIR_DONE);
    hetir_job_free(blocker);
    CHECK(total == JOBS * 8);
    hetir_program_free(waits);
    hetir_program_free(sums);
}

static void a_stopped_job_is_cancelled(void)
{
    static const int64_t shape[6] = {100000, 1, 1, 1, 1, 1};
    hetir_program *program = load("until_stopped", 0, 0);
    hetir_job *job = hetir_submit(program, NULL, 0, shape, NULL, NULL, 0);
    CHECK(hetir_wait(job, SECOND / 50, 0) == HETIR_RUNNING);
    hetir_cancel(job);
    CHECK(hetir_wait(job, -1, 1) == HETIR_CANCELLED);
    hetir_job_free(job);
    hetir_program_free(program);
}

static void a_hung_job_is_abandoned_and_the_pool_lives(void)
{
    static const int64_t shape[6] = {64, 1, 1, 1, 1, 1};
    hetir_program *hangs = load("wait_for", 0, 0);
    hetir_program *sums = load("sum_ranges", 0, 0);
    uint64_t go = 0, total = 0;
    wait_args first = {.go = &go};
    sum_args args = {.total = &total};
    hetir_job *hung = hetir_submit(hangs, (void *)&first, sizeof first, shape, NULL, NULL, 0);
    hetir_job *after = hetir_submit(sums, (void *)&args, sizeof args, shape, NULL, &hung, 1);
    CHECK(hetir_wait(hung, SECOND / 50, 0) == HETIR_RUNNING);
    hetir_abandon(hung);
    CHECK(hetir_job_status(hung) == HETIR_ABANDONED);
    CHECK(hetir_wait(after, -1, 0) == HETIR_CANCELLED);
    hetir_job_free(after);
    CHECK(total == 0);
    for (int i = 0; i < 100; i++) {
        hetir_job *job = hetir_submit(sums, (void *)&args, sizeof args, shape, NULL, NULL, 0);
        CHECK(hetir_wait(job, 20 * SECOND, 0) == HETIR_DONE);
        hetir_job_free(job);
    }
    CHECK(total == 6400);
    CHECK(hetir_job_busy(hung));
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    while (hetir_job_busy(hung))
        usleep(1000);
    hetir_job_free(hung);
    hetir_program_free(hangs);
    hetir_program_free(sums);
}

static void *hammer(void *argument)
{
    hetir_program *program = argument;
    uint64_t total = 0;
    sum_args args = {.total = &total};
    static const int64_t shape[6] = {100, 1, 1, 1, 1, 1};
    for (int i = 0; i < 300; i++) {
        hetir_job *job;
        if (i % 3 == 0) {
            CHECK(run(program, &args, sizeof args, 100, 1, 1) == HETIR_DONE);
            continue;
        }
        job = hetir_submit(program, (void *)&args, sizeof args, shape, NULL, NULL, 0);
        CHECK(hetir_wait(job, -1, i % 3 == 1) == HETIR_DONE);
        hetir_job_free(job);
    }
    CHECK(total == 30000);
    return NULL;
}

static void many_threads_launch_at_once(void)
{
    pthread_t threads[16];
    hetir_program *program = load("sum_ranges", 0, 0);
    for (int i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, hammer, program);
    for (int i = 0; i < 16; i++)
        pthread_join(threads[i], NULL);
    hetir_program_free(program);
}

static void a_forked_child_launches(void)
{
    static const int64_t shape[6] = {64, 1, 1, 1, 1, 1};
    hetir_program *hangs = load("wait_for", 0, 0);
    uint64_t go = 0;
    wait_args args = {.go = &go};
    hetir_job *job = hetir_submit(hangs, (void *)&args, sizeof args, shape, NULL, NULL, 0);
    int status;
    pid_t child;
    CHECK(hetir_wait(job, SECOND / 50, 0) == HETIR_RUNNING);
    child = fork();
    if (child == 0) {
        CHECK(hetir_wait(job, -1, 1) == HETIR_LOST);
        CHECK(!hetir_job_busy(job));
        every_group_runs_once();
        jobs_run_in_order();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
    CHECK(hetir_wait(job, -1, 0) == HETIR_DONE);
    hetir_job_free(job);
    hetir_program_free(hangs);
}

static void damaged_objects_are_refused_or_load(void)
{
    uint8_t *damaged = malloc(object_size);
    uint32_t seed = 12345, loaded = 0, refused = 0;
    char message[128];
    for (int round = 0; round < 60000; round++) {
        hetir_program *program;
        size_t size = object_size;
        memcpy(damaged, object, object_size);
        for (int i = 0; i <= round % 4; i++) {
            seed = seed * 1664525 + 1013904223;
            damaged[(seed >> 8) % object_size] ^= (uint8_t)(1u << (seed >> 29));
        }
        if (round % 5 == 0)
            size = (seed >> 4) % object_size;
        else if (round % 5 == 1) /* large values in the section table */
            memset(damaged + object_size - (seed >> 4) % 2048 - 8, round % 2 ? 0xff : 0x7f, 8);
        message[0] = 0;
        program = hetir_program_load(damaged, size, "count_groups", 0, 0, message, sizeof message);
        if (program)
            loaded++;
        else
            refused++;
        CHECK(program || message[0]);
        hetir_program_free(program);
    }
    CHECK(loaded > 100 && refused > 100);
    printf("damaged objects: %u loaded, %u refused\n", loaded, refused);
    free(damaged);
}

static void missing_functions_are_named(void)
{
    char message[256];
    CHECK(!hetir_program_load(object, object_size, "absent", 0, 0, message, sizeof message));
    CHECK(strstr(message, "`absent`"));
    CHECK(!hetir_program_load(object, 20, "count_groups", 0, 0, message, sizeof message));
    CHECK(strstr(message, "cut short"));
}

static void data_and_external_calls_work(void)
{
    hetir_program *program = load("uses_everything", 0, 0);
    uint64_t ok = 0;
    sum_args args = {.total = &ok};
    CHECK(run(program, &args, sizeof args, 1, 1, 1) == HETIR_DONE);
    CHECK(ok == 1);
    hetir_program_free(program);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2 && hetir_runtime_version() == 1 && hetir_threads() >= 1);
    read_object(argv[1]);
    missing_functions_are_named();
    data_and_external_calls_work();
    every_group_runs_once();
    huge_grids_are_counted_right();
    scratch_is_aligned_and_private();
    jobs_run_in_order();
    more_jobs_than_slots();
    a_stopped_job_is_cancelled();
    a_hung_job_is_abandoned_and_the_pool_lives();
    long_chains_of_markers_do_not_recurse();
    many_threads_launch_at_once();
    if (argc == 2)
        a_forked_child_launches();
    damaged_objects_are_refused_or_load();
    puts("all right");
    return 0;
}
