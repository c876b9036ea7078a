// The pool of threads behind Context::parallel_for.
//
// Threads look for open loops. One that finds none watches for a new one for a short while, since a
// fit makes many loops in quick succession, and then sleeps. The pool grows to what the largest
// loop asks for, and lives as long as the process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>

#include "ranksvm/parallel.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#include <time.h>
#define RANKSVM_POSIX
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace ranksvm {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread watches for a new loop before it sleeps: at first without giving way to others.
constexpr std::chrono::microseconds kEager{30}, kWatch{200};
// How long the calling thread watches for helpers that still work, before it naps.
constexpr std::chrono::milliseconds kPatient{2};
constexpr std::chrono::microseconds kNap{200}, kShortNap{20};
// Helpers save the processor time that they use, and cost the time that the loop waits for them at
// its end. If they cost more than they save by this, summed over recent loops, then other programs
// need the cores, and loops run on one thread for a while: longer if that has happened just before.
constexpr std::chrono::milliseconds kLoss{2}, kAlone{100}, kLongestAlone{3200};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

// Processor time of this thread.
Clock::duration processor_time() {
#ifdef RANKSVM_POSIX
  timespec now;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0) {
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }
#endif
  return Clock::now().time_since_epoch();
}

struct OpenLoop {
  const Loop* loop;
  int most;                           // threads that may work at once, on all loops together
  int places;                         // for helpers that may still come
  std::atomic<int> at_work{0};        // helpers
  std::atomic<Clock::rep> helped{0};  // processor time of helpers
  OpenLoop* next = nullptr;
};

class Pool {
 public:
  void run(const Loop& loop, int helpers) {
    OpenLoop open{&loop, std::max(helpers + 1, cores_), helpers};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++at_work_;
      while (threads_ < helpers && start_thread()) {
      }
      open.next = first_;
      first_ = &open;
      places_.fetch_add(helpers);
    }
    if (sleeping_.load() > 0) {
      // The lock makes sure that a thread that is about to sleep does not miss this.
      {
        const std::lock_guard<std::mutex> lock(sleep_mutex_);
      }
      helpers >= sleeping_.load() ? wake_.notify_all() : wake_some(helpers);
    }
    loop.work(loop.data, 0);
    const auto idle_since = Clock::now();
    close(open);
    while (open.at_work.load(std::memory_order_acquire) > 0) {
      loop.idle(loop.data);
      const auto waited = Clock::now() - idle_since;
      if (waited < kEager) {
        pause();
      } else if (waited < kPatient) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kNap);
      }
    }
    weigh(open.helped.load(std::memory_order_relaxed), (Clock::now() - idle_since).count());
  }

  bool is_alone() const {
    return Clock::now().time_since_epoch().count() < alone_until_.load(std::memory_order_relaxed);
  }

 private:
  void wake_some(int n) {
    for (int i = 0; i < n; ++i) wake_.notify_one();
  }

  // Several threads may do this at once; what one of them overwrites does not matter.
  void weigh(Clock::rep saved, Clock::rep lost) {
    const Clock::rep before = balance_.load(std::memory_order_relaxed);
    const Clock::rep balance = before - before / 8 + saved - lost;
    balance_.store(balance, std::memory_order_relaxed);
    if (Clock::duration(balance) > -kLoss) return;
    balance_.store(0, std::memory_order_relaxed);
    const auto now = Clock::now();
    Clock::rep alone = alone_for_.load(std::memory_order_relaxed);
    const bool again =
        now.time_since_epoch().count() < alone_until_.load(std::memory_order_relaxed) + 4 * alone;
    const Clock::rep first = Clock::duration(kAlone).count();
    alone = again ? std::min(2 * alone, Clock::duration(kLongestAlone).count()) : first;
    alone_for_.store(alone, std::memory_order_relaxed);
    alone_until_.store(now.time_since_epoch().count() + alone, std::memory_order_relaxed);
  }

  // No more helpers may come.
  void close(OpenLoop& open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    OpenLoop** at = &first_;
    while (*at != &open) at = &(*at)->next;
    *at = open.next;
    --at_work_;
    places_.fetch_sub(open.places, std::memory_order_relaxed);
  }

  // Joins a loop that has a place left; null if there is none.
  OpenLoop* join() {
    if (places_.load(std::memory_order_acquire) <= 0) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (OpenLoop* open = first_; open != nullptr; open = open->next) {
      if (open->places == 0 || at_work_ >= open->most) continue;
      --open->places;
      ++at_work_;
      places_.fetch_sub(1, std::memory_order_relaxed);
      open->at_work.fetch_add(1, std::memory_order_relaxed);
      return open;
    }
    return nullptr;
  }

  void help(OpenLoop& open, int seat) {
    const auto used = processor_time();
    open.loop->work(open.loop->data, seat);
    open.helped.fetch_add((processor_time() - used).count(), std::memory_order_relaxed);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --at_work_;
    }
    open.at_work.fetch_sub(1, std::memory_order_release);  // the loop may be gone from here on
  }

  void work(int seat) {
    for (auto idle_since = Clock::now();;) {
      if (OpenLoop* open = join()) {
        help(*open, seat);
        idle_since = Clock::now();
        continue;
      }
      const auto idle = Clock::now() - idle_since;
      if (places_.load(std::memory_order_relaxed) > 0) {  // all cores are at work on other loops
        std::this_thread::sleep_for(kShortNap);
      } else if (idle < kEager) {
        pause();
      } else if (idle < kWatch && !is_alone()) {
        std::this_thread::yield();
      } else {
        std::unique_lock<std::mutex> lock(sleep_mutex_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [&] { return places_.load() > 0; });
        sleeping_.fetch_sub(1);
        idle_since = Clock::now();
      }
    }
  }

  bool start_thread() {
#ifdef RANKSVM_POSIX
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    bool started = true;
    try {
      std::thread([this, seat = threads_ + 1] { work(seat); }).detach();
      ++threads_;
    } catch (const std::exception&) {  // the system allows no more
      started = false;
    }
#ifdef RANKSVM_POSIX
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
    return started;
  }

  std::mutex mutex_;  // of the open loops and of the number of threads
  OpenLoop* first_ = nullptr;
  int threads_ = 0;
  int at_work_ = 0;  // threads in loops, calling threads included
  const int cores_ = static_cast<int>(std::thread::hardware_concurrency());
  std::atomic<int> places_{0};  // of all open loops together
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleeping_{0};
  std::atomic<Clock::rep> balance_{0}, alone_for_{0}, alone_until_{0};
};

// Never destroyed: its threads may outlive the destruction of static objects. A child process has
// none of the threads of its parent, and starts anew.
std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
  Pool* found = the_pool.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto* made = new Pool;
  if (!the_pool.compare_exchange_strong(found, made)) {
    delete made;
    return *found;
  }
#ifdef RANKSVM_POSIX
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr, std::memory_order_release); });
  static_cast<void>(registered);
#endif
  return *made;
}

}  // namespace

void run_with_helpers(const Loop& loop, int helpers) {
  Pool& p = pool();
  if (helpers <= 0 || p.is_alone()) return loop.work(loop.data, 0);
  p.run(loop, helpers);
}

}  // namespace ranksvm
