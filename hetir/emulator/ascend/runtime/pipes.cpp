// The pipes of a core: instructions wait in queues and run as late, and in as unkind an order, as
// flags and barriers allow; accesses that nothing orders are hazards whatever the order was.
#include <cstdio>

#include "state.h"

namespace hetir_shim {

uint64_t instructions_run[pipe_count], flags_set, barriers_run, syncs_run, cleans_run;

const char *pipe_name(Pipe pipe) {
    static const char *names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return names[int(pipe)];
}

namespace {

constexpr size_t queue_limit = 256;
constexpr int flag_span = 4096;  // events 0 to 7, then one for each buffer of a queue
uint64_t serials = 0;

int flag_key(Pipe from, Pipe to, int event) {
    return (int(from) * pipe_count + int(to)) * flag_span + event;
}

std::string flag_name(int key) {
    const int pair = key / flag_span, event = key % flag_span;
    const std::string pipes = std::string(pipe_name(Pipe(pair / pipe_count))) + "_" +
                              pipe_name(Pipe(pair % pipe_count));
    return pipes + (event < 8 ? " event " + std::to_string(event) : " (a queue's)");
}

std::deque<Pending> &queue_of(Pipe pipe) { return current->pipes[size_t(pipe)]; }

bool flag_up(int key) { return current->flags[key].up; }

// The instructions of a pipe that could run now, up to position `limit`: those before the first
// wait or barrier, or that one itself when nothing is in its way. A set waits for all before it.
void candidates(Pipe pipe, size_t limit, std::vector<size_t> &found) {
    found.clear();
    const auto &queue = queue_of(pipe);
    for (size_t i = 0; i < queue.size() && i < limit; ++i) {
        switch (queue[i].kind) {
            case Kind::instruction: found.push_back(i); break;
            case Kind::set: case Kind::cross:
                if (i == 0) found.push_back(i);
                break;
            case Kind::wait:
                if (flag_up(queue[i].flag)) {
                    bool first = true;
                    for (size_t k = 0; k < i; ++k) first &= queue[k].kind != Kind::wait;
                    if (first) found.push_back(i);
                }
                return;
            case Kind::barrier:
                if (i == 0) found.push_back(i);
                return;
        }
    }
}

void run_at(Pipe pipe, size_t position) {
    auto &queue = queue_of(pipe);
    Pending pending = std::move(queue[position]);
    queue.erase(queue.begin() + long(position));
    switch (pending.kind) {
        case Kind::instruction:
            ++instructions_run[size_t(pipe)];
            pending.run();
            break;
        case Kind::set: {
            Flag &flag = current->flags[pending.flag];
            if (flag.up)
                refuse("flag", pending.line, "SetFlag of %s while it is still set: the wait of the "
                       "last one has not happened", flag_name(pending.flag).c_str());
            flag.up = true;
            break;
        }
        case Kind::wait: current->flags[pending.flag].up = false; break;
        case Kind::barrier: break;
        case Kind::cross: pending.run(); break;
    }
}

size_t choose(Pipe pipe, const std::vector<size_t> &found) {
    const auto &queue = queue_of(pipe);
    // sets, waits and barriers before instructions: they free no data, only time
    for (size_t i : found)
        if (queue[i].kind != Kind::instruction && job.order != Order::random) return i;
    switch (job.order) {
        case Order::newest: return found.back();
        case Order::random: return found[random_number() % found.size()];
        default: return found.front();
    }
}

bool force(Pipe pipe, uint64_t serial, int depth);

// Find the set that a wait needs, in whatever pipe it is queued.
bool force_flag(int key, int depth) {
    const Pipe from = Pipe(key / flag_span / pipe_count);
    if (depth > 64) return false;
    for (const Pending &pending : queue_of(from))
        if (pending.kind == Kind::set && pending.flag == key) {
            force(from, pending.serial, depth + 1);
            return flag_up(key);
        }
    return false;
}

// Run what must have run when the entry `serial` of the pipe has, and no more.
bool force(Pipe pipe, uint64_t serial, int depth) {
    std::vector<size_t> found;
    for (;;) {
        auto &queue = queue_of(pipe);
        size_t limit = 0;
        while (limit < queue.size() && queue[limit].serial <= serial) ++limit;
        if (limit == 0) return true;
        candidates(pipe, limit, found);
        if (!found.empty()) {
            run_at(pipe, choose(pipe, found));
            continue;
        }
        bool moved = false;
        for (size_t i = 0; i < limit && !moved; ++i)
            if (queue[i].kind == Kind::wait && !flag_up(queue[i].flag)) {
                moved = force_flag(queue[i].flag, depth);
                break;
            }
        if (!moved) return false;
    }
}

void step_any() {
    std::vector<size_t> found;
    Pipe ready[pipe_count];
    size_t count = 0;
    for (int p = 1; p < pipe_count; ++p) {
        candidates(Pipe(p), SIZE_MAX, found);
        if (!found.empty()) ready[count++] = Pipe(p);
    }
    if (count == 0) return;
    const Pipe pipe = ready[random_number() % count];
    candidates(pipe, SIZE_MAX, found);
    run_at(pipe, choose(pipe, found));
}

// Run everything that can run on a pipe; what a wait holds back is not pulled in.
void run_ready(Pipe pipe) {
    std::vector<size_t> found;
    for (;;) {
        candidates(pipe, SIZE_MAX, found);
        if (found.empty()) return;
        run_at(pipe, found.front());
    }
}

void after_submit(Pipe pipe) {
    switch (job.order) {
        case Order::program:
            for (int p = 1; p < pipe_count; ++p) run_ready(Pipe(p));
            break;
        case Order::eager:
            run_ready(Pipe::MTE2);
            run_ready(Pipe::MTE3);
            break;
        case Order::random:
            for (uint64_t steps = random_number() % 4; steps > 0; --steps) step_any();
            break;
        default: break;
    }
    auto &queue = queue_of(pipe);
    if (queue.size() > queue_limit) force(pipe, queue.front().serial, 0);
}

void push(Pipe pipe, Pending pending) {
    pending.serial = ++serials;
    queue_of(pipe).push_back(std::move(pending));
    after_submit(pipe);
}

void merge(Clock &into, const Clock &from) {
    for (size_t p = 0; p < pipe_count; ++p) into[p] = std::max(into[p], from[p]);
}

void conflict(Pipe pipe, int line, bool writes, Pipe other, uint32_t at, bool other_writes,
              const char *where) {
    const int other_line = current->lines[size_t(other)][at - 1];
    refuse("hazard", line, "pipe %s %s %s that pipe %s %s at line %d, and nothing orders them%s",
           pipe_name(pipe), writes ? "writes" : "reads", where, pipe_name(other),
           other_writes ? "writes" : "reads", other_line,
           pipe == other ? " (no PipeBarrier)" : "");
}

const char *const local_name = "a part of the Unified Buffer";

// Vector instructions may read lanes that nobody looks at; what leaves the buffer must be data.
bool needs_data(Pipe pipe) { return pipe == Pipe::MTE3 || pipe == Pipe::S; }

// Not ordered before the instruction that `pipe` issues now, nor part of it.
bool unordered(size_t other, uint32_t at, Pipe pipe) {
    const size_t p = size_t(pipe);
    if (at <= current->known[p][other]) return false;
    return other != p || (pipe != Pipe::S && at != current->position[p]);
}

void examine(const Word &word, Pipe pipe, bool writes, int line, const char *where) {
    if (word.write == 0 && !writes && where == local_name && needs_data(pipe))
        refuse("uninitialised", line, "pipe %s reads a part of the Unified Buffer that nothing has "
               "written", pipe_name(pipe));
    if (word.write != 0 && unordered(word.writer, word.write, pipe))
        conflict(pipe, line, writes, Pipe(word.writer), word.write, true, where);
    for (size_t r = 0; writes && r < pipe_count; ++r)
        if ((word.readers >> r) & 1 && unordered(r, word.reads[r], pipe))
            conflict(pipe, line, true, Pipe(r), word.reads[r], false, where);
}

inline void touch(Word &word, Pipe pipe, bool writes, int line, const char *where) {
    const size_t p = size_t(pipe);
    if (job.hazards) {
        const Clock &known = current->known[p];
        const bool settled = word.write != 0 && word.write <= known[word.writer] &&
                             (!writes || word.readers == 0);
        if (!settled) examine(word, pipe, writes, line, where);
    }
    if (writes) {
        word.writer = uint8_t(p);
        word.write = current->position[p];
        word.readers = 0;
    } else {
        word.readers = uint8_t(word.readers | 1u << p);
        word.reads[p] = current->position[p];
    }
}

}  // namespace

uint32_t advance(Pipe pipe, int line) {
    current->lines[size_t(pipe)].push_back(line);
    return ++current->position[size_t(pipe)];
}

void touch_local(Pipe pipe, const Range &range, bool writes, int line) {
    if (range.bytes == 0) return;
    if (!current->words)
        current->words.reset(static_cast<Word *>(calloc(local_bytes / 4 + 1, sizeof(Word))));
    for (uint64_t word = range.address / 4; word <= (range.address + range.bytes - 1) / 4; ++word)
        touch(current->words.get()[word], pipe, writes, line, local_name);
}

void touch_global(Pipe pipe, const Range &range, bool writes, int line) {
    if (range.bytes == 0) return;
    const Region *region = region_of(range.address);
    const uint64_t item = region ? std::min<uint32_t>(region->item, 4) : 4;
    const uint64_t base = region ? region->begin : 0;
    const uint64_t first = (range.address - base) / item;
    const uint64_t last = (range.address + range.bytes - 1 - base) / item;
    for (uint64_t i = first; i <= last; ++i) {
        const uint64_t key = (base / 4096 * 4096 * 4) + i;  // pages of no two regions meet
        auto &page = current->global_words[key / 1024];
        if (!page) page.reset(new std::array<Word, 1024>());
        touch((*page)[key % 1024], pipe, writes, line,
              region ? region->name.c_str() : "global memory");
    }
}

void submit(Pipe pipe, int line, const Accesses &accesses, std::function<void()> run) {
    current->last_line = line;
    advance(pipe, line);
    for (const Range &range : accesses.local_reads) touch_local(pipe, range, false, line);
    for (const Range &range : accesses.global_reads) touch_global(pipe, range, false, line);
    for (const Range &range : accesses.local_writes) touch_local(pipe, range, true, line);
    for (const Range &range : accesses.global_writes) touch_global(pipe, range, true, line);
    push(pipe, {Kind::instruction, line, 0, -1, std::move(run)});
}

void set_flag(Pipe from, Pipe to, int event, int line) {
    if (event < 0 || event > 7)
        refuse("flag", line, "event %d: the hardware has events 0 to 7", event);
    raise_flag(from, to, event, line);
}

void wait_flag(Pipe from, Pipe to, int event, int line) {
    if (event < 0 || event > 7)
        refuse("flag", line, "event %d: the hardware has events 0 to 7", event);
    lower_flag(from, to, event, line);
}

void raise_flag(Pipe from, Pipe to, int event, int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    ++flags_set;
    const int key = flag_key(from, to, event);
    Flag &flag = current->flags[key];
    if (++flag.balance > 1)
        refuse("flag", line, "SetFlag of %s twice without a WaitFlag between (first at line %d)",
               flag_name(key).c_str(), flag.set_line);
    const Pipe waiter = to;
    // what the scalar unit has waited for lies behind all that it issues later
    if (job.hazards && flag.wait_at > current->known[size_t(from)][size_t(waiter)] &&
        from != waiter && waiter != Pipe::S)
        refuse("flag", line, "SetFlag of %s again: nothing makes sure that its wait at line %d has "
               "happened", flag_name(key).c_str(), flag.wait_line);
    flag.set_line = line;
    Clock clock = current->known[size_t(from)];
    clock[size_t(from)] = advance(from, line);
    flag.clocks.push_back(clock);
    if (from == Pipe::S) {
        if (flag.up)
            refuse("flag", line, "SetFlag of %s while it is still set", flag_name(key).c_str());
        flag.up = true;
        after_submit(to);
        return;
    }
    push(from, {Kind::set, line, 0, key, {}});
}

void lower_flag(Pipe from, Pipe to, int event, int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    const int key = flag_key(from, to, event);
    Flag &flag = current->flags[key];
    --flag.balance;
    flag.wait_line = line;
    if (flag.clocks.empty())
        refuse("deadlock", line, "WaitFlag of %s: nobody has set it", flag_name(key).c_str());
    // the scalar unit issues everything: what it waits for is before all that it issues later
    if (to == Pipe::S)
        for (Clock &known : current->known) merge(known, flag.clocks.front());
    else merge(current->known[size_t(to)], flag.clocks.front());
    flag.clocks.pop_front();
    flag.wait_at = advance(to, line);
    if (to != Pipe::S) {
        push(to, {Kind::wait, line, 0, key, {}});
        return;
    }
    if (!flag_up(key) && !force_flag(key, 0))
        refuse("deadlock", line, "WaitFlag of %s: its SetFlag at line %d never runs",
               flag_name(key).c_str(), flag.set_line);
    current->flags[key].up = false;
}

void drain(int line) {
    for (;;) {
        bool empty = true;
        Pipe order[pipe_count - 1];
        for (int p = 1; p < pipe_count; ++p)
            order[p - 1] = Pipe(job.order == Order::newest ? pipe_count - p : p);
        size_t before = 0, after = 0;
        for (Pipe pipe : order) before += queue_of(pipe).size();
        for (Pipe pipe : order) {
            if (queue_of(pipe).empty()) continue;
            empty = false;
            force(pipe, queue_of(pipe).back().serial, 0);
        }
        if (empty) return;
        for (Pipe pipe : order) after += queue_of(pipe).size();
        if (after < before) continue;
        for (Pipe pipe : order)
            for (const Pending &pending : queue_of(pipe))
                if (pending.kind == Kind::wait)
                    refuse("deadlock", pending.line, "WaitFlag of %s waits for ever",
                           flag_name(pending.flag).c_str());
        refuse("deadlock", line, "the pipes cannot go on");
    }
}

void barrier(Pipe pipe, int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    ++barriers_run;
    if (pipe != Pipe::ALL) {
        current->known[size_t(pipe)][size_t(pipe)] = current->position[size_t(pipe)];
        push(pipe, {Kind::barrier, line, 0, -1, {}});
        return;
    }
    drain(line);
    for (Clock &known : current->known) merge(known, current->position);
}

void set_saturation(bool saturates, int line) {
    current->last_line = line;
    current->saturates = saturates;
}

void set_atomic(int operation, Type type, int line) {
    current->last_line = line;
    if (operation == 0) {
        current->atomic = 0;
        return;
    }
    uint32_t types = 0;
    for (Type each : {Type::i8, Type::i16, Type::f16, Type::bf16, Type::i32, Type::f32})
        types |= 1u << int(each);
    if (job.arch == 2002) {
        types = 0;
        for (Type each : {Type::i16, Type::f16, Type::f32}) types |= 1u << int(each);
        if (operation != 1)
            refuse("type", line, "architecture 2002 has SetAtomicAdd alone");
    }
    if (type == Type::other || !((types >> int(type)) & 1u))
        refuse("type", line, "SetAtomic%s does not take %s on architecture %d",
               operation == 1 ? "Add" : operation == 2 ? "Max" : "Min", type_name(type), job.arch);
    current->atomic = operation;
    current->atomic_type = type;
}

// Cores meet; whoever is last lets all go on. `arrived` counts the meetings of a core.
void sync_all(int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    if (job.blocks > job.cores)
        refuse("cores", line, "SyncAll with %d blocks on %d cores: some would never start",
               job.blocks, job.cores);
    ++syncs_run;
    drain(line);
    for (Clock &known : current->known) merge(known, current->position);
    ++current->arrived;
    current->waiting = true;
    while (true) {
        bool all = true;
        for (const auto &core : cores) all &= core->arrived >= current->arrived;
        if (all) break;
        yield_core();
    }
    current->waiting = false;
}

void cross_set(int mode, Pipe pipe, int flag, int line) {
    current->last_line = line;
    if (mode != 0) refuse("sync", line, "CrossCoreSetFlag of mode %d needs cube cores", mode);
    if (flag > 15) refuse("sync", line, "flag %d: there are flags 0 to 15", flag);
    if (job.blocks > job.cores)
        refuse("cores", line, "CrossCoreSetFlag with %d blocks on %d cores", job.blocks, job.cores);
    if (job.disabled.count(line)) return;
    static std::array<std::vector<uint64_t>, 16> sets;
    Core *core = current;
    push(pipe, {Kind::cross, line, 0, -1, [core, flag] {
        auto &counts = sets[size_t(flag)];
        counts.resize(cores.size());
        ++counts[size_t(core->index)];
        for (uint64_t count : counts)
            if (count == 0) return;
        for (uint64_t &count : counts) --count;
        for (auto &each : cores) ++each->cross[size_t(flag)];
    }});
}

void cross_wait(int flag, Pipe, int line) {
    current->last_line = line;
    if (job.disabled.count(line)) return;
    drain(line);
    for (Clock &known : current->known) merge(known, current->position);
    current->waiting = true;
    while (current->cross[size_t(flag)] == 0) yield_core();
    current->waiting = false;
    --current->cross[size_t(flag)];
}

namespace {

std::map<std::pair<int, int>, int> block_flags;

void check_block(int core, int line) {
    if (core < 0 || core >= job.blocks)
        refuse("sync", line, "core %d: there are %d", core, job.blocks);
    if (job.blocks > job.cores)
        refuse("cores", line, "IBSet and IBWait with %d blocks on %d cores", job.blocks, job.cores);
}

}  // namespace

void block_set(int core, int event, int line) {
    current->last_line = line;
    check_block(core, line);
    if (job.disabled.count(line)) return;
    drain(line);
    for (Clock &known : current->known) merge(known, current->position);
    ++block_flags[{core, event}];
    yield_core();
}

void block_wait(int core, int event, int line) {
    current->last_line = line;
    check_block(core, line);
    if (job.disabled.count(line)) return;
    drain(line);
    for (Clock &known : current->known) merge(known, current->position);
    current->waiting = true;
    while (block_flags[{core, event}] == 0) yield_core();
    current->waiting = false;
    --block_flags[{core, event}];
}

}  // namespace hetir_shim
