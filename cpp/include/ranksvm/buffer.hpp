// Memory for large arrays: uninitialised, aligned to cache lines, on huge pages where the system
// has them, and recycled between evaluations (fresh pages cost as much as the arithmetic on them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace ranksvm {

// A shelf of memory blocks; thread-safe. Evaluations ask for the same sizes again and again, so
// blocks are looked up by exact size. Blocks that come back are kept while there are keepers.
class Memory {
 public:
  explicit Memory(int keepers = 1) : keepers_(keepers) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { clear(); }

  void* take(std::size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = shelf_.find(bytes);
      if (found != shelf_.end()) {
        void* block = found->second;
        shelf_.erase(found);
        return block;
      }
    }
    constexpr std::size_t kPage = std::size_t{1} << 21;
    const std::size_t align = bytes >= 2 * kPage ? kPage : 64;
    if (bytes > SIZE_MAX - align) throw std::bad_alloc();
    const std::size_t rounded = (bytes + align - 1) / align * align;
    void* block = std::aligned_alloc(align, rounded);
    if (block == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (align == kPage) madvise(block, rounded, MADV_HUGEPAGE);  // a hint: failure is harmless
#endif
    return block;
  }

  // Frees the blocks that nobody uses.
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [bytes, block] : shelf_) std::free(block);
    shelf_.clear();
  }

  void give(void* block, std::size_t bytes) noexcept {
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (keepers_ > 0) {
        shelf_.emplace(bytes, block);
        return;
      }
    } catch (...) {
    }
    std::free(block);
  }

  void add_keeper() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++keepers_;
  }
  // The last one to go empties the shelf. There may be none left in a child process.
  void remove_keeper() {
    bool is_last = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_last = keepers_ > 0 && --keepers_ == 0;
    }
    if (is_last) clear();
  }

  // Around a fork: no other thread is in the middle of something, and its fit, which does not go on
  // in the child, keeps no memory there.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool is_child) {
    if (is_child) keepers_ = 0;
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  int keepers_;
  std::multimap<std::size_t, void*> shelf_;
};

// For results and temporary arrays of all computations. It keeps blocks for the duration of a fit,
// which is its keeper, and none otherwise.
inline const std::shared_ptr<Memory>& shared_memory() {
  static const auto* memory = [] {
    const auto* made = new std::shared_ptr<Memory>(std::make_shared<Memory>(0));
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork([] { shared_memory()->before_fork(); },
                   [] { shared_memory()->after_fork(false); },
                   [] { shared_memory()->after_fork(true); });
#endif
    return made;
  }();
  return *memory;  // never destroyed: arrays may be freed after static objects are gone
}

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  // Small ones do without the shelf, whose lock would keep threads waiting.
  Buffer(std::size_t n, const std::shared_ptr<Memory>& memory) : size_(n) {
    if (n > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    if (n == 0) return;
    const std::size_t bytes = n * sizeof(T);
    if (bytes >= kSmall) {
      memory_ = memory;
      data_ = static_cast<T*>(memory_->take(bytes));
    } else {
      data_ = static_cast<T*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
      if (data_ == nullptr) throw std::bad_alloc();
    }
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (memory_ != nullptr) {
      memory_->give(data_, size_ * sizeof(T));
    } else {
      std::free(data_);
    }
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(memory_, other.memory_);
  }

  static constexpr std::size_t kSmall = std::size_t{1} << 14;  // bytes

  std::shared_ptr<Memory> memory_;  // null for a small one
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ranksvm
