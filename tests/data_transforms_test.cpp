#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "catch.h"
#include "data_support.h"
#include "spool/data/transforms.h"

using namespace spool;
using namespace spool::test;

namespace {

Picture picture(std::int64_t h, std::int64_t w, std::int64_t c, const std::vector<int>& pixels) {
  Picture p;
  p.resize({h, w, c});
  REQUIRE(pixels.size() == p.shape().bytes());
  for (std::size_t i = 0; i < pixels.size(); ++i) p.data()[i] = static_cast<std::uint8_t>(pixels[i]);
  return p;
}
std::vector<int> pixels(const Picture& p) { return {p.data(), p.data() + p.shape().bytes()}; }
std::vector<int> counting(int n) {
  std::vector<int> v;
  for (int i = 1; i <= n; ++i) v.push_back(i);
  return v;
}
ExampleRandom number(std::uint64_t index) { return {.seed = 5, .epoch = 2, .index = index, .drawer = 1}; }

}  // namespace

TEST_CASE("A random crop is a window of the padded picture, each position equally likely") {
  const RandomCrop crop({.size = {2, 3}, .padding = 1, .fill = 99});
  CHECK(crop.output({2, 3, 1}) == PictureShape{2, 3, 1});
  std::map<std::vector<int>, int> count;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    Picture p = picture(2, 3, 1, {1, 2, 3, 4, 5, 6});
    crop.apply(p, number(i));
    CHECK(p.shape() == PictureShape{2, 3, 1});
    ++count[pixels(p)];
  }
  const std::vector<std::vector<int>> windows = {{99, 99, 99, 99, 1, 2}, {99, 99, 99, 1, 2, 3}, {99, 99, 99, 2, 3, 99},
                                                 {99, 1, 2, 99, 4, 5},   {1, 2, 3, 4, 5, 6},    {2, 3, 99, 5, 6, 99},
                                                 {99, 4, 5, 99, 99, 99}, {4, 5, 6, 99, 99, 99}, {5, 6, 99, 99, 99, 99}};
  REQUIRE(count.size() == windows.size());
  for (const auto& w : windows) CHECK(std::abs(count[w] - 1000) < 150);
}

TEST_CASE("A crop without padding keeps whole pixels, and a picture of the window's own size") {
  Picture p = picture(3, 3, 2, counting(18));
  RandomCrop({.size = 2}).apply(p, number(3));
  REQUIRE(p.shape() == PictureShape{2, 2, 2});
  const std::vector<int> got = pixels(p);
  CHECK(got[0] % 2 == 1);
  CHECK(got == std::vector<int>{got[0], got[0] + 1, got[0] + 2, got[0] + 3, got[0] + 6, got[0] + 7, got[0] + 8, got[0] + 9});
  Picture same = picture(3, 3, 2, counting(18));
  RandomCrop({.size = 3}).apply(same, number(3));
  CHECK(pixels(same) == counting(18));
  // Padding wider than the picture: a window may lie wholly in it.
  bool saw_only_padding = false;
  for (std::uint64_t i = 0; i < 200; ++i) {
    Picture tiny = picture(1, 1, 1, {7});
    RandomCrop({.size = 1, .padding = 2}).apply(tiny, number(i));
    saw_only_padding = saw_only_padding || pixels(tiny)[0] == 0;
  }
  CHECK(saw_only_padding);
}

TEST_CASE("A horizontal flip mirrors every row, with the probability given") {
  for (const int channels : {1, 2, 3}) {
    Picture p = picture(2, 3, channels, counting(6 * channels));
    const Picture before = p;
    RandomHorizontalFlip(1).apply(p, number(0));
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 3; ++x)
        CHECK(std::memcmp(p.row(y) + x * channels, before.row(y) + (2 - x) * channels, static_cast<std::size_t>(channels)) == 0);
    RandomHorizontalFlip(0).apply(p, number(0));
    RandomHorizontalFlip(1).apply(p, number(1));
    CHECK(pixels(p) == pixels(before));
  }
  int flipped = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    Picture p = picture(1, 2, 1, {1, 2});
    RandomHorizontalFlip(0.25).apply(p, number(i));
    flipped += pixels(p)[0] == 2;
  }
  CHECK(std::abs(flipped - 1000) < 120);
}

TEST_CASE("Cutout paints a square around a pixel, cut off at the border") {
  std::map<int, int> areas;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    Picture p = picture(6, 6, 3, std::vector<int>(108, 7));
    Cutout({.size = 4, .fill = 50}).apply(p, number(i));
    int top = 6, left = 6, bottom = -1, right = -1, painted = 0;
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 6; ++x)
        if (p.row(y)[3 * x] == 50) {
          ++painted;
          CHECK(p.row(y)[3 * x + 2] == 50);
          top = std::min(top, y), left = std::min(left, x), bottom = std::max(bottom, y), right = std::max(right, x);
        }
    REQUIRE(painted == (bottom - top + 1) * (right - left + 1));
    ++areas[painted];
  }
  CHECK(areas.rbegin()->first == 16);
  CHECK(areas.begin()->first == 4);
}

