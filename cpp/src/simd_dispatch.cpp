// Choice of the instruction set at run time.
#include <cstring>
#include <initializer_list>

#include "ranksvm/simd.hpp"

namespace ranksvm {

extern const SimdLoops kSimdBase;
#ifdef RANKSVM_X86_DISPATCH
extern const SimdLoops kSimdAvx2;
extern const SimdLoops kSimdAvx512;
#endif

const SimdLoops* simd_loops_named(const char* name) {
#ifdef RANKSVM_X86_DISPATCH
  if (std::strcmp(name, "avx512") == 0) {
    const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("bmi2");
    return runs ? &kSimdAvx512 : nullptr;
  }
  if (std::strcmp(name, "avx2") == 0) {
    const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");
    return runs ? &kSimdAvx2 : nullptr;
  }
#endif
  return std::strcmp(name, "base") == 0 ? &kSimdBase : nullptr;
}

const SimdLoops& simd_loops() {
  static const SimdLoops& best = []() -> const SimdLoops& {
    for (const char* name : {"avx512", "avx2"}) {
      if (const SimdLoops* loops = simd_loops_named(name)) return *loops;
    }
    return kSimdBase;
  }();
  return best;
}

}  // namespace ranksvm
