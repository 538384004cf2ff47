// TPipe and its queues: the budget of the Unified Buffer, whose turn a buffer is, and events.
#include "state.h"

namespace hetir_shim {
namespace {

int event_key(Pipe from, Pipe to) { return int(from) * pipe_count + int(to); }

View view_of(int index) {
    const QueueBuffer &buffer = current->buffers[size_t(index)];
    return {buffer.address, buffer.bytes, index, buffer.generation, Type::other};
}

QueueBuffer &owned(Queue *queue, const View &view, const char *call, int line) {
    if (view.buffer < 0) refuse("queue", line, "%s of a tensor that no queue gave out", call);
    QueueBuffer &buffer = current->buffers[size_t(view.buffer)];
    if (buffer.owner != queue)
        refuse("queue", line, "%s of a tensor that belongs to another queue", call);
    if (buffer.generation != view.generation || buffer.state == BufferState::idle)
        refuse("queue", line, "%s of a tensor after FreeTensor", call);
    return buffer;
}

// A buffer has flags of its own, since the published TQue takes the lowest free event each time
// and so counts on more than one set at once; the eight event numbers are counted all the same.
void hand(Pipe from, Pipe to, QueueBuffer &buffer, int line) {
    if (from == to) return;
    buffer.event = event_alloc(from, to, line);
    raise_flag(from, to, 8 + buffer.index, line);
}

void take(Pipe from, Pipe to, QueueBuffer &buffer, int line) {
    if (from == to || buffer.event < 0) return;
    lower_flag(from, to, 8 + buffer.index, line);
    event_release(from, to, buffer.event, line);
    buffer.event = -1;
}

}  // namespace

void pipe_begin(int line) {
    if (current->pipe_open) refuse("queue", line, "a second TPipe while one lives");
    current->pipe_open = true;
}

void pipe_end() {
    if (!current->pipe_open) return;
    current->pipe_open = false;
    for (const QueueBuffer &buffer : current->buffers)
        if (buffer.state != BufferState::idle)
            refuse("queue", buffer.line,
                   "this AllocTensor has no FreeTensor at the end of the kernel");
    pipe_reset(0);
}

// Also waits for the events of buffers that were freed and not taken again.
void pipe_reset(int line) {
    for (QueueBuffer &buffer : current->buffers) {
        if (buffer.event < 0) continue;
        Queue *queue = buffer.owner;
        take(queue->empties, queue->fills, buffer, line);
    }
    current->used = 0;
}

uint32_t pipe_reserve(uint32_t bytes, const char *what, int line) {
    if (bytes == 0) refuse("budget", line, "%s of 0 bytes", what);
    const uint32_t rounded = (bytes + block_bytes - 1) / block_bytes * block_bytes;
    if (current->used + rounded > job.limit)
        refuse("budget", line, "%s of %u bytes: the Unified Buffer has %u usable, %u are taken",
               what, rounded, job.limit, current->used);
    const uint32_t address = current->used;
    current->used += rounded;
    current->most_used = std::max(current->most_used, current->used);
    return address;
}

void *queue_make(Pipe fills, Pipe empties, int depth, const char *) {
    current->queues.push_back(std::make_unique<Queue>(Queue{fills, empties, depth, {}, {}, {}}));
    return current->queues.back().get();
}

void queue_init(void *handle, uint32_t buffers, uint32_t bytes, int line) {
    auto *queue = static_cast<Queue *>(handle);
    if (!queue->buffers.empty()) refuse("queue", line, "InitBuffer of one queue twice");
    if (buffers == 0) refuse("queue", line, "InitBuffer with 0 buffers");
    for (uint32_t i = 0; i < buffers; ++i) {
        QueueBuffer buffer;
        buffer.address = pipe_reserve(bytes, "a queue buffer", line);
        buffer.bytes = (bytes + block_bytes - 1) / block_bytes * block_bytes;
        buffer.owner = queue;
        buffer.index = int(current->buffers.size());
        queue->buffers.push_back(int(current->buffers.size()));
        queue->idle.push_back(int(current->buffers.size()));
        current->buffers.push_back(buffer);
    }
}

View queue_alloc(void *handle, int line) {
    auto *queue = static_cast<Queue *>(handle);
    if (queue->buffers.empty()) refuse("queue", line, "AllocTensor before InitBuffer");
    if (queue->idle.empty())
        refuse("queue", line, "AllocTensor: all %zu buffers of the queue are in use",
               queue->buffers.size());
    const int index = queue->idle.front();
    queue->idle.pop_front();
    QueueBuffer &buffer = current->buffers[size_t(index)];
    take(queue->empties, queue->fills, buffer, line);
    ++buffer.generation;
    buffer.state = BufferState::filling;
    buffer.line = line;
    return view_of(index);
}

void queue_enqueue(void *handle, const View &view, int line) {
    auto *queue = static_cast<Queue *>(handle);
    QueueBuffer &buffer = owned(queue, view, "EnQue", line);
    if (buffer.state == BufferState::queued) refuse("queue", line, "EnQue of one tensor twice");
    if (int(queue->queued.size()) >= queue->depth)
        refuse("queue", line, "EnQue into a full queue: its depth is %d", queue->depth);
    hand(queue->fills, queue->empties, buffer, line);
    buffer.state = BufferState::queued;
    queue->queued.push_back(view.buffer);
}

View queue_dequeue(void *handle, int line) {
    auto *queue = static_cast<Queue *>(handle);
    if (queue->queued.empty()) refuse("queue", line, "DeQue of an empty queue");
    const int index = queue->queued.front();
    queue->queued.pop_front();
    QueueBuffer &buffer = current->buffers[size_t(index)];
    take(queue->fills, queue->empties, buffer, line);
    buffer.state = BufferState::emptying;
    return view_of(index);
}

void queue_free(void *handle, const View &view, int line) {
    auto *queue = static_cast<Queue *>(handle);
    QueueBuffer &buffer = owned(queue, view, "FreeTensor", line);
    if (buffer.state == BufferState::queued)
        refuse("queue", line, "FreeTensor of a tensor that is still in the queue");
    if (buffer.state == BufferState::emptying)
        hand(queue->empties, queue->fills, buffer, line);
    buffer.state = BufferState::idle;
    queue->idle.push_back(view.buffer);
}

bool queue_has_tensor(void *queue) { return !static_cast<Queue *>(queue)->queued.empty(); }
bool queue_has_buffer(void *queue) { return !static_cast<Queue *>(queue)->idle.empty(); }
int queue_tensors(void *queue) { return int(static_cast<Queue *>(queue)->queued.size()); }

int event_alloc(Pipe from, Pipe to, int line) {
    uint8_t &taken = current->events[event_key(from, to)];
    for (int event = 0; event < 8; ++event)
        if (!((taken >> event) & 1)) {
            taken = uint8_t(taken | 1u << event);
            return event;
        }
    refuse("flag", line, "all 8 events from %s to %s are in use", pipe_name(from), pipe_name(to));
}

int event_fetch(Pipe from, Pipe to, int line) {
    const int event = event_alloc(from, to, line);
    event_release(from, to, event, line);
    return event;
}

void event_release(Pipe from, Pipe to, int event, int line) {
    uint8_t &taken = current->events[event_key(from, to)];
    if (event < 0 || event > 7 || !((taken >> event) & 1))
        refuse("flag", line, "ReleaseEventID of event %d, which is not allocated", event);
    taken = uint8_t(taken & ~(1u << event));
}

uint32_t local_limit() { return job.limit; }

}  // namespace hetir_shim
