// Threads and interruption.
//
// A Context travels through every long computation. It says how many threads may be used and how to
// find out that the user wants to stop. Two fits with different settings can run in one process.
// Work is always cut into pieces whose number does not depend on the number of threads, so that
// every thread count gives the same bits.
//
// The threads belong to one pool (threads.cpp). A loop is open to them while it has pieces left:
// one that comes late finds nothing to do, and nobody waits for it. So a loop never takes much
// longer than on one thread, whatever else the machine is busy with.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace ranksvm {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Calls work(data, 0) on the calling thread, and work(data, seat) on up to `helpers` threads of the
// pool, if they come before the call on this thread returns. Every thread of the pool has a seat of
// its own, from 1 on. Returns when all of them have returned; meanwhile calls idle(data) now and
// then. `work` must not throw.
struct Loop {
  void (*work)(void* data, int seat);
  void (*idle)(void* data);
  void* data;
};
void run_with_helpers(const Loop& loop, int helpers);

class Context {
 public:
  // `interrupted` is asked now and then, only from the thread that made the Context.
  explicit Context(int threads = 1, std::function<bool()> interrupted = {})
      : threads_(std::max(1, threads)),
        own_watch_(std::make_unique<Watch>(std::move(interrupted))),
        watch_(own_watch_.get()) {}

  // A copy refers to the first Context, and must not outlive it.
  Context(const Context& other)
      : threads_(other.threads_), thread_(other.thread_), watch_(other.watch_) {}
  Context& operator=(const Context&) = delete;

  int threads() const { return threads_; }
  // The same, for work that is too small to share.
  Context one_thread() const { return Context(*this, thread_); }

  // Throws Interrupted when the user asked to stop. Call it at least every few milliseconds from
  // long loops.
  void check_interrupt() const {
    if (thread_ == 0) watch_->ask();
    if (watch_->stop.load(std::memory_order_relaxed)) throw Interrupted();
  }

  // Calls body(i, context) for i in [0, n), in any order, on one thread each; `context` is for what
  // the body calls in turn. The first exception is thrown again.
  template <class Body>
  void parallel_for(std::size_t n, Body&& body) const {
    const int team = static_cast<int>(std::min<std::size_t>(threads_, n));
    if (team <= 1) {
      const Context serial(*this, thread_);
      for (std::size_t i = 0; i < n; ++i) {
        check_interrupt();
        body(i, serial);
      }
      return;
    }
    struct Shared {
      const Context& context;
      Body& body;
      std::size_t slices;
      std::atomic<bool> failed{false};
      std::exception_ptr error{};
      Slice slice[kMostSlices];
    } shared{*this, body, std::min<std::size_t>(team, kMostSlices)};
    for (std::size_t s = 0; s < shared.slices; ++s) {
      shared.slice[s].next.store(n * s / shared.slices, std::memory_order_relaxed);
      shared.slice[s].end = n * (s + 1) / shared.slices;
    }
    const auto work = [](void* data, int seat) {
      auto& s = *static_cast<Shared*>(data);
      // Threads of the pool never ask; the calling thread may.
      const Context serial(s.context, seat == 0 ? s.context.thread_ : seat);
      for (std::size_t k = 0; k < s.slices; ++k) {
        Slice& slice = s.slice[(seat + k) % s.slices];
        for (std::size_t i; (i = slice.take()) < slice.end;) {
          if (s.failed.load(std::memory_order_relaxed)) return;
          try {
            serial.check_interrupt();
            s.body(i, serial);
          } catch (...) {
            if (!s.failed.exchange(true)) s.error = std::current_exception();
          }
        }
      }
    };
    const auto idle = [](void* data) {
      const Context& context = static_cast<Shared*>(data)->context;
      if (context.thread_ == 0) context.watch_->ask();
    };
    run_with_helpers({work, idle, &shared}, team - 1);
    if (shared.error) std::rethrow_exception(shared.error);
  }

 private:
  // A range of the pieces of a loop. A thread begins with its own slice, the same one in every loop
  // over so many pieces, whose data its cache may still have; then it helps with the others.
  static constexpr std::size_t kMostSlices = 32;
  struct alignas(64) Slice {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
    std::size_t take() {
      if (next.load(std::memory_order_relaxed) >= end) return end;
      return next.fetch_add(1, std::memory_order_relaxed);
    }
  };

  struct Watch {
    explicit Watch(std::function<bool()> f) : interrupted(std::move(f)) {}
    void ask() {
      if (!interrupted) return;
      const auto now = std::chrono::steady_clock::now();
      if (now - last < std::chrono::milliseconds(50)) return;
      last = now;
      if (interrupted()) stop.store(true, std::memory_order_relaxed);
    }
    std::function<bool()> interrupted;
    std::atomic<bool> stop{false};
    std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
  };

  Context(const Context& parent, int thread)
      : threads_(1), thread_(thread), watch_(parent.watch_) {}

  int threads_;
  int thread_ = 0;                    // 0 is the thread that may ask
  std::unique_ptr<Watch> own_watch_;  // of the first Context; the others refer to it
  Watch* watch_;
};

}  // namespace ranksvm
