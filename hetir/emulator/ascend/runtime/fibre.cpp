// Fibres by a switch of the callee-saved registers on x86-64, by ucontext elsewhere.
#include "fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

namespace hetir_shim {
namespace {

// Stacks are kept for the next block of the same size; the page below each is a guard.
std::map<size_t, std::vector<void *>> spare_stacks;
constexpr size_t guard_bytes = 4096;

void *take_stack(size_t bytes) {
    auto &spare = spare_stacks[bytes];
    if (!spare.empty()) {
        void *stack = spare.back();
        spare.pop_back();
        return stack;
    }
    void *stack = mmap(nullptr, bytes + guard_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) abort();
    mprotect(stack, guard_bytes, PROT_NONE);
    return stack;
}

}  // namespace

#if defined(__x86_64__)

extern "C" void hetir_shim_switch(void **save, void *load);
asm(R"(
.text
.globl hetir_shim_switch
.type hetir_shim_switch, @function
hetir_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size hetir_shim_switch, .-hetir_shim_switch
.globl hetir_shim_start
.type hetir_shim_start, @function
hetir_shim_start:
    movq %r12, %rdi
    callq *%r13
    ud2
.size hetir_shim_start, .-hetir_shim_start
)");
extern "C" void hetir_shim_start();

Fibre::Fibre(std::function<void()> body, size_t stack_bytes)
    : body_(std::move(body)), stack_(take_stack(stack_bytes)), bytes_(stack_bytes) {
    auto *top = reinterpret_cast<uint64_t *>(static_cast<char *>(stack_) + bytes_ + guard_bytes);
    top -= 2;  // calls need the stack on a multiple of 16
    *--top = reinterpret_cast<uint64_t>(&hetir_shim_start);
    *--top = 0;                                          // rbp
    *--top = 0;                                          // rbx
    *--top = reinterpret_cast<uint64_t>(this);           // r12
    *--top = reinterpret_cast<uint64_t>(&Fibre::enter);  // r13
    *--top = 0;                                          // r14
    *--top = 0;                                          // r15
    mine_ = top;
}

void Fibre::resume() { hetir_shim_switch(&theirs_, mine_); }
void Fibre::yield() { hetir_shim_switch(&mine_, theirs_); }

#else

Fibre::Fibre(std::function<void()> body, size_t stack_bytes)
    : body_(std::move(body)), stack_(take_stack(stack_bytes)), bytes_(stack_bytes) {
    getcontext(&mine_);
    mine_.uc_stack.ss_sp = static_cast<char *>(stack_) + guard_bytes;
    mine_.uc_stack.ss_size = bytes_;
    mine_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    auto start = +[](unsigned low, unsigned high) {
        enter(reinterpret_cast<Fibre *>(uintptr_t(low) | uintptr_t(high) << 32));
    };
    makecontext(&mine_, reinterpret_cast<void (*)()>(start), 2, unsigned(self),
                unsigned(uint64_t(self) >> 32));
}

void Fibre::resume() { swapcontext(&theirs_, &mine_); }
void Fibre::yield() { swapcontext(&mine_, &theirs_); }

#endif

Fibre::~Fibre() { spare_stacks[bytes_].push_back(stack_); }

void Fibre::enter(Fibre *fibre) {
    fibre->body_();
    fibre->ended_ = true;
    fibre->yield();
    abort();
}

}  // namespace hetir_shim
