// Loops over threads: every piece once, exceptions and interrupts come through, nothing breaks.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"

namespace {

using ranksvm::Context;
using ranksvm::Interrupted;
using Clock = std::chrono::steady_clock;

// Far longer than an interrupt may take; for work that would not end by itself.
constexpr std::chrono::seconds kTooLong{5};

}  // namespace

TEST(parallel_for_does_every_piece_once) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::size_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(n);
      Context(threads).parallel_for(n, [&](std::size_t i, const Context& inner) {
        ++seen[i];
        CHECK_EQ(inner.threads(), 1);
      });
      bool once = true;
      for (const auto& count : seen) once &= count == 1;
      CHECK(once);
    }
  }
}

TEST(thread_counts_below_one_mean_one) {
  CHECK_EQ(Context(0).threads(), 1);
  CHECK_EQ(Context(-3).threads(), 1);
  CHECK_EQ(Context(4).threads(), 4);
  CHECK_EQ(Context(4).one_thread().threads(), 1);
}

TEST(parallel_for_can_be_nested) {
  std::atomic<int> count{0};
  Context(2).parallel_for(10, [&](std::size_t, const Context& inner) {
    inner.parallel_for(10, [&](std::size_t, const Context&) { ++count; });
  });
  CHECK_EQ(count.load(), 100);
}

TEST(loops_of_several_threads_share_the_pool) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      const Context context(2 + caller);
      for (int round = 0; round < 200; ++round) {
        const std::size_t n = 1 + (caller * 7 + round) % 40;
        std::vector<int> seen(n, 0);  // every piece writes its own place only
        context.parallel_for(n, [&](std::size_t i, const Context&) { ++seen[i]; });
        for (const int count : seen) wrong += count != 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(a_loop_does_not_wait_for_threads_that_come_late) {
  // Short loops after long pauses, when all threads sleep.
  const Context context(8);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> count{0};
    context.parallel_for(8, [&](std::size_t, const Context&) { ++count; });
    CHECK_EQ(count.load(), 8);
  }
}

TEST(exceptions_propagate) {
  for (const int threads : {1, 2, 4}) {
    const Context context(threads);
    std::string what;
    try {
      context.parallel_for(1000, [](std::size_t i, const Context&) {
        if (i == 3) throw std::runtime_error("piece 3");
      });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    CHECK_EQ(what, std::string("piece 3"));
    // Nothing is left of it.
    std::atomic<int> count{0};
    context.parallel_for(100, [&](std::size_t, const Context&) { ++count; });
    CHECK_EQ(count.load(), 100);
  }
}

TEST(an_exception_ends_the_loop) {
  for (const int threads : {1, 2}) {
    std::atomic<int> count{0};
    auto loop = [&] {
      Context(threads).parallel_for(1000000, [&](std::size_t, const Context&) {
        ++count;
        throw std::logic_error("each of them");
      });
    };
    CHECK_THROWS(loop(), std::logic_error);
    CHECK(count.load() <= threads);
  }
}

TEST(no_interrupt_without_a_reason) {
  const Context silent;
  for (int i = 0; i < 1000; ++i) silent.check_interrupt();
  const Context asked(2, [] { return false; });
  const auto end = Clock::now() + std::chrono::milliseconds(120);
  while (Clock::now() < end) asked.check_interrupt();
  CHECK(true);
}

TEST(an_interrupt_ends_a_long_loop) {
  for (const int threads : {1, 2, 4}) {
    bool stop = true;
    const Context context(threads, [&] { return stop; });
    const auto deadline = Clock::now() + kTooLong;
    auto loop = [&] {
      context.parallel_for(4, [&](std::size_t, const Context& inner) {
        while (Clock::now() < deadline) inner.check_interrupt();
      });
    };
    CHECK_THROWS(loop(), Interrupted);
    // The computation is over; the next one has its own context.
    const Context next(threads, [] { return false; });
    std::atomic<int> count{0};
    next.parallel_for(100, [&](std::size_t, const Context&) { ++count; });
    CHECK_EQ(count.load(), 100);
  }
}

TEST(only_the_thread_that_made_the_context_asks) {
  std::set<std::thread::id> asking;
  const Context context(3, [&] {
    asking.insert(std::this_thread::get_id());
    return false;
  });
  const auto end = Clock::now() + std::chrono::milliseconds(200);
  context.parallel_for(3, [&](std::size_t, const Context& inner) {
    while (Clock::now() < end) inner.check_interrupt();
  });
  CHECK_EQ(asking.size(), 1U);
  CHECK(asking.count(std::this_thread::get_id()) == 1);
}

// One query may be much longer than all others: the thread that may ask has nothing left to do
// then, and still has to ask.
TEST(an_interrupt_reaches_the_last_piece_on_another_thread) {
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> other_at_work{false};
  bool interrupted = false;
  const auto deadline = Clock::now() + 6 * kTooLong;
  // No other thread may come for a while, if the machine is busy.
  while (!other_at_work && Clock::now() < deadline) {
    const Context context(2, [&] { return other_at_work.load(); });
    const auto patience = Clock::now() + std::chrono::milliseconds(100);
    try {
      context.parallel_for(2, [&](std::size_t, const Context& inner) {
        if (std::this_thread::get_id() == caller) {
          while (!other_at_work && Clock::now() < patience) std::this_thread::yield();
          return;  // done, before it would have asked
        }
        other_at_work = true;
        while (Clock::now() < deadline) inner.check_interrupt();
      });
    } catch (const Interrupted&) {
      interrupted = true;
    }
  }
  CHECK(other_at_work.load());
  CHECK(interrupted);
  CHECK(Clock::now() < deadline);
}

TEST(memory_is_kept_while_there_are_keepers) {
  const auto memory = std::make_shared<ranksvm::Memory>(0);
  constexpr std::size_t kSize = std::size_t{1} << 20;
  memory->add_keeper();
  void* block = memory->take(kSize);
  memory->give(block, kSize);
  CHECK(memory->take(kSize) == block);
  memory->give(block, kSize);
  memory->remove_keeper();  // frees it, or the address sanitizer would tell
  void* other = memory->take(kSize);
  memory->give(other, kSize);
  CHECK(true);
}

TEST(memory_is_recycled_and_aligned) {
  const auto memory = std::make_shared<ranksvm::Memory>();
  const void* first = nullptr;
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    {
      ranksvm::Buffer<double> buffer(n, memory);
      first = buffer.data();
      buffer[0] = buffer[n - 1] = 1.0;
      CHECK_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
      ranksvm::Buffer<double> other(n, memory);
      CHECK(other.data() != buffer.data());
      ranksvm::Buffer<double> moved(std::move(buffer));
      CHECK(moved.data() == first);
      CHECK_EQ(moved.size(), n);
    }
    ranksvm::Buffer<double> one(n, memory), two(n, memory);
    if (n > 10000) CHECK(one.data() == first || two.data() == first);  // small ones are not kept
  }
  const ranksvm::Buffer<double> empty(0, memory);
  CHECK(empty.data() == nullptr);
  CHECK_THROWS(ranksvm::Buffer<double>(SIZE_MAX / 4, memory), std::bad_alloc);
}
