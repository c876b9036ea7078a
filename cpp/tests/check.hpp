// A test framework of one page.
//
//     TEST(sum_of_nothing_is_zero) {
//       CHECK(sum({}) == 0);
//       CHECK_EQ(sum({1, 2}), 3);
//       CHECK_NEAR(mean({1, 2}), 1.5, 1e-12);
//       CHECK_THROWS(mean({}), std::invalid_argument);
//     }
//
// A test is registered by being written; main.cpp runs them all. A check that fails is printed and
// counted, and the test goes on; REQUIRE ends the test. Checks may be made from several threads,
// but REQUIRE only from the one that runs the test.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace check {

struct Test {
  const char* name;
  const char* file;
  void (*run)();
};

struct Stop : std::exception {
  const char* what() const noexcept override { return "a requirement failed"; }
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

inline std::atomic<long long> n_checks{0};
inline std::atomic<long long> n_failures{0};

struct Registration {
  Registration(const char* name, const char* file, void (*run)()) {
    tests().push_back({name, file, run});
  }
};

inline void fail(const char* file, int line, const std::string& what) {
  ++n_failures;
  // One call, so that the lines of several threads do not mix.
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

inline bool that(bool ok, const char* file, int line, const char* text) {
  ++n_checks;
  if (!ok) fail(file, line, std::string("failed: ") + text);
  return ok;
}

template <class T>
std::string show(const T& value) {
  std::ostringstream out;
  out.precision(17);
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
    out << static_cast<int>(value);  // a small number, not a character
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "(not printable)";
  }
  return out.str();
}

template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, bool> &&
                !std::is_same_v<B, bool>) {
    // A negative number never equals a large unsigned one.
    if constexpr (std::is_signed_v<A> != std::is_signed_v<B>) {
      if constexpr (std::is_signed_v<A>) {
        return a >= 0 && static_cast<std::make_unsigned_t<A>>(a) == b;
      } else {
        return b >= 0 && static_cast<std::make_unsigned_t<B>>(b) == a;
      }
    } else {
      return a == b;
    }
  } else {
    return a == b;
  }
}

template <class A, class B>
bool eq(const A& a, const B& b, const char* file, int line, const char* text) {
  ++n_checks;
  const bool ok = equal(a, b);
  if (!ok) fail(file, line, std::string("failed: ") + text + "\n    " + show(a) + " != " + show(b));
  return ok;
}

// |a - b| <= tolerance, absolute. Equal infinities are near; NaN is near nothing.
inline bool near(double a, double b, double tolerance, const char* file, int line,
                 const char* text) {
  ++n_checks;
  const bool ok = a == b || std::abs(a - b) <= tolerance;
  if (!ok) {
    fail(file, line,
         std::string("failed: ") + text + "\n    " + show(a) + " and " + show(b) + " differ by " +
             show(std::abs(a - b)) + ", more than " + show(tolerance));
  }
  return ok;
}

}  // namespace check

#define TEST(name)                                                                                 \
  static void check_test_##name();                                                                 \
  static const check::Registration check_registration_##name(#name, __FILE__, &check_test_##name); \
  static void check_test_##name()

#define CHECK(...) check::that(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

#define CHECK_EQ(a, b) check::eq((a), (b), __FILE__, __LINE__, #a " == " #b)

#define CHECK_NEAR(a, b, tolerance) \
  check::near((a), (b), (tolerance), __FILE__, __LINE__, #a " near " #b)

#define CHECK_THROWS(expression, type)                                           \
  do {                                                                           \
    bool check_thrown = false;                                                   \
    try {                                                                        \
      static_cast<void>(expression);                                             \
    } catch (const type&) {                                                      \
      check_thrown = true;                                                       \
    } catch (...) {                                                              \
    }                                                                            \
    check::that(check_thrown, __FILE__, __LINE__, #expression " throws " #type); \
  } while (false)

#define REQUIRE(...)                              \
  do {                                            \
    if (!CHECK(__VA_ARGS__)) throw check::Stop(); \
  } while (false)
