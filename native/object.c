/* Loads ELF relocatable objects: one mapping, sections by permission, never writable and
 * executable at once. Every size and index in the file is checked before it is used. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object.h"

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#define relocate hetir_relocate_x86_64
#define write_stub hetir_write_stub_x86_64
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#define relocate hetir_relocate_aarch64
#define write_stub hetir_write_stub_aarch64
#else
#error "the C runtime knows x86-64 and AArch64"
#endif

enum { TEXT, CONSTANTS, DATA, KINDS };
enum { LARGEST_ALIGNMENT = 4096 };
static const uint64_t LARGEST_MAPPING = (uint64_t)1 << 30; /* keeps every relative distance in reach */

typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    const char *entry;
    char *message;
    size_t message_size;
    Elf64_Shdr *sections;
    uint64_t *placed; /* offset of each section in the mapping, or NOWHERE */
    uint64_t section_count;
    const uint8_t *symbols;
    uint64_t symbol_section, symbol_count;
    const char *names;
    uint64_t names_size;
    uint64_t ends[KINDS]; /* where each kind's pages end */
    uint64_t stubs, gots;
    uint8_t *mapping;
} loader;

static const uint64_t NOWHERE = UINT64_MAX;

__attribute__((format(printf, 2, 3))) static int fail(loader *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (l->message_size > 0)
        vsnprintf(l->message, l->message_size, format, arguments);
    va_end(arguments);
    return 0;
}

static int inside(const loader *l, uint64_t offset, uint64_t size)
{
    return offset <= l->size && size <= l->size - offset;
}

static int read_sections(loader *l)
{
    Elf64_Ehdr header;
    if (l->size < sizeof header)
        return fail(l, "the object is cut short");
    memcpy(&header, l->bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
        return fail(l, "this is not a 64-bit little-endian relocatable object");
    if (header.e_machine != HOST_MACHINE)
        return fail(l, "the object is for ELF machine %u, this one is %u", header.e_machine,
                    (unsigned)HOST_MACHINE);
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 ||
        !inside(l, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr)))
        return fail(l, "the section table lies outside the object");
    l->section_count = header.e_shnum;
    l->sections = malloc(l->section_count * sizeof *l->sections);
    l->placed = malloc(l->section_count * sizeof *l->placed);
    if (!l->sections || !l->placed)
        return fail(l, "no memory for the section table");
    memcpy(l->sections, l->bytes + header.e_shoff, l->section_count * sizeof *l->sections);
    for (uint64_t i = 0; i < l->section_count; i++) {
        const Elf64_Shdr *section = &l->sections[i];
        l->placed[i] = NOWHERE;
        if (section->sh_type != SHT_NOBITS &&
            !inside(l, section->sh_offset, section->sh_size))
            return fail(l, "section %llu lies outside the object", (unsigned long long)i);
    }
    return 1;
}

static int read_symbols(loader *l)
{
    for (uint64_t i = 0; i < l->section_count; i++) {
        const Elf64_Shdr *table = &l->sections[i];
        const Elf64_Shdr *names;
        if (table->sh_type != SHT_SYMTAB)
            continue;
        if (table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= l->section_count)
            return fail(l, "the symbol table is damaged");
        names = &l->sections[table->sh_link];
        if (names->sh_type != SHT_STRTAB || names->sh_size == 0 ||
            l->bytes[names->sh_offset + names->sh_size - 1] != 0)
            return fail(l, "the symbol names are damaged");
        l->symbols = l->bytes + table->sh_offset;
        l->symbol_section = i;
        l->symbol_count = table->sh_size / sizeof(Elf64_Sym);
        l->names = (const char *)l->bytes + names->sh_offset;
        l->names_size = names->sh_size;
        return 1;
    }
    return fail(l, "the object has no symbol table");
}

static int kind_of(const Elf64_Shdr *section)
{
    return section->sh_flags & SHF_EXECINSTR ? TEXT : section->sh_flags & SHF_WRITE ? DATA : CONSTANTS;
}

/* Gives each loaded section its offset; stubs follow the code, the table of addresses the
 * constants. */
