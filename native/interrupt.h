/* Inside the runtime: Ctrl-C gets the main thread out of a kernel. */
#ifndef HETIR_INTERRUPT_H
#define HETIR_INTERRUPT_H

#include <stdint.h>

#include "object.h"

/* Around everything that the main thread runs of a launch; `hetir_come_out` takes what the other
 * gave. On other threads they do nothing. */
int hetir_come_in(void);
void hetir_come_out(int came_in);

/* Runs workgroups; false when Ctrl-C left them unfinished. */
int hetir_enter(hetir_program *program, const uint8_t *args, const hetir_launch *launch,
                uint8_t *memory, int64_t first, int64_t last);

#endif
