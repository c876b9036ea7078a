// Gives the target of libFuzzer random text for some seconds: for compilers without libFuzzer, and
// for the thread sanitizer, where what matters is many threads and not rare text.
//
//     driver seconds seed
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace {

// Tokens of lines, good ones several times, so that many texts are good.
constexpr const char* kTokens[] = {
    "1:0.5",      "2:-1.25e-3", "3:1",    "7:1e300",      "9:.5",     "12:0",
    "40:-0.0",    "300:12",     "4:NULL", "5:nan",        "6:inf",    "0:1",
    "x",          "2:",         ":",      "2147483648:1", "3:1e-400", "# docid = 3",
    "#",          "\t",         "\r",     "qid:2",        "cost:1",   "8:123456789012345678901",
    "1:0.333333", "2:7",        "3:4.25", "4:100",        "5:1",      "6:2"};

std::string random_text(std::mt19937_64& draw) {
  const auto below = [&](uint64_t n) { return draw() % n; };
  std::string text;
  for (int k = 0; k < 4; ++k) text.push_back(static_cast<char>(below(256)));
  const bool good = below(4) != 0;
  const bool ids = below(2) != 0;
  for (uint64_t line = below(40); line-- > 0;) {
    text += std::to_string(static_cast<int>(below(5)) - 1);
    if (ids) text += " qid:" + std::to_string(below(4));
    if (good) {
      uint64_t index = 0;
      for (uint64_t k = below(8); k-- > 0;) {
        index += 1 + below(index > 5 ? 200 : 3);
        text += " " + std::to_string(index) + ":" + std::to_string(below(1000)) + "." +
                std::to_string(below(100000));
      }
    } else {
      for (uint64_t k = below(8); k-- > 0;) {
        text += " ";
        text += kTokens[below(std::size(kTokens))];
      }
    }
    text += below(9) == 0 ? " # c\r\n" : "\n";
  }
  if (below(8) == 0 && text.size() > 4) {
    text[4 + below(text.size() - 4)] = static_cast<char>(below(256));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  uint64_t cases = 0;
  do {
    std::mt19937_64 draw(seed);
    const std::string text = random_text(draw);
    std::FILE* const last = std::fopen("last-seed", "w");
    if (last != nullptr) {
      std::fprintf(last, "%llu\n", static_cast<unsigned long long>(seed));
      std::fclose(last);
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    ++seed;
    ++cases;
  } while (elapsed() < seconds);
  std::printf("%llu\n", static_cast<unsigned long long>(cases));
  return 0;
}
