// The runner: reads a job, maps the memory, runs the kernel on its cores, writes a report.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "simt.h"
#include "state.h"

namespace hetir_shim {

Job job;
std::vector<std::unique_ptr<Core>> cores;
Core *current = nullptr;

namespace {

constexpr size_t core_stack = 1 << 20;
FILE *report = nullptr;
uint64_t random_state = 0;

std::string quoted(const char *text) {
    std::string out = "\"";
    for (; *text; ++text) {
        if (*text == '"' || *text == '\\') out += '\\';
        out += *text;
    }
    return out + "\"";
}

// `pc` and `other` are offsets in the library, to be turned into lines; 0 for none.
void write_fault(const char *kind, int line, const char *text, uint64_t pc = 0,
                 uint64_t other = 0) {
    fprintf(report, "{\"fault\": %s, \"line\": %d, \"core\": %d, \"message\": %s, \"pc\": %llu, "
            "\"other\": %llu}\n", quoted(kind).c_str(), line, current ? current->index : 0,
            quoted(text).c_str(), static_cast<unsigned long long>(pc),
            static_cast<unsigned long long>(other));
    fflush(report);
}

void on_signal(int number, siginfo_t *info, void *) {
    char text[200];
    if (number == SIGFPE) {
        snprintf(text, sizeof text, "an integer division by zero");
    } else {
        const auto at = reinterpret_cast<uint64_t>(info->si_addr);
        const Region *nearest = nullptr;
        for (const Region &each : job.regions)
            if (each.end <= at && (!nearest || each.end > nearest->end)) nearest = &each;
        if (nearest && at - nearest->end < (1u << 30))
            snprintf(text, sizeof text, "an access %llu bytes past the end of %s",
                     static_cast<unsigned long long>(at - nearest->end), nearest->name.c_str());
        else
            snprintf(text, sizeof text, "an access to 0x%llx, which is no array",
                     static_cast<unsigned long long>(at));
    }
    write_fault("bounds", current ? current->last_line : 0, text);
    _exit(3);
}

void catch_signals() {
    static char stack[65536];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(number, &action, nullptr);
}

Order order_of(const std::string &name) {
    if (name == "program") return Order::program;
    if (name == "oldest") return Order::oldest;
    if (name == "eager") return Order::eager;
    return name == "random" ? Order::random : Order::newest;
}

void read_job(const char *path) {
    std::ifstream file(path);
    std::string row;
    while (std::getline(file, row)) {
        std::istringstream words(row);
        std::string key, word;
        words >> key;
        if (key == "library") words >> job.library;
        else if (key == "entry") words >> job.entry;
        else if (key == "report") words >> job.report;
        else if (key == "arch") words >> job.arch;
        else if (key == "blocks") words >> job.blocks;
        else if (key == "cores") words >> job.cores;
        else if (key == "limit") words >> job.limit;
        else if (key == "bounds") words >> job.bounds;
        else if (key == "reserve") words >> job.reserve;
        else if (key == "hazards") words >> job.hazards;
        else if (key == "simt") job.simt = true;
        else if (key == "grid") words >> job.grid[0] >> job.grid[1] >> job.grid[2];
        else if (key == "threads") words >> job.threads[0] >> job.threads[1] >> job.threads[2];
        else if (key == "order") {
            words >> word >> job.seed;
            job.order = order_of(word);
        } else if (key == "disabled") {
            int line;
            while (words >> line) job.disabled.insert(line);
        } else if (key == "region") {
            Region region{};
            uint64_t bytes;
            words >> region.begin >> bytes >> region.item >> region.writable;
            std::getline(words >> std::ws, region.name);
            region.end = region.begin + bytes;
            job.regions.push_back(region);
        } else if (key == "map") {
            Map map{};
            words >> map.address >> map.bytes >> map.offset;
            std::getline(words >> std::ws, map.file);
            job.maps.push_back(map);
        } else if (key == "argument") {
            uint64_t address;
            words >> address;
            job.arguments.push_back(address);
        }
    }
}

// Each lies at its own address, with nothing mapped on the pages around it.
void map_memory() {
    const uint64_t page = 4096;
    for (const Map &map : job.maps) {
        const uint64_t first = map.address / page * page;
        const uint64_t bytes = (map.address + map.bytes + page - 1) / page * page - first;
        if (map.bytes == 0) continue;
        const int file = open(map.file.c_str(), O_RDWR);
        void *at = mmap(reinterpret_cast<void *>(first), bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED_NOREPLACE, file, off_t(map.offset / page * page));
        close(file);
        if (at != reinterpret_cast<void *>(first))
            refuse("load", 0, "no room for %llu bytes at 0x%llx",
                   static_cast<unsigned long long>(map.bytes),
                   static_cast<unsigned long long>(map.address));
    }
}


}  // namespace

// Called with more arguments than it takes: the caller cleans up on every platform that runs this.
void call_entry(void *entry) {
    uint64_t a[64] = {};
    for (size_t i = 0; i < job.arguments.size() && i < 64; ++i) a[i] = job.arguments[i];
#define HETIR_SHIM_8(n) a[n], a[n + 1], a[n + 2], a[n + 3], a[n + 4], a[n + 5], a[n + 6], a[n + 7]
    using Function = void (*)(
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
        uint64_t);
    reinterpret_cast<Function>(entry)(HETIR_SHIM_8(0), HETIR_SHIM_8(8), HETIR_SHIM_8(16),
                                      HETIR_SHIM_8(24), HETIR_SHIM_8(32), HETIR_SHIM_8(40),
                                      HETIR_SHIM_8(48), HETIR_SHIM_8(56));
#undef HETIR_SHIM_8
}

namespace {

void end_core() {
    if (current->pipe_open) pipe_end();
    drain(current->last_line);
    for (const auto &entry : current->flags) {
        const Flag &flag = entry.second;
        if (flag.up || flag.balance > 0)
            refuse("flag", flag.set_line, "this SetFlag has no WaitFlag at the end of the kernel");
    }
    for (int count : current->cross)
        if (count != 0)
            refuse("sync", current->last_line, "a CrossCoreSetFlag has no CrossCoreWaitFlag");
    check_cache_clean();
    current->arrived = UINT64_MAX;
}

std::unique_ptr<Core> make_core(int index, void *entry) {
    auto core = std::make_unique<Core>();
    core->index = index;
    core->saturates = job.seed % 2 == 1;
    core->local.resize(local_bytes + 512);
    uint64_t state = job.seed * 77 + uint64_t(index);
    for (size_t i = 0; i < core->local.size(); i += 8) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(&core->local[i], &state, 8);
    }
    core->fibre = std::make_unique<Fibre>([entry] {
        call_entry(entry);
        end_core();
    }, core_stack);
    return core;
}

// Cores run until they wait for others; in which order is part of the hostility.
void run_cores(void *entry) {
    for (int i = 0; i < job.blocks; ++i) cores.push_back(make_core(i, entry));
    uint64_t idle = 0;
    for (;;) {
        std::vector<Core *> live;
        for (auto &core : cores)
            if (!core->fibre->ended()) live.push_back(core.get());
        if (live.empty()) return;
        if (job.order == Order::newest) std::reverse(live.begin(), live.end());
        if (job.order == Order::random)
            for (size_t i = live.size() - 1; i > 0; --i)
                std::swap(live[i], live[random_number() % (i + 1)]);
        bool all_wait = true;
        for (Core *core : live) {
            current = core;
            core->fibre->resume();
            all_wait &= core->waiting && !core->fibre->ended();
        }
        idle = all_wait ? idle + 1 : 0;
        if (idle > 3) {
            current = live[0];
            refuse("deadlock", live[0]->last_line, "every core waits for another");
        }
    }
}

}  // namespace

