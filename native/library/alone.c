/* In a program that is not Python signals are the program's own: nothing leaves a kernel early. */
#include "interrupt.h"

int hetir_come_in(void)
{
    return 0;
}

void hetir_come_out(int came_in)
{
    (void)came_in;
}

int hetir_enter(hetir_program *program, const uint8_t *args, const hetir_launch *launch,
                uint8_t *memory, int64_t first, int64_t last)
{
    program->entry(args, launch, memory, first, last);
    return 1;
}
