// Decimal numbers, read and written exactly.
//
// Short decimals need no big arithmetic (Clinger, How to read floating point numbers accurately,
// 1990): when the digits as an integer m and the power of ten are both exact in the type T, then
// m * 10^e or m / 10^-e is one operation on exact operands, so its result is rounded once. All
// other numbers go to std::from_chars.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>

// Some standard libraries have no conversion of real numbers yet.
#if !defined(RANKSVM_NO_CHARCONV) && (!defined(__cpp_lib_to_chars) || __cpp_lib_to_chars < 201611L)
#define RANKSVM_NO_CHARCONV
#endif
#ifdef RANKSVM_NO_CHARCONV
#include <clocale>
#include <cstdio>
#include <cstdlib>
#endif

namespace ranksvm::text {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

enum class Number { good, malformed, overflow };

template <class T>
struct Exact;
template <>
struct Exact<double> {
  static constexpr uint64_t kLargest = uint64_t{1} << 53;
  static constexpr int kPowers = 22;
};
template <>
struct Exact<float> {
  static constexpr uint64_t kLargest = uint64_t{1} << 24;
  static constexpr int kPowers = 10;
};
inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#ifdef RANKSVM_NO_CHARCONV
// strtod expects the decimal point of the locale.
template <class T>
bool convert(const char* first, const char* last, T& value) {
  std::string copy(first, last);
  const std::size_t point = copy.find('.');
  if (point != std::string::npos) copy.replace(point, 1, std::localeconv()->decimal_point);
  if constexpr (sizeof(T) == sizeof(float)) {
    value = std::strtof(copy.c_str(), nullptr);
  } else {
    value = std::strtod(copy.c_str(), nullptr);
  }
  return std::isfinite(value);
}
#else
// Unsigned, well-formed digits to the nearest number; false: too large.
template <class T>
bool convert(const char* first, const char* last, T& value) {
  const std::from_chars_result result = std::from_chars(first, last, value);
  if (result.ec != std::errc::result_out_of_range) return true;
  // Too large or too small: the decimal exponent of the first digit that counts tells.
  const char* p = first;
  int64_t before_point = 0, exponent = 0;
  bool point = false, nonzero = false;
  for (; p != last && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.') {
      point = true;
    } else {
      nonzero = nonzero || *p != '0';
      before_point += point ? (nonzero ? 0 : -1) : (nonzero ? 1 : 0);
    }
  }
  if (p != last) {
    const bool minus = *++p == '-';
    for (p += minus || *p == '+'; p != last; ++p) {
      if (exponent < INT64_C(1000000000000000)) exponent = 10 * exponent + (*p - '0');
    }
    if (minus) exponent = -exponent;
  }
  value = T{0};
  return before_point + exponent < 0;
}
#endif

// Reads the longest number at p, which a character that is no part of a number has to follow, and
// moves p behind it.
template <class T>
inline Number read_number(const char*& p, T& value) {
  const bool negative = *p == '-';
  const char* const digits = p + (negative || *p == '+');
  const char* q = digits;
  uint64_t mantissa = 0;
  for (; is_digit(*q); ++q) mantissa = 10 * mantissa + static_cast<uint64_t>(*q - '0');
  int64_t n_digits = q - digits;
  int64_t exponent = 0;
  if (*q == '.') {
    const char* const fraction = ++q;
    for (; is_digit(*q); ++q) mantissa = 10 * mantissa + static_cast<uint64_t>(*q - '0');
    exponent = fraction - q;
    n_digits -= exponent;
  }
  if (n_digits == 0) return Number::malformed;
  if (*q == 'e' || *q == 'E') {
    const char* e = q + 1;
    const bool minus = *e == '-';
    e += minus || *e == '+';
    if (!is_digit(*e)) return Number::malformed;
    int64_t power = 0;
    for (; is_digit(*e); ++e) {
      if (power < 1000000) power = 10 * power + (*e - '0');
    }
    exponent += minus ? -power : power;
    q = e;
  }
  T result;
  constexpr int64_t kMost = Exact<T>::kPowers;
  // 19 digits fit into 64 bits.
  if (n_digits <= 19 && mantissa <= Exact<T>::kLargest && exponent >= -kMost && exponent <= kMost) {
    result = static_cast<T>(mantissa);
    if (exponent < 0) {
      result /= static_cast<T>(kPowersOfTen[-exponent]);
    } else {
      result *= static_cast<T>(kPowersOfTen[exponent]);
    }
  } else if (!convert(digits, q, result)) {
    return Number::overflow;
  }
  value = negative ? -result : result;
  p = q;
  return Number::good;
}

// The shortest text that reads back as the same number; at most 32 characters.
template <class T>
inline char* write_number(char* out, T value) {
#ifdef RANKSVM_NO_CHARCONV
  const int digits = std::numeric_limits<T>::max_digits10;
  char* end = out;
  for (int precision = digits - 3; precision <= digits; ++precision) {
    end = out + std::snprintf(out, 32, "%.*g", precision, static_cast<double>(value));
    const char* const point = std::localeconv()->decimal_point;
    if (char* found = std::strstr(out, point); found != nullptr && *point != '.') *found = '.';
    T back{};
    if (convert(out + (*out == '-'), end, back) && back == std::abs(value)) break;
  }
  return end;
#else
  return std::to_chars(out, out + 32, value).ptr;
#endif
}

}  // namespace ranksvm::text