static int place_sections(loader *l)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t i = 0; i < l->section_count; i++) {
            const Elf64_Shdr *section = &l->sections[i];
            uint64_t align = section->sh_addralign ? section->sh_addralign : 1;
            if (!(section->sh_flags & SHF_ALLOC) || kind_of(section) != kind)
                continue;
            if (section->sh_flags & SHF_TLS || section->sh_type == SHT_INIT_ARRAY ||
                section->sh_type == SHT_FINI_ARRAY || section->sh_type == SHT_PREINIT_ARRAY)
                return fail(l, "thread-local data and initialisers cannot be loaded");
            if (align & (align - 1) || align > LARGEST_ALIGNMENT)
                return fail(l, "section %llu has a damaged alignment", (unsigned long long)i);
            end = (end + align - 1) & ~(align - 1);
            if (section->sh_size > LARGEST_MAPPING || end + section->sh_size > LARGEST_MAPPING)
                return fail(l, "the object needs more than 1 GiB");
            l->placed[i] = end;
            end += section->sh_size;
        }
        end = (end + 15) & ~(uint64_t)15;
        if (kind == TEXT) {
            l->stubs = end;
            end += l->symbol_count * HETIR_STUB_BYTES;
        } else if (kind == CONSTANTS) {
            l->gots = end;
            end += l->symbol_count * 8;
        }
        end = (end + page - 1) / page * page;
        l->ends[kind] = end;
    }
    return end <= LARGEST_MAPPING || fail(l, "the object needs more than 1 GiB");
}

static int map_sections(loader *l)
{
    void *mapping = mmap(NULL, l->ends[DATA], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);
    if (mapping == MAP_FAILED)
        return fail(l, "no memory for %llu bytes of code", (unsigned long long)l->ends[DATA]);
    l->mapping = mapping;
    for (uint64_t i = 0; i < l->section_count; i++) {
        const Elf64_Shdr *section = &l->sections[i];
        if (l->placed[i] != NOWHERE && section->sh_type != SHT_NOBITS && section->sh_size > 0)
            memcpy(l->mapping + l->placed[i], l->bytes + section->sh_offset, section->sh_size);
    }
    return 1;
}

static Elf64_Sym symbol_at(const loader *l, uint64_t index)
{
    Elf64_Sym symbol;
    memcpy(&symbol, l->symbols + index * sizeof symbol, sizeof symbol);
    return symbol;
}

static const char *name_of(const loader *l, const Elf64_Sym *symbol)
{
    return symbol->st_name < l->names_size ? l->names + symbol->st_name : "";
}

/* The address of a symbol, with its jump stub and its word in the table of addresses filled. */
static int resolve(loader *l, uint64_t index, uint64_t *address)
{
    Elf64_Sym symbol;
    if (index >= l->symbol_count)
        return fail(l, "a relocation names symbol %llu of %llu", (unsigned long long)index,
                    (unsigned long long)l->symbol_count);
    symbol = symbol_at(l, index);
    if (symbol.st_shndx == SHN_ABS || index == 0) {
        *address = symbol.st_value;
    } else if (symbol.st_shndx == SHN_UNDEF) {
        *address = hetir_external(name_of(l, &symbol));
        if (*address == 0)
            return fail(l, "the code calls `%.100s`, which the runtime does not provide",
                        name_of(l, &symbol));
    } else {
        if (symbol.st_shndx >= l->section_count || l->placed[symbol.st_shndx] == NOWHERE ||
            symbol.st_value > l->sections[symbol.st_shndx].sh_size)
            return fail(l, "symbol `%.100s` lies in no loaded section", name_of(l, &symbol));
        *address = (uint64_t)(uintptr_t)l->mapping + l->placed[symbol.st_shndx] + symbol.st_value;
    }
    write_stub(l->mapping + l->stubs + index * HETIR_STUB_BYTES, *address);
    memcpy(l->mapping + l->gots + index * 8, address, 8);
    return 1;
}

static int apply(loader *l, uint64_t target, const Elf64_Rela *entry)
{
    uint64_t base = (uint64_t)(uintptr_t)l->mapping;
    uint64_t index = ELF64_R_SYM(entry->r_info);
    hetir_relocation relocation = {.type = (uint32_t)ELF64_R_TYPE(entry->r_info)};
    uint64_t offset = l->placed[target] + entry->r_offset;
    if (entry->r_offset > l->sections[target].sh_size)
        return fail(l, "a relocation lies outside section %llu", (unsigned long long)target);
    if (!resolve(l, index, &relocation.symbol))
        return 0;
    relocation.where = l->mapping + offset;
    relocation.room = l->sections[target].sh_size - entry->r_offset;
    relocation.place = base + offset;
    relocation.addend = entry->r_addend;
    relocation.got = base + l->gots + index * 8;
    relocation.stub = base + l->stubs + index * HETIR_STUB_BYTES;
    switch (relocate(&relocation)) {
    case RELOCATED:
        return 1;
    case UNKNOWN_RELOCATION:
        return fail(l, "relocation type %u is unknown", relocation.type);
    case OUT_OF_REACH:
        return fail(l, "relocation type %u is out of reach", relocation.type);
    default:
        return fail(l, "a relocation lies outside section %llu", (unsigned long long)target);
    }
}

