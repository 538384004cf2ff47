/* The few functions that compiled kernels may call. */
#include <math.h>
#include <string.h>

#include "object.h"

typedef void any_function(void);

/* What LLVM calls for 128-bit division; libgcc has them on every 64-bit target. */
extern __int128 __divti3(__int128, __int128);
extern __int128 __modti3(__int128, __int128);
extern unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
extern unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);

#define NAMED(function) {#function, (any_function *)(function)}

static const struct {
    const char *name;
    any_function *function;
} externals[] = {
    NAMED(memcpy),    NAMED(memmove),   NAMED(memset),    NAMED(memcmp),    NAMED(fma),
    NAMED(fmaf),      NAMED(floor),     NAMED(floorf),    NAMED(ceil),      NAMED(ceilf),
    NAMED(trunc),     NAMED(truncf),    NAMED(rint),      NAMED(rintf),     NAMED(nearbyint),
    NAMED(nearbyintf), NAMED(round),    NAMED(roundf),    NAMED(sqrt),      NAMED(sqrtf),
    NAMED(fmod),      NAMED(fmodf),     NAMED(__divti3),  NAMED(__modti3),  NAMED(__udivti3),
    NAMED(__umodti3),
};

uint64_t hetir_external(const char *name)
{
    for (size_t i = 0; i < sizeof externals / sizeof externals[0]; i++)
        if (strcmp(externals[i].name, name) == 0)
            return (uint64_t)(uintptr_t)externals[i].function;
    return 0;
}
