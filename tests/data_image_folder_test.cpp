#include <filesystem>
#include <stdexcept>

#include "catch.h"
#include "data_pictures.h"
#include "data_support.h"
#include "spool/data/image_folder.h"
#include "spool/data/loader.h"

using namespace spool;
using namespace spool::test;
namespace fs = std::filesystem;

namespace {
std::string plain(int value, int width = 4, int height = 4) {
  return png_of(width, height, 3, std::vector<int>(static_cast<std::size_t>(3 * width * height), value));
}
int first_pixel(const ImageFolder& data, std::int64_t i) { return data.get(i).inputs.to_vector<int>()[0]; }
}  // namespace

TEST_CASE("Classes are the sorted subfolders, pictures are sorted within, and other files are left out but said") {
  const TempFolder root;
  write_file(root / "dog/b.PNG", plain(4));
  write_file(root / "dog/a.png", plain(3));
  write_file(root / "dog/summer/z.bmp", bmp_of(4, 4, 3, std::vector<int>(48, 5)));
  write_file(root / "cat/1.jpg", jpeg_of(4, 4, std::vector<int>(48, 100), 95));
  write_file(root / "cat/notes.txt", "x");
  write_file(root / ".hidden/1.png", plain(9));
  write_file(root / "readme.txt", "x");
  const ImageFolder data(root.path());
  CHECK(data.class_names() == std::vector<std::string>{"cat", "dog"});
  REQUIRE(data.size() == 4);
  CHECK(data.spec().input == Shape{3, 4, 4});
  CHECK(data.get(0).targets.item<std::int64_t>() == 0);
  CHECK(data.get(3).targets.item<std::int64_t>() == 1);
  CHECK(first_pixel(data, 1) == 3);
  CHECK(first_pixel(data, 2) == 4);
  CHECK(first_pixel(data, 3) == 5);
  CHECK(data.ignored() == std::vector<fs::path>{root / "cat/notes.txt"});
  CHECK(mentions(data.summary(), {"4 pictures in 2 classes", "1 file ignored", "notes.txt"}));
}

TEST_CASE("Folders and files with spaces and letters of any language keep their names byte for byte") {
  const TempFolder root;
  const std::string name = "\xc3\xa9l\xc3\xa8ves \xe5\x9b\xbe\xe5\x83\x8f";
  write_file(root / ("my set/" + name + "/\xe4\xb8\x80 (1).png"), plain(42, 1, 1));
  const ImageFolder data(root / "my set");
  CHECK(data.class_names() == std::vector<std::string>{name});
  CHECK(first_pixel(data, 0) == 42);
}

TEST_CASE("A folder without classes, or with an empty one, is an error that says what is expected") {
  const TempFolder root;
  CHECK(mentions(message_of<IoError>([&] { ImageFolder{root / "absent"}; }), {"absent", "does not exist"}));
  CHECK(mentions(message_of<IoError>([&] { ImageFolder{root.path()}; }), {"no subfolders", "one per class"}));
  write_file(root / "cat/1.png", plain(1));
  write_file(root / "dog/notes.txt", "x");
  CHECK(mentions(message_of<IoError>([&] { ImageFolder{root.path()}; }), {"class 'dog'", "no pictures"}));
}

TEST_CASE("Pictures of different sizes need an image_size, which resizes them all") {
  const TempFolder root;
  write_file(root / "a/1.png", plain(1, 4, 4));
  write_file(root / "a/2.png", plain(2, 6, 5));
  const ImageFolder as_is(root.path());
  CHECK(mentions(message_of<IoError>([&] { as_is.get(1); }), {"2.png", "5 x 6", "4 x 4", "image_size"}));
  const ImageFolder resized(root.path(), {.image_size = Size2(3, 7)});
  CHECK(resized.get(1).inputs.shape() == Shape{3, 3, 7});
  CHECK(resized.get(1).inputs.to_vector<int>() == std::vector<int>(63, 2));
  CHECK_THROWS_AS(ImageFolder(root.path(), {.image_size = 0}), ValueError);
  CHECK_THROWS_AS(ImageFolder(root.path(), {.image_size = 1000000}), ValueError);
}

TEST_CASE("Bad pictures fail when they are read, and others still load; or are skipped when asked, and listed") {
  const TempFolder root;
  const std::string whole = png_of(32, 32, 3, std::vector<int>(3072, 7));
  write_file(root / "a/1.png", whole);
  write_file(root / "a/2 half.png", whole.substr(0, whole.size() / 2));
  write_file(root / "a/3 text.png", "this is a text and no picture");
  write_file(root / "a/4 empty.png", "");
  write_file(root / "a/5 huge.png", from_hex(kHugePng));
  write_file(root / "a/6 cmyk.jpg", from_hex(kCmykJpeg));
  write_file(root / "a/7.png", whole);
  const ImageFolder failing(root.path());
  REQUIRE(failing.size() == 7);
  CHECK(first_pixel(failing, 0) == 7);
  CHECK(mentions(message_of<IoError>([&] { failing.get(1); }), {"2 half.png"}));
  CHECK(mentions(message_of<IoError>([&] { failing.get(2); }), {"3 text.png"}));
  CHECK(mentions(message_of<IoError>([&] { failing.get(3); }), {"4 empty.png", "empty"}));
  CHECK(mentions(message_of<IoError>([&] { failing.get(4); }), {"5 huge.png", "large"}));
  CHECK(mentions(message_of<IoError>([&] { failing.get(5); }), {"6 cmyk.jpg", "CMYK"}));
  CHECK(first_pixel(failing, 6) == 7);

  const ImageFolder skipping(root.path(), {.on_bad_picture = BadPicture::skip});
  REQUIRE(skipping.size() == 2);
  REQUIRE(skipping.skipped().size() == 5);
  CHECK(skipping.skipped()[2].path == root / "a/4 empty.png");
  CHECK(mentions(skipping.skipped()[2].reason, {"empty"}));
  CHECK(mentions(skipping.summary(), {"2 pictures", "5 skipped", "2 half.png"}));

  write_file(root / "b/only.png", "broken");
  CHECK(mentions(message_of<IoError>([&] { ImageFolder(root.path(), {.on_bad_picture = BadPicture::skip}); }),
                 {"class 'b'", "that can be decoded", "only.png"}));
}

TEST_CASE("A loader over a folder delivers its pictures, and the error of a bad one with its path", "[threads]") {
  const TempFolder root;
  for (int i = 0; i < 10; ++i) write_file(root / ("a/" + std::to_string(i) + ".png"), plain(25 * i));
  const ImageFolder data(root.path());
  DataLoader loader(data, {.batch_size = 4, .num_workers = 2});
  std::vector<float> seen;
  for (const auto& [images, labels] : loader)
    for (std::int64_t i = 0; i < images.size(0); ++i) seen.push_back(images.select(0, i).to_vector<float>()[0]);
  REQUIRE(seen.size() == 10);
  for (int i = 0; i < 10; ++i) CHECK(seen[static_cast<std::size_t>(i)] == Approx(25 * i / 255.0));
  CHECK(load_images(data).images().to_vector<int>().back() == 225);
  write_file(root / "a/5.png", "broken");
  const std::string text = message_of<LoaderError>([&] {
    for (const auto& batch : loader) CHECK(batch.inputs.size(0) == 4);
  });
  CHECK(mentions(text, {"example 5", "batch 1 of epoch 1", "5.png", "not a picture"}));
}
