// Parsing of LETOR / SVMlight text.
#include "common.hpp"

namespace ranksvm::bindings {

void bind_text(nb::module_& /*m*/) {}

}  // namespace ranksvm::bindings
