/* Runs one compiled kernel under an emulator: a job comes in on stdin, arrays go out on stdout.
 *
 * The job: i64 block bytes, arrays, scratch bytes, first group, last group; three group counts
 * and three group sizes; the argument block; then for each array i64 slot offset, data offset,
 * bytes and the bytes. The slot's address becomes where the bytes lie, plus the data offset. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t num_groups[3], group_size[3];
    uint8_t *records;
    uint64_t *stop;
} launch_t;

void ENTRY(const uint8_t *, const launch_t *, uint8_t *, int64_t, int64_t);

static void take(void *to, size_t bytes)
{
    if (fread(to, 1, bytes, stdin) != bytes)
        exit(3);
}

static void *room(size_t bytes)
{
    return aligned_alloc(64, (bytes + 127) / 64 * 64);
}

int main(void)
{
    int64_t head[5];
    launch_t launch = {{0}, {0}, 0, 0};
    take(head, sizeof head);
    take(launch.num_groups, sizeof launch.num_groups);
    take(launch.group_size, sizeof launch.group_size);
    uint8_t *block = room(head[0]), **arrays = malloc((head[1] + 1) * sizeof *arrays);
    int64_t *sizes = malloc((head[1] + 1) * sizeof *sizes);
    take(block, head[0]);
    for (int64_t i = 0; i < head[1]; i++) {
        int64_t place[3];
        take(place, sizeof place);
        sizes[i] = place[2];
        arrays[i] = room(place[2]);
        take(arrays[i], place[2]);
        uint8_t *address = arrays[i] + place[1];
        memcpy(block + place[0], &address, sizeof address);
    }
    ENTRY(block, &launch, room(head[2]), head[3], head[4]);
    for (int64_t i = 0; i < head[1]; i++)
        if (fwrite(arrays[i], 1, sizes[i], stdout) != (size_t)sizes[i])
            return 4;
    return 0;
}
