// Runs all native tests, or those whose name contains the one argument.
//
// Fails when a check fails, when a test throws, when a test checks nothing, and when there is no
// test to run: silence is not success.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "check.hpp"

namespace {

void run(const check::Test& test) {
  try {
    test.run();
  } catch (const check::Stop&) {
    // counted where it was raised
  } catch (const std::exception& error) {
    check::fail(test.file, 0, std::string("uncaught exception: ") + error.what());
  } catch (...) {
    check::fail(test.file, 0, "uncaught exception of unknown type");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string filter = argc > 1 ? argv[1] : "";
  long long n_run = 0;
  long long n_failed = 0;
  for (const check::Test& test : check::tests()) {
    if (std::string(test.name).find(filter) == std::string::npos) continue;
    const long long checks_before = check::n_checks;
    const long long failures_before = check::n_failures;
    run(test);
    if (check::n_checks == checks_before && check::n_failures == failures_before) {
      check::fail(test.file, 0, "the test checks nothing");
    }
    ++n_run;
    if (check::n_failures != failures_before) {
      ++n_failed;
      std::fprintf(stderr, "FAILED %s\n", test.name);
    }
  }
  if (n_run == 0) {
    std::fprintf(stderr, "no test %s\n", filter.empty() ? "registered" : "of that name");
    return EXIT_FAILURE;
  }
  std::printf("%lld native tests, %lld checks, %lld tests failed\n", n_run,
              static_cast<long long>(check::n_checks), n_failed);
  return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
