// Choice of the kernels at run time.
#include <cstring>
#include <initializer_list>

#include "ranksvm/kernels.hpp"

namespace ranksvm {

extern const Kernels kKernelsBase;
#ifdef RANKSVM_X86_DISPATCH
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
#endif

const Kernels* kernels_named(const char* name) {
#ifdef RANKSVM_X86_DISPATCH
  if (std::strcmp(name, "avx512") == 0) {
    const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("bmi2");
    return runs ? &kKernelsAvx512 : nullptr;
  }
  if (std::strcmp(name, "avx2") == 0) {
    const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");
    return runs ? &kKernelsAvx2 : nullptr;
  }
#endif
  return std::strcmp(name, "base") == 0 ? &kKernelsBase : nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = []() -> const Kernels& {
    for (const char* name : {"avx512", "avx2"}) {
      if (const Kernels* table = kernels_named(name)) return *table;
    }
    return kKernelsBase;
  }();
  return best;
}

}  // namespace ranksvm
