// Threads and interruption.
//
// A Context travels through every long computation. It says how many threads may be used and how to
// find out that the user wants to stop. No global state: two fits with different settings can run
// in one process. Work is always cut into pieces whose number does not depend on the number of
// threads, so that every thread count gives the same bits.
//
// Threads are those of OpenMP. With RANKSVM_STD_THREADS they are std::threads instead, made anew
// for every call: slow, but the thread sanitizer knows when they begin and end, while it sees races
// in every OpenMP runtime that was not built for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#ifdef RANKSVM_STD_THREADS
#include <vector>
#elif defined(_OPENMP)
#include <omp.h>
#endif
#ifdef __unix__
#include <unistd.h>
#endif

namespace ranksvm {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Threads that a computation uses when nothing else is asked for.
inline int available_threads() {
#ifdef RANKSVM_STD_THREADS
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
#elif defined(_OPENMP)
  return omp_get_max_threads();
#else
  return 1;
#endif
}

inline bool has_openmp() {
#ifdef _OPENMP
  return true;
#else
  return false;
#endif
}

class Context {
 public:
  // `interrupted` is asked now and then, only from the thread that made the Context.
  explicit Context(int threads = 1, std::function<bool()> interrupted = {})
      : threads_(std::max(1, threads)), watch_(std::make_shared<Watch>(std::move(interrupted))) {}

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
    int team = static_cast<int>(std::min<std::size_t>(threads_, n));
    if (team > 1 && (forked() || crowded())) team = 1;
    if (team <= 1) {
      const Context serial(*this, thread_);
      for (std::size_t i = 0; i < n; ++i) {
        check_interrupt();
        body(i, serial);
      }
      return;
    }
    std::exception_ptr error;
    std::atomic<bool> failed{false};
    std::atomic<std::size_t> next{0};
    std::atomic<int> finished{0};
    const auto started = std::chrono::steady_clock::now();
    const auto work = [&](int thread, int team_size) {
      const Context serial(*this, thread);
      for (std::size_t i; !failed.load(std::memory_order_relaxed) &&
                          (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
        try {
          serial.check_interrupt();
          body(i, serial);
        } catch (...) {
          if (!failed.exchange(true)) error = std::current_exception();
        }
      }
      // Wait here and not at the end of the region: the calling thread goes on looking for an
      // interrupt while others work, and the processor is free for a thread that still has to run.
      finished.fetch_add(1);
      const auto idle_since = std::chrono::steady_clock::now();
      while (finished.load(std::memory_order_acquire) < team_size) {
        if (serial.thread_ == 0) watch_->ask();
        if (std::chrono::steady_clock::now() - idle_since < std::chrono::milliseconds(2)) {
          std::this_thread::yield();
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      }
      if (serial.thread_ == thread_) {
        const auto waited = std::chrono::steady_clock::now() - idle_since;
        const auto worked = idle_since - started;
        if (waited > std::chrono::milliseconds(1) && waited > 2 * worked) set_crowded();
      }
    };
    run_team(team, work);
    if (error) std::rethrow_exception(error);
  }

  // Remembers which process this is; call it when the library is loaded.
  static void note_process() { forked(); }

 private:
  // Calls work(thread, team size) on every thread of a team.
  template <class Work>
  static void run_team(int team, const Work& work) {
#ifdef RANKSVM_STD_THREADS
    std::vector<std::thread> others;
    for (int thread = 1; thread < team; ++thread) others.emplace_back(work, thread, team);
    work(0, team);
    for (std::thread& other : others) other.join();
#elif defined(_OPENMP)
#pragma omp parallel num_threads(team)
    work(omp_get_thread_num(), omp_get_num_threads());  // fewer than were asked for, perhaps
#else
    static_cast<void>(team);
    work(0, 1);
#endif
  }

  // When the others took far longer to come than the work took, the cores are busy with something
  // else. Then work is done alone for a while, which gives the same bits.
  static std::atomic<std::chrono::steady_clock::rep>& crowded_until() {
    static std::atomic<std::chrono::steady_clock::rep> until{0};
    return until;
  }
  static bool crowded() {
#ifdef RANKSVM_STD_THREADS
    return false;  // who looks for races wants threads
#endif
    return std::chrono::steady_clock::now().time_since_epoch().count() <
           crowded_until().load(std::memory_order_relaxed);
  }
  static void set_crowded() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    crowded_until().store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }

  // Whether this process is a child of one that used threads: the OpenMP runtime does not survive a
  // fork, and would wait for threads that are not there.
  static bool forked() {
#ifdef __unix__
    static const pid_t owner = getpid();
    return getpid() != owner;
#else
    return false;
#endif
  }

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
  int thread_ = 0;  // 0 is the thread that may ask
  std::shared_ptr<Watch> watch_;
};

}  // namespace ranksvm