void refuse(const char *kind, int line, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (line == 0 && current) line = current->last_line;
    write_fault(kind, line, text);
    _exit(3);
}

void refuse_at(const char *kind, uint64_t place, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const auto offset = [](uint64_t at) { return at & line_flag || !at ? 0 : at - simt.library; };
    const int line = place & line_flag ? int(uint32_t(place)) : 0;
    const uint64_t other = simt.other_place;
    write_fault(kind, line, text, offset(place), other & line_flag ? other : offset(other));
    _exit(3);
}

uint64_t random_number() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

void yield_core() { current->fibre->yield(); }

int64_t block_index() { return current->index; }
int64_t block_count() { return job.blocks; }
void trap(int line) { refuse("trap", line, "the kernel called Trap"); }

void write_statistics() {
    uint32_t most = 0;
    for (const auto &core : cores) most = std::max(most, core->most_used);
    fprintf(report, "{\"done\": true, \"vector\": %llu, \"loads\": %llu, \"stores\": %llu, "
            "\"flags\": %llu, \"barriers\": %llu, \"syncs\": %llu, \"cleans\": %llu, "
            "\"buffer_bytes\": %u}\n",
            (unsigned long long)instructions_run[int(Pipe::V)],
            (unsigned long long)instructions_run[int(Pipe::MTE2)],
            (unsigned long long)instructions_run[int(Pipe::MTE3)], (unsigned long long)flags_set,
            (unsigned long long)barriers_run, (unsigned long long)syncs_run,
            (unsigned long long)cleans_run, most);
    fflush(report);
}

// `hetir_ends_NAME` of the library gives the ends of the kernel's `__ubuf__` arrays.
void start_simt(void *library, void *entry) {
    Dl_info where{};
    dladdr(entry, &where);
    simt.library = reinterpret_cast<uint64_t>(where.dli_fbase);
    auto ends = reinterpret_cast<uint8_t **>(dlsym(library, ("hetir_ends_" + job.entry).c_str()));
    cores.push_back(std::make_unique<Core>());
    current = cores[0].get();
    run_simt(entry, ends ? ends[0] : nullptr, ends ? uint64_t(ends[1] - ends[0]) : 0);
}

int run(const char *path) {
    read_job(path);
    report = fopen(job.report.c_str(), "w");
    if (!report) return 2;
    random_state = job.seed * 2654435761u + 88172645463325252ull;
    catch_signals();
    map_memory();
    void *library = dlopen(job.library.c_str(), RTLD_NOW);
    if (!library) {
        write_fault("load", 0, dlerror());
        return 3;
    }
    void *entry = dlsym(library, job.entry.c_str());
    if (!entry) {
        write_fault("load", 0, dlerror());
        return 3;
    }
    if (job.simt) start_simt(library, entry);
    else run_cores(entry);
    write_statistics();
    return 0;
}

}  // namespace hetir_shim

namespace AscendC {
class TPipe;
TPipe *GetTPipePtr(int line);
TPipe *GetTPipePtr(int) { return reinterpret_cast<TPipe *>(&hetir_shim::job); }
}  // namespace AscendC

int main(int, char **arguments) {
    const int status = hetir_shim::run(arguments[1]);
    fflush(nullptr);
    _exit(status);
}
