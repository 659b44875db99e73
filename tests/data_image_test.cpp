#include <cmath>
#include <span>

#include "catch.h"
#include "data_pictures.h"
#include "data_support.h"
#include "spool/data/image.h"

using namespace spool;
using namespace spool::test;

namespace {

Picture decode(const std::string& bytes) { return decode_image(std::as_bytes(std::span(bytes)), "test.png"); }
std::vector<int> pixels(const Picture& p) { return {p.data(), p.data() + p.shape().bytes()}; }
std::string refusal(const std::string& bytes) {
  return message_of<IoError>([&] { decode(bytes); });
}

}  // namespace

TEST_CASE("PNG and BMP pictures come out exactly, as RGB") {
  const std::vector<int> colours = {255, 0, 0, 0, 255, 0, 1, 2, 3, 4, 5, 6};
  for (const std::string& bytes : {png_of(2, 2, 3, colours), bmp_of(2, 2, 3, colours)}) {
    const Picture p = decode(bytes);
    CHECK(p.shape() == PictureShape{2, 2, 3});
    CHECK(pixels(p) == colours);
  }
  CHECK(pixels(decode(png_of(3, 1, 1, {0, 100, 255}))) == std::vector<int>{0, 0, 0, 100, 100, 100, 255, 255, 255});
  CHECK(pixels(decode(png_of(2, 1, 2, {9, 255, 7, 0}))) == std::vector<int>{9, 9, 9, 7, 7, 7});              // grey and alpha
  CHECK(pixels(decode(png_of(2, 1, 4, {1, 2, 3, 255, 4, 5, 6, 0}))) == std::vector<int>{1, 2, 3, 4, 5, 6});  // alpha is dropped
}

TEST_CASE("Pictures of 16 bits keep their upper bytes") {
  CHECK(pixels(decode(from_hex(kGrey16Png))) == std::vector<int>{0x12, 0x12, 0x12, 0xfe, 0xfe, 0xfe});
  CHECK(pixels(decode(from_hex(kRgba16Png))) == std::vector<int>{0x12, 0x56, 0x9a, 0x01, 0x03, 0xff});
}

TEST_CASE("JPEG pictures come out nearly, grey ones as RGB") {
  std::vector<int> smooth;
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x)
      for (const int v : {8 * x, 8 * y, 128}) smooth.push_back(v);
  const std::vector<int> got = pixels(decode(jpeg_of(16, 16, smooth, 95)));
  REQUIRE(got.size() == smooth.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) worst = std::max<double>(worst, std::abs(got[i] - smooth[i]));
  CHECK(worst < 12);
  const Picture grey = decode(from_hex(kGreyJpeg));
  CHECK(grey.shape() == PictureShape{8, 8, 3});
  CHECK(pixels(grey) == std::vector<int>(8 * 8 * 3, 77));
}

TEST_CASE("What is no picture, or only a part of one, is refused with its name and the reason") {
  std::vector<int> noise;
  for (int i = 0; i < 32 * 32 * 3; ++i) noise.push_back((i * i * 31 + 17 * i) % 256);
  const std::string png = png_of(32, 32, 3, noise), jpeg = jpeg_of(32, 32, noise, 90);
  CHECK(mentions(refusal(png.substr(0, png.size() / 2)), {"test.png", "not a picture that can be read", "outofdata"}));
  CHECK(mentions(refusal(""), {"test.png", "empty"}));
  CHECK(mentions(refusal("hello, world; this is a text"), {"test.png", "JPEG, PNG and BMP"}));
  CHECK(mentions(refusal(from_hex(kHugePng)), {"test.png", "too large"}));
  for (const std::size_t tenths : {3, 5, 9}) CHECK(mentions(refusal(jpeg.substr(0, jpeg.size() * tenths / 10)), {"test.png"}));
  CHECK(mentions(refusal(from_hex(kCmykJpeg)), {"test.png", "CMYK", "convert"}));
  CHECK(mentions(refusal("GIF89a\1\0\1\0"), {"test.png"}));
}

TEST_CASE("A JPEG whose Huffman table has too many codes is refused before the decoder writes past its arrays") {
  std::string jpeg = jpeg_of(16, 16, std::vector<int>(768, 99), 80);
  const std::size_t table = jpeg.find("\xff\xc4");
  REQUIRE(table != std::string::npos);
  for (std::size_t i = 5; i < 21; ++i) jpeg[table + i] = '\x7f';
  CHECK(mentions(refusal(jpeg), {"test.png", "Huffman"}));
  CHECK(mentions(refusal("\xff" + jpeg), {"Huffman"}));  // fill bytes may come before a marker
}

TEST_CASE("A picture cut or changed anywhere is an error or a picture, never a crash") {
  std::vector<int> noise;
  for (int i = 0; i < 16 * 16 * 3; ++i) noise.push_back((i * i * 31 + 17 * i) % 256);
  std::size_t decoded = 0, refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const Picture p = decode(bytes);
      CHECK(p.shape().bytes() > 0);
      ++decoded;
    } catch (const IoError&) {
      ++refused;
    }
  };
  for (const std::string& whole : {png_of(16, 16, 3, noise), jpeg_of(16, 16, noise, 80), bmp_of(16, 16, 3, noise)}) {
    for (std::size_t n = 0; n < whole.size(); n += 7) attempt(whole.substr(0, n));
    for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 700); at += 3) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      attempt(changed);
    }
  }
  CHECK(decoded > 0);
  CHECK(refused > 0);
}

TEST_CASE("Reading a picture names the file that is not there or no file") {
  const TempFolder folder;
  CHECK(mentions(message_of<IoError>([&] { read_image(folder / "absent.png"); }), {"absent.png", "does not exist"}));
  CHECK(mentions(message_of<IoError>([&] { read_image(folder.path()); }), {"not a regular file"}));
  write_file(folder / "a b \xc3\xa9.png", png_of(3, 2, 1, {1, 2, 3, 4, 5, 6}));
  CHECK(image_shape(folder / "a b \xc3\xa9.png") == PictureShape{2, 3, 3});
}

TEST_CASE("Resizing agrees with Pillow's bilinear filter, larger and smaller") {
  Picture p;
  p.resize({6, 5, 3});
  for (int i = 0; i < 90; ++i) p.data()[i] = static_cast<std::uint8_t>(i * 7 % 251);
  const auto compare = [&](Size2 size, const std::vector<int>& expected) {
    const std::vector<int> got = pixels(resize(p, size));
    REQUIRE(got.size() == expected.size());
    int worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
    CHECK(worst <= 1);
  };
  compare({2, 3}, kResized3x2);
  compare({8, 9}, kResized9x8);
  compare({3, 5}, kResized5x3);
  CHECK(pixels(resize(p, {6, 5})) == pixels(p));
  CHECK_THROWS_AS(resize(p, {0, 5}), ValueError);
}