TEST_CASE("Colour jitter changes brightness, contrast and saturation within its bounds") {
  const std::vector<int> before = {100, 50, 200, 10, 240, 30, 128, 128, 128, 0, 255, 90};
  float least = 9, most = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    Picture p = picture(2, 2, 3, before);
    ColorJitter({.brightness = 0.4}).apply(p, number(i));
    const float factor = static_cast<float>(p.data()[0]) / 100;
    least = std::min(least, factor), most = std::max(most, factor);
    for (std::size_t k = 0; k < before.size(); ++k)
      REQUIRE(std::abs(p.data()[k] - std::min(255.0f, static_cast<float>(before[k]) * factor)) <= 2);
  }
  CHECK(least == Approx(0.6).margin(0.02));
  CHECK(most == Approx(1.4).margin(0.02));
  for (std::uint64_t i = 0; i < 100; ++i) {  // saturation moves channels to or from the pixel's grey, which stays
    Picture p = picture(1, 1, 3, {100, 120, 140});
    ColorJitter({.saturation = 0.5}).apply(p, number(i));
    const double grey = 0.299 * p.data()[0] + 0.587 * p.data()[1] + 0.114 * p.data()[2];
    CHECK(grey == Approx(0.299 * 100 + 0.587 * 120 + 0.114 * 140).margin(1));
  }
  Picture grey = picture(1, 2, 1, {0, 200});
  ColorJitter({.contrast = 1}).apply(grey, number(1));
  CHECK((grey.data()[0] + grey.data()[1]) / 2 == Approx(100).margin(30));
  Picture unchanged = picture(2, 2, 3, before);
  ColorJitter({}).apply(unchanged, number(1));
  CHECK(pixels(unchanged) == before);
}

TEST_CASE("Every transform draws numbers of its own, by seed, epoch and index") {
  const Compose both({RandomHorizontalFlip(), RandomHorizontalFlip()});
  const auto flips = [&](std::uint64_t seed, std::uint64_t epoch) {
    std::vector<int> seen;
    for (std::uint64_t i = 0; i < 64; ++i) {
      Picture p = picture(1, 2, 1, {1, 2});
      both.apply(p, {.seed = seed, .epoch = epoch, .index = i, .drawer = 1});
      seen.push_back(pixels(p)[0]);
    }
    return seen;
  };
  const std::vector<int> seen = flips(1, 0);
  CHECK(std::count(seen.begin(), seen.end(), 2) > 16);  // equal numbers would undo each other every time
  CHECK(flips(1, 0) == seen);
  CHECK(seen != flips(2, 0));
  CHECK(seen != flips(1, 1));
}

TEST_CASE("A composition knows its result's shape, takes inner compositions apart, and wants Normalize last") {
  const Normalize half({0.5}, {0.5});
  const Compose c({Compose({RandomCrop({.size = 24}), RandomCrop({.size = 20})}), half});
  CHECK(c.transforms().size() == 3);
  CHECK(c.output({32, 32, 3}) == PictureShape{20, 20, 3});
  CHECK(c.normalize() != nullptr);
  CHECK(Compose({RandomHorizontalFlip()}).normalize() == nullptr);
  CHECK(mentions(message_of<ValueError>([&] { Compose({half, RandomHorizontalFlip()}); }), {"Normalize", "1 of 2", "last"}));
  CHECK_THROWS_AS(Compose({Transform()}), ValueError);
  CHECK_THROWS_AS(Compose(std::vector<Transform>{RandomCrop({.size = 24}), RandomCrop({.size = 28})}).output({32, 32, 3}),
                  ShapeError);
}

TEST_CASE("Transforms refuse options and pictures that cannot be") {
  CHECK_THROWS_AS(RandomCrop({.size = 0}), ValueError);
  CHECK_THROWS_AS(RandomCrop({.size = 3, .padding = -1}), ValueError);
  CHECK(mentions(message_of<ShapeError>([] {
                   RandomCrop({.size = 41, .padding = 4}).output({32, 32, 3});
                 }),
                 {"41 x 41", "32 x 32", "4 x 4"}));
  CHECK_THROWS_AS(RandomHorizontalFlip(1.5), ValueError);
  CHECK_THROWS_AS(RandomHorizontalFlip(std::nan("")), ValueError);
  CHECK_THROWS_AS(Cutout({.size = 0}), ValueError);
  CHECK_THROWS_AS(ColorJitter({.contrast = -1}), ValueError);
  CHECK_THROWS_AS(ColorJitter({.contrast = 1}).output({4, 4, 2}), ShapeError);
  CHECK_THROWS_AS(Normalize({0.5, 0.5}, {0.5}), ValueError);
  CHECK_THROWS_AS(Normalize({}, {}), ValueError);
  CHECK(mentions(message_of<ValueError>([] { Normalize({0.5, 0.5}, {0.5, 0}); }), {"channel 1", "positive"}));
  CHECK_THROWS_AS(Normalize({0, 0}, {1, 1}).output({4, 4, 3}), ShapeError);
}
