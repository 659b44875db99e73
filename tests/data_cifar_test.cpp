#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "catch.h"
#include "data_support.h"
#include "spool/data/cifar.h"

using namespace spool;
using namespace spool::test;
namespace fs = std::filesystem;

namespace {

// Record r has label r % classes and pixel k of colour c is (7 r + 3 c + k) % 256.
std::string records(std::size_t n, std::size_t labels = 1, std::size_t classes = 10) {
  std::string bytes;
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t l = 0; l < labels; ++l) bytes += static_cast<char>(r % (l + 1 < labels ? 20 : classes));
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t k = 0; k < 1024; ++k) bytes += static_cast<char>((7 * r + 3 * c + k) % 256);
  }
  return bytes;
}

std::string test_error(const fs::path& folder, bool official = true) {
  return message_of<IoError>([&] { Cifar10(folder, {.train = false, .official_size = official}); });
}

}  // namespace

TEST_CASE("A CIFAR-10 file is read record by record: label, then the red, green and blue planes") {
  const TempFolder folder;
  write_file(folder / "cifar-10-batches-bin/test_batch.bin", records(1234));  // more than one piece of reading
  const Cifar10 data(folder.path(), {.train = false, .official_size = false});
  REQUIRE(data.size() == 1234);
  CHECK(data.images().shape() == Shape{1234, 3, 32, 32});
  CHECK(data.class_names().at(9) == "truck");
  for (const std::int64_t r : {0, 999, 1000, 1233}) {
    const auto [image, label] = data.get(r);
    CHECK(label.item<std::int64_t>() == r % 10);
    const std::vector<int> pixels = image.to_vector<int>();
    for (const int i : {0, 31, 1023, 1024, 3071})
      CHECK(pixels[static_cast<std::size_t>(i)] == (7 * r + 3 * (i / 1024) + i % 1024) % 256);
  }
  // The folder of the files themselves serves as well.
  CHECK(Cifar10(folder / "cifar-10-batches-bin", {.train = false, .official_size = false}).size() == 1234);
}

TEST_CASE("A damaged CIFAR-10 file is one error with its name, size, whole records and the rest") {
  const TempFolder folder;
  const fs::path file = folder / "test_batch.bin";
  write_file(file, "");
  fs::resize_file(file, 30730000 - 1000);
  CHECK(mentions(test_error(folder.path()), {file.string(), "30729000", "9999", "3073", "2073", "30730000", "delete it"}));
  CHECK(mentions(test_error(folder.path(), false), {file.string(), "30729000", "9999", "2073"}));
  fs::resize_file(file, 30730000 - 3073);  // cut between two records
  CHECK(mentions(test_error(folder.path()), {"30726927", "9999", "expected 30730000"}));
  fs::resize_file(file, 30730000 + 3073);
  CHECK(mentions(test_error(folder.path()), {"30733073", "10001"}));
  fs::resize_file(file, 0);
  CHECK(mentions(test_error(folder.path()), {"0 bytes", "expected 30730000"}));
  CHECK(mentions(test_error(folder.path(), false), {"0 bytes", "at least one"}));
  fs::remove(file);
  CHECK(mentions(test_error(folder.path()), {file.string(), "does not exist", "cifar-10-binary.tar.gz"}));
  fs::create_directory(file);
  CHECK(mentions(test_error(folder.path()), {file.string(), "is a folder"}));
  CHECK(mentions(test_error(folder / "absent"), {"absent", "does not exist"}));
}

TEST_CASE("A label that is no class is an error with its record and place") {
  const TempFolder folder;
  std::string bytes = records(1500);
  bytes[1200 * 3073] = 10;
  write_file(folder / "test_batch.bin", bytes);
  CHECK(mentions(test_error(folder.path(), false), {"test_batch.bin", "record 1200", "3687600", "label 10", "0 to 9"}));
}

TEST_CASE("The training set is the five files in order, and one missing is named") {
  const TempFolder folder;
  for (std::size_t f = 1; f <= 5; ++f) write_file(folder / ("data_batch_" + std::to_string(f) + ".bin"), records(f));
  const Cifar10 data(folder.path(), {.official_size = false});
  CHECK(data.labels().to_vector<int>() == std::vector<int>{0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4});
  fs::remove(folder / "data_batch_3.bin");
  CHECK(mentions(message_of<IoError>([&] { Cifar10(folder.path(), {.official_size = false}); }),
                 {"data_batch_3.bin", "does not exist"}));
}

TEST_CASE("CIFAR-100 records have two labels, of which one is chosen") {
  const TempFolder folder;
  write_file(folder / "cifar-100-binary/train.bin", records(130, 2, 100));
  const Cifar100 fine(folder.path(), {.official_size = false}), coarse(folder.path(), {.coarse = true, .official_size = false});
  CHECK(fine.get(125).targets.item<std::int64_t>() == 25);
  CHECK(coarse.get(125).targets.item<std::int64_t>() == 5);
  CHECK(fine.class_names().size() == 100);
  CHECK(fine.class_names().back() == "worm");
  CHECK(std::is_sorted(fine.class_names().begin(), fine.class_names().end()));
  CHECK(coarse.class_names().size() == 20);
  CHECK(fine.get(7).inputs.to_vector<int>()[2] == 7 * 7 + 2);
  CHECK(mentions(message_of<IoError>([&] { Cifar100{folder.path()}; }), {"399620", "expected 153700000"}));
}

TEST_CASE("Bytes that are not whole records are refused by the parser itself") {
  const std::string bytes = records(2);
  std::vector<std::uint8_t> pixels(2 * 3072);
  std::vector<std::int64_t> labels(2);
  const auto parse = [&](std::size_t n) {
    return parse_cifar(std::as_bytes(std::span(bytes).first(n)), {}, pixels.data(), labels.data());
  };
  CHECK(parse(2 * 3073) == 2);
  CHECK(parse(0) == 0);
  CHECK_THROWS_AS(parse(3072), IoError);
  CHECK_THROWS_AS(parse(3074), IoError);
}

TEST_CASE("The real CIFAR-10, where this machine has it") {
  const char* home = std::getenv("HOME");
  const fs::path folder = fs::path(home ? home : "/") / ".cache" / "cifar10";
  if (!fs::exists(folder / "cifar-10-batches-bin" / "test_batch.bin")) {
    WARN("not at hand; the tests with written files stand for it");
    return;
  }
  const Cifar10 train(folder), test(folder, {.train = false});
  CHECK(train.size() == 50000);
  std::vector<int> count(10);
  const std::vector<int> labels = test.labels().to_vector<int>();
  for (const int label : labels) ++count[static_cast<std::size_t>(label)];
  CHECK(count == std::vector<int>(10, 1000));
  double sum = 0;
  for (std::int64_t i = 0; i < 1000; ++i) sum += train.images().data<std::uint8_t>()[i * 3072];
  CHECK(sum / 1000 > 80);  // of 255, the corner of real pictures is neither black nor white
  CHECK(sum / 1000 < 180);
}
