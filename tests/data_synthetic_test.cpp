#include <cmath>

#include "catch.h"
#include "data_support.h"
#include "spool/core/parallel.h"
#include "spool/data/synthetic.h"

using namespace spool;
using namespace spool::test;

TEST_CASE("The synthetic set has CIFAR-10's format and as many pictures of each class") {
  const Synthetic data({.size = 200});
  CHECK(data.size() == 200);
  CHECK(data.images().shape() == Shape{200, 3, 32, 32});
  CHECK(data.class_names().size() == 10);
  std::vector<int> count(10);
  for (const int label : data.labels().to_vector<int>()) ++count[static_cast<std::size_t>(label)];
  CHECK(count == std::vector<int>(10, 20));
  CHECK(Synthetic({.train = false, .size = 7}).size() == 7);
  CHECK_THROWS_AS(Synthetic({.size = -1}), ValueError);
}

TEST_CASE("The synthetic set depends on the seed, the split and the index alone") {
  const auto bytes = [](SyntheticOptions o) { return Synthetic(o).images().to_vector<int>(); };
  const std::vector<int> base = bytes({.size = 130});
  CHECK(bytes({.size = 130}) == base);
  CHECK(bytes({.size = 130, .seed = 1}) != base);
  CHECK(bytes({.train = false, .size = 130}) != base);
  CHECK(std::vector<int>(base.begin(), base.begin() + 3072 * 20) == bytes({.size = 20}));  // a smaller set is the beginning
  const int threads = get_num_threads();
  set_num_threads(threads == 1 ? 2 : 1);
  CHECK(bytes({.size = 130}) == base);
  set_num_threads(threads);
}

TEST_CASE("Classes of the synthetic set cannot be told by their mean picture") {
  const Synthetic data({.size = 4000});
  const std::vector<int> pixels = data.images().to_vector<int>();
  std::vector<double> mean(10 * 3072);
  for (std::size_t i = 0; i < pixels.size(); ++i) mean[i / 3072 % 10 * 3072 + i % 3072] += pixels[i] / 400.0;
  double between = 0, least = 255, most = 0;
  for (std::size_t c = 0; c < 10; ++c)
    for (std::size_t i = 0; i < 3072; ++i) between += std::abs(mean[c * 3072 + i] - mean[i]) / (9.0 * 3072);
  for (const int p : pixels) least = std::min<double>(least, p), most = std::max<double>(most, p);
  CHECK(between < 6);  // of 255 levels, where single pictures differ by about 60
  CHECK(least == 0);
  CHECK(most == 255);
}
