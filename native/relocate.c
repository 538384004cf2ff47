/* Relocation of x86-64 and AArch64 objects (System V psABI; ELF for the Arm 64-bit architecture). */
#include <elf.h>
#include <string.h>

#include "object.h"

static enum hetir_relocated store(const hetir_relocation *r, uint64_t value, unsigned bytes)
{
    if (r->room < bytes)
        return OUT_OF_SECTION;
    memcpy(r->where, &value, bytes);
    return RELOCATED;
}

static int fits_signed(uint64_t value, unsigned bits)
{
    int64_t limit = (int64_t)1 << (bits - 1);
    return (int64_t)value >= -limit && (int64_t)value < limit;
}

static enum hetir_relocated store_relative32(const hetir_relocation *r, uint64_t target)
{
    uint64_t value = target + (uint64_t)r->addend - r->place;
    return fits_signed(value, 32) ? store(r, value, 4) : OUT_OF_REACH;
}

enum hetir_relocated hetir_relocate_x86_64(const hetir_relocation *r)
{
    uint64_t absolute = r->symbol + (uint64_t)r->addend;
    enum hetir_relocated result;
    switch (r->type) {
    case R_X86_64_NONE:
        return RELOCATED;
    case R_X86_64_64:
        return store(r, absolute, 8);
    case R_X86_64_PC64:
        return store(r, absolute - r->place, 8);
    case R_X86_64_32:
        return absolute >> 32 ? OUT_OF_REACH : store(r, absolute, 4);
    case R_X86_64_32S:
        return fits_signed(absolute, 32) ? store(r, absolute, 4) : OUT_OF_REACH;
    case R_X86_64_PC32:
        return store_relative32(r, r->symbol);
    case R_X86_64_PLT32:
        result = store_relative32(r, r->symbol);
        return result == OUT_OF_REACH ? store_relative32(r, r->stub) : result;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        return store_relative32(r, r->got);
    default:
        return UNKNOWN_RELOCATION;
    }
}

void hetir_write_stub_x86_64(uint8_t *where, uint64_t target)
{
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
    memcpy(where, jump, sizeof jump);
    memcpy(where + sizeof jump, &target, sizeof target);
}

/* Replaces `bits` bits from `low` of the instruction by those of `value`. */
static enum hetir_relocated patch(const hetir_relocation *r, uint64_t value, unsigned low,
                                  unsigned bits)
{
    uint32_t instruction;
    uint32_t mask = ((1u << bits) - 1) << low;
    if (r->room < 4)
        return OUT_OF_SECTION;
    memcpy(&instruction, r->where, 4);
    instruction = (instruction & ~mask) | ((uint32_t)(value << low) & mask);
    memcpy(r->where, &instruction, 4);
    return RELOCATED;
}

static enum hetir_relocated patch_branch(const hetir_relocation *r, unsigned low, unsigned bits)
{
    uint64_t distance = r->symbol + (uint64_t)r->addend - r->place;
    if (!fits_signed(distance, bits + 2) && bits == 26)
        distance = r->stub - r->place;
    if (!fits_signed(distance, bits + 2) || distance & 3)
        return OUT_OF_REACH;
    return patch(r, distance >> 2, low, bits);
}

/* ADR and ADRP keep the two lowest bits of the immediate apart. */
static enum hetir_relocated patch_address(const hetir_relocation *r, uint64_t immediate)
{
    enum hetir_relocated result;
    if (!fits_signed(immediate, 21))
        return OUT_OF_REACH;
    result = patch(r, immediate & 3, 29, 2);
    return result == RELOCATED ? patch(r, immediate >> 2, 5, 19) : result;
}

static uint64_t pages_apart(uint64_t target, uint64_t place)
{
    return (uint64_t)((int64_t)((target & ~0xfffULL) - (place & ~0xfffULL)) >> 12);
}

static enum hetir_relocated patch_low12(const hetir_relocation *r, uint64_t target, unsigned shift)
{
    uint64_t low = target & 0xfff;
    if (low & ((1u << shift) - 1))
        return OUT_OF_REACH;
    return patch(r, low >> shift, 10, 12);
}

enum hetir_relocated hetir_relocate_aarch64(const hetir_relocation *r)
{
    uint64_t target = r->symbol + (uint64_t)r->addend;
    uint64_t relative = target - r->place;
    switch (r->type) {
    case R_AARCH64_NONE:
        return RELOCATED;
    case R_AARCH64_ABS64:
        return store(r, target, 8);
    case R_AARCH64_ABS32:
        return target >> 32 && !fits_signed(target, 32) ? OUT_OF_REACH : store(r, target, 4);
    case R_AARCH64_PREL64:
        return store(r, relative, 8);
    case R_AARCH64_PREL32:
        return fits_signed(relative, 32) ? store(r, relative, 4) : OUT_OF_REACH;
    case R_AARCH64_PREL16:
        return fits_signed(relative, 16) ? store(r, relative, 2) : OUT_OF_REACH;
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        return patch_branch(r, 0, 26);
    case R_AARCH64_CONDBR19:
    case R_AARCH64_LD_PREL_LO19:
        return patch_branch(r, 5, 19);
    case R_AARCH64_TSTBR14:
        return patch_branch(r, 5, 14);
    case R_AARCH64_ADR_PREL_LO21:
        return patch_address(r, relative);
    case R_AARCH64_ADR_PREL_PG_HI21:
        return patch_address(r, pages_apart(target, r->place));
    case R_AARCH64_ADR_GOT_PAGE:
        return patch_address(r, pages_apart(r->got, r->place));
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
        return patch_low12(r, target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
        return patch_low12(r, target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
        return patch_low12(r, target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
        return patch_low12(r, target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
        return patch_low12(r, target, 4);
    case R_AARCH64_LD64_GOT_LO12_NC:
        return patch_low12(r, r->got, 3);
    case R_AARCH64_MOVW_UABS_G0_NC:
        return patch(r, target, 5, 16);
    case R_AARCH64_MOVW_UABS_G1_NC:
        return patch(r, target >> 16, 5, 16);
    case R_AARCH64_MOVW_UABS_G2_NC:
        return patch(r, target >> 32, 5, 16);
    case R_AARCH64_MOVW_UABS_G3:
        return patch(r, target >> 48, 5, 16);
    default:
        return UNKNOWN_RELOCATION;
    }
}

void hetir_write_stub_aarch64(uint8_t *where, uint64_t target)
{
    static const uint32_t jump[2] = {0x58000050, 0xd61f0200}; /* ldr x16, .+8; br x16 */
    memcpy(where, jump, sizeof jump);
    memcpy(where + sizeof jump, &target, sizeof target);
}
