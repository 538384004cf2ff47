// Stackful fibres: one for each core, and in SIMT mode one for each work-item.
#pragma once

#include <cstddef>
#include <functional>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace hetir_shim {

class Fibre {
public:
    Fibre(std::function<void()> body, size_t stack_bytes);
    ~Fibre();
    Fibre(const Fibre &) = delete;
    // From the scheduler: run until the fibre yields or ends.
    void resume();
    // From inside the fibre: back to whoever resumed it.
    void yield();
    bool ended() const { return ended_; }

private:
    static void enter(Fibre *fibre);

    std::function<void()> body_;
    void *stack_ = nullptr;
    size_t bytes_ = 0;
    bool ended_ = false;
#if defined(__x86_64__)
    void *mine_ = nullptr, *theirs_ = nullptr;
#else
    ucontext_t mine_, theirs_;
#endif
};

}  // namespace hetir_shim
