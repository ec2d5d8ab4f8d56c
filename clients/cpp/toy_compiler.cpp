// A toy compiler that chooses tile sizes and loop orders of a matrix product, and measures what it has compiled.
//
//   toy_compiler 40 baco-like serve --json                       40 evaluations
//   toy_compiler 40 baco-like serve --json --journal toy.jsonl   the same command continues after an interruption

#include <algorithm>
#include <array>
#include <baco_like.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr int size = 128;  // of the matrices
constexpr std::size_t scratch_limit = 2048;

using Matrix = std::vector<double>;

// The schedule of `c[i][j] += a[i][k] * b[k][j]`. Loop 0 is i, loop 1 is j, loop 2 is k.
struct Schedule {
  std::array<int, 3> tiles;  // the length of a tile in each loop
  std::vector<int> outer;    // the order of the loops over tiles
  std::vector<int> inner;    // the order of the loops in a tile
};

// The compiled product: six loops, the outer ones over tiles. The innermost loop is a native one.
class Kernel {
 public:
  explicit Kernel(const Schedule& schedule) : schedule_(schedule) {}

  void run(const Matrix& a, const Matrix& b, Matrix& c) {
    a_ = a.data(), b_ = b.data(), c_ = c.data();
    run_outer(0);
  }

 private:
  void run_outer(std::size_t depth) {
    if (depth == 3) return run_inner(0, {0, 0, 0});
    const auto loop = static_cast<std::size_t>(schedule_.outer[depth]);
    for (int at = 0; at < size; at += schedule_.tiles[loop]) {
      start_[loop] = at;
      run_outer(depth + 1);
    }
  }

  void run_inner(std::size_t depth, std::array<int, 3> at) {
    const auto loop = static_cast<std::size_t>(schedule_.inner[depth]);
    const int end = std::min(start_[loop] + schedule_.tiles[loop], size);
    at[loop] = start_[loop];
    if (depth == 2) return run_innermost(loop, at, end - at[loop]);
    for (; at[loop] < end; ++at[loop]) run_inner(depth + 1, at);
  }

  // The strides of the three arrays depend on the loop that is innermost: this is where the order matters.
  void run_innermost(std::size_t loop, const std::array<int, 3>& at, int count) const {
    constexpr int a_strides[] = {size, 0, 1}, b_strides[] = {0, 1, size}, c_strides[] = {size, 1, 0};
    const double* a = a_ + at[0] * size + at[2];
    const double* b = b_ + at[2] * size + at[1];
    double* c = c_ + at[0] * size + at[1];
    const int a_stride = a_strides[loop], b_stride = b_strides[loop], c_stride = c_strides[loop];
    for (int n = 0; n < count; ++n, a += a_stride, b += b_stride, c += c_stride) *c += *a * *b;
  }

  Schedule schedule_;
  std::array<int, 3> start_{};
  const double* a_ = nullptr;
  const double* b_ = nullptr;
  double* c_ = nullptr;
};

// Compiles a schedule. A tile of b must fit into the scratchpad of this machine, which the optimizer does not know.
std::optional<Kernel> compile(const Schedule& schedule) {
  const auto bytes = static_cast<std::size_t>(schedule.tiles[1] * schedule.tiles[2]);
  return bytes > scratch_limit ? std::nullopt : std::optional<Kernel>(schedule);
}

Matrix random_matrix(unsigned state) {
  Matrix matrix(size * size);
  for (double& entry : matrix) entry = (state = state * 1664525u + 1013904223u) % 16;  // whole: sums are exact
  return matrix;
}

double milliseconds_of(Kernel& kernel, const Matrix& a, const Matrix& b, Matrix& c) {
  std::fill(c.begin(), c.end(), 0.0);
  const auto start = std::chrono::steady_clock::now();
  kernel.run(a, b, c);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The run: what is chosen, which choices are allowed, and when it ends. A known constraint is better than a failure.
std::string describe(const std::string& evaluations) {
  const std::string tile = R"({"type": "ordinal", "values": [4, 8, 16, 32, 64, 128], "log": true, "default": 16})";
  const std::string order = R"({"type": "permutation", "elements": [0, 1, 2], "default": [0, 1, 2]})";
  return R"({"space": {"tile_i": )" + tile + R"(, "tile_j": )" + tile + R"(, "tile_k": )" + tile + R"(, "outer": )" +
         order + R"(, "inner": )" + order + R"(}, "constraints": {"known": ["tile_i * tile_j <= 8192"]},)" +
         R"("objective": {"name": "time", "unit": "ms"}, "budget": {"evaluations": )" + evaluations + "}}";
}

void tune(baco_like::Tuner& tuner) {
  const Matrix a = random_matrix(1), b = random_matrix(2);
  Matrix expected(size * size), c(size * size);
  Kernel({{size, size, size}, {0, 1, 2}, {0, 2, 1}}).run(a, b, expected);
  while (const auto trial = tuner.next()) {
    const std::array<int, 3> tiles = {trial->integer<int>("tile_i"), trial->integer<int>("tile_j"),
                                      trial->integer<int>("tile_k")};
    std::optional<Kernel> kernel = compile({tiles, trial->order("outer"), trial->order("inner")});
    if (!kernel) {
      tuner.fail(*trial, "compile", "a tile of b is larger than the scratchpad");
      continue;
    }
    std::vector<double> times;
    for (int repeat = 0; repeat < 3; ++repeat) times.push_back(milliseconds_of(*kernel, a, b, c));
    if (c != expected)
      tuner.fail(*trial, "correctness", "the product is wrong");
    else
      tuner.observe(*trial, times);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return std::fprintf(stderr, "usage: toy_compiler EVALUATIONS COMMAND-OF-THE-SERVER...\n"), 2;
  try {
    auto tuner = baco_like::Tuner::start({words + 2, words + count});
    tuner.open(describe(words[1]));
    tune(tuner);
    const auto best = tuner.best();
    if (best) std::printf("%.3f ms with %s\n", best->value().value_or(0), best->config().dump().c_str());
  } catch (const baco_like::Error& error) {
    std::fprintf(stderr, "toy_compiler: %s\n", error.what());
    return 1;
  }
  return 0;
}
