/* Inside the runtime: a loaded object, and the rules of relocation. */
#ifndef HETIR_OBJECT_H
#define HETIR_OBJECT_H

#include <stdatomic.h>
#include <stdint.h>

#include "hetir_runtime.h"

typedef void hetir_entry(const uint8_t *args, const hetir_launch *launch, uint8_t *scratch,
                         int64_t first_group, int64_t last_group);

struct hetir_program {
    _Atomic int32_t references;
    hetir_entry *entry;
    uint64_t shared_bytes; /* rounded up to 64 */
    uint64_t item_bytes;
    _Atomic int64_t group_ns; /* what a workgroup took lately; 0 before any ran */
    uint8_t *mapping;
    size_t mapping_size;
};

/* One relocation. `got` is the address of an 8-byte word that holds `symbol`, `stub` that of code
 * that jumps to it: for symbols out of reach. */
typedef struct {
    uint32_t type;
    uint8_t *where;
    uint64_t room; /* bytes left in the section at `where` */
    uint64_t place;
    uint64_t symbol;
    int64_t addend;
    uint64_t got;
    uint64_t stub;
} hetir_relocation;

enum { HETIR_STUB_BYTES = 16 };

enum hetir_relocated { RELOCATED, UNKNOWN_RELOCATION, OUT_OF_REACH, OUT_OF_SECTION };

enum hetir_relocated hetir_relocate_x86_64(const hetir_relocation *relocation);
enum hetir_relocated hetir_relocate_aarch64(const hetir_relocation *relocation);
void hetir_write_stub_x86_64(uint8_t *where, uint64_t target);
void hetir_write_stub_aarch64(uint8_t *where, uint64_t target);

/* The address of a function that compiled code may call, or 0. */
uint64_t hetir_external(const char *name);

#endif
