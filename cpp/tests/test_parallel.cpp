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
  const Context context(2, [] { return true; });
  const auto deadline = Clock::now() + kTooLong;
  auto loop = [&] {
    context.parallel_for(2, [&](std::size_t, const Context& inner) {
      if (std::this_thread::get_id() == caller) {
        while (!other_at_work && Clock::now() < deadline) std::this_thread::yield();
        return;  // done, before it would have asked
      }
      other_at_work = true;
      while (Clock::now() < deadline) inner.check_interrupt();
    });
  };
  CHECK_THROWS(loop(), Interrupted);
  CHECK(other_at_work.load());
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
