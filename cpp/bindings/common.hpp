// What all bindings share: array types, output arrays, and calls without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "ranksvm/buffer.hpp"
#include "ranksvm/parallel.hpp"
#include "ranksvm/plan.hpp"
#include "ranksvm/products.hpp"

namespace ranksvm::bindings {

namespace nb = nanobind;

using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutOf = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using Out = OutOf<double>;

// An array for Python. Large ones use memory again that a fit has given back.
template <class T = double>
OutOf<T> make_out(std::size_t n) {
  constexpr std::size_t kLarge = std::size_t{1} << 16;
  if (n * sizeof(T) < kLarge) {
    auto* data = new T[n];
    return OutOf<T>(data, {n},
                    nb::capsule(data, [](void* p) noexcept { delete[] static_cast<T*>(p); }));
  }
  auto owner = std::make_unique<Buffer<T>>(n, shared_memory());
  T* data = owner->data();
  nb::capsule capsule(owner.get(), [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
  static_cast<void>(owner.release());
  return OutOf<T>(data, {n}, capsule);
}

template <class Array>
int64_t size_of(const Array& array) {
  return static_cast<int64_t>(array.size());
}

inline void need_size(std::size_t got, std::size_t wanted, const char* what) {
  if (got != wanted) {
    throw std::invalid_argument(std::string(what) + " has " + std::to_string(got) +
                                " elements, expected " + std::to_string(wanted));
  }
}

// The interpreter lock, given back for the lifetime of this object.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { lock(); }

  // Calls a function with the lock, from the thread that gave it back.
  template <class Function>
  auto locked(Function&& function) {
    lock();
    const auto result = function();
    state_ = PyEval_SaveThread();
    return result;
  }

 private:
  // While Python shuts down, it ends daemon threads that ask for the lock. Until version 3.13 it
  // does so by unwinding their stack, which would end the process with an error at the first
  // destructor or catch clause. So the thread stops here, as in later versions.
  void lock() noexcept {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
  }

  PyThreadState* state_;
};

// Runs `body(context)` without the interpreter lock. Ctrl-C is looked for from the calling thread;
// the exception that its handler raised is passed on.
template <class Body>
void run(int threads, Body&& body) {
  bool raised = false;
  {
    Unlocked unlocked;
    const Context context(threads, [&] {
      raised = raised || unlocked.locked([] { return PyErr_CheckSignals() != 0; });
      return raised;
    });
    try {
      body(context);
    } catch (const Interrupted&) {
    }
  }
  if (raised) throw nb::python_error();
}

// Python holds plans by this, whatever pairs they are of; `size` is the number of items.
struct PyPlan {
  std::unique_ptr<Plan> plan;
  std::size_t size;
};

template <class T, class Matrix>
Strided<T> strided(const Matrix& a) {
  return {a.data(), static_cast<int64_t>(a.shape(0)), static_cast<int64_t>(a.shape(1)), a.stride(0),
          a.stride(1)};
}

// One function a file; module.cpp calls them all.
void bind_products(nb::module_& m);        // products.cpp
void bind_vectors(nb::module_& m);         // vectors.cpp
void bind_text(nb::module_& m);            // text.cpp
void bind_ranking(nb::module_& m);         // ranking.cpp
void bind_kernel_matrix(nb::module_& m);   // kernel_matrix.cpp
void bind_pair_list(nb::module_& m);       // pair_list.cpp
void bind_lambda_pairs(nb::module_& m);    // lambda_pairs.cpp
void bind_gather(nb::module_& m);          // gather.cpp
void bind_query_features(nb::module_& m);  // query_features.cpp
void bind_columns(nb::module_& m);         // columns.cpp

}  // namespace ranksvm::bindings