static int apply_relocations(loader *l)
{
    for (uint64_t i = 0; i < l->section_count; i++) {
        const Elf64_Shdr *table = &l->sections[i];
        if (table->sh_type != SHT_RELA && table->sh_type != SHT_REL)
            continue;
        if (table->sh_info >= l->section_count)
            return fail(l, "a relocation table is damaged");
        if (l->placed[table->sh_info] == NOWHERE)
            continue; /* debug sections are not loaded */
        if (table->sh_type == SHT_REL || table->sh_entsize != sizeof(Elf64_Rela) ||
            table->sh_link != l->symbol_section)
            return fail(l, "a relocation table is damaged");
        for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table->sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela entry;
            memcpy(&entry, l->bytes + table->sh_offset + at, sizeof entry);
            if (!apply(l, table->sh_info, &entry))
                return 0;
        }
    }
    return 1;
}

static hetir_entry *find_entry(loader *l)
{
    for (uint64_t i = 1; i < l->symbol_count; i++) {
        Elf64_Sym symbol = symbol_at(l, i);
        uint64_t section = symbol.st_shndx;
        if (section == SHN_UNDEF || section >= l->section_count ||
            strcmp(name_of(l, &symbol), l->entry) != 0 || l->placed[section] == NOWHERE)
            continue;
        if (kind_of(&l->sections[section]) != TEXT || symbol.st_value >= l->sections[section].sh_size)
            continue;
        return (hetir_entry *)(uintptr_t)(l->mapping + l->placed[section] + symbol.st_value);
    }
    fail(l, "the object has no function `%.100s`", l->entry);
    return NULL;
}

static int protect(loader *l)
{
    static const int access[KINDS] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    uint64_t begin = 0;
    __builtin___clear_cache((char *)l->mapping, (char *)l->mapping + l->ends[TEXT]);
    for (int kind = 0; kind < KINDS; begin = l->ends[kind++])
        if (l->ends[kind] > begin &&
            mprotect(l->mapping + begin, l->ends[kind] - begin, access[kind]) != 0)
            return fail(l, "the system refuses executable memory");
    return 1;
}

static hetir_program *finish_program(loader *l)
{
    hetir_program *program;
    hetir_entry *entry = find_entry(l);
    if (!entry || !protect(l))
        return NULL;
    program = calloc(1, sizeof *program);
    if (!program) {
        fail(l, "no memory for the program");
        return NULL;
    }
    atomic_init(&program->references, 1);
    program->entry = entry;
    program->mapping = l->mapping;
    program->mapping_size = l->ends[DATA];
    return program;
}

hetir_program *hetir_program_load(const uint8_t *object, size_t object_size, const char *entry,
                                  uint64_t shared_bytes, uint64_t item_bytes, char *message,
                                  size_t message_size)
{
    loader l = {.bytes = object, .size = object_size, .entry = entry, .message = message,
                .message_size = message_size};
    hetir_program *program = NULL;
    if (shared_bytes > LARGEST_MAPPING || item_bytes > LARGEST_MAPPING)
        fail(&l, "the kernel asks for more than 1 GiB of shared or private memory");
    else if (read_sections(&l) && read_symbols(&l) && place_sections(&l) && map_sections(&l) &&
             apply_relocations(&l))
        program = finish_program(&l);
    if (program) {
        program->shared_bytes = (shared_bytes + 63) & ~(uint64_t)63;
        program->item_bytes = item_bytes;
    } else if (l.mapping) {
        munmap(l.mapping, l.ends[DATA]);
    }
    free(l.sections);
    free(l.placed);
    return program;
}

void hetir_program_free(hetir_program *program)
{
    if (program && atomic_fetch_sub(&program->references, 1) == 1) {
        munmap(program->mapping, program->mapping_size);
        free(program);
    }
}
