// Loops that are unrolled before anything else is done to them.
#pragma once

namespace ranksvm {
namespace {
namespace simd {

// f(0), ..., f(kCount - 1). The compiler knows the numbers from the start, so an array of vectors
// that is indexed by them stays in registers. With a loop, GCC moves it to memory and back before
// and after another loop that uses it.
template <int kCount, class Function>
[[gnu::always_inline]] inline void unrolled(const Function& f) {
  if constexpr (kCount > 0) {
    unrolled<kCount - 1>(f);
    f(kCount - 1);
  }
}

}  // namespace simd
}  // namespace
}  // namespace ranksvm
