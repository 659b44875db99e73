// A folder of pictures, one subfolder per class: root/cat/1.jpg, root/dog/summer/7.png ...
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spool/core/size2.h"
#include "spool/data/dataset.h"

namespace spool {

// What to do about a picture that cannot be decoded.
enum class BadPicture {
  fail,  // reading it throws IoError
  skip,  // every picture is decoded once when the folder is opened; bad ones are left out, and listed in skipped()
};

struct ImageFolderOptions {
  // Every picture is resized to this height and width; without it, all must have the size of the first one.
  OptionalSize2 image_size = {};
  BadPicture on_bad_picture = BadPicture::fail;
};

// RGB pictures with labels. Classes are the subfolders sorted by name (bytes), hidden ones left out, and a class holds the pictures in its folder
// and those below, sorted by path. Files that do not end in .jpg, .jpeg, .png or .bmp are left out and listed in ignored().
// Pictures are decoded when they are read: load_images(folder) does that once for all.
// Throws IoError where the folder does not exist, has no subfolders, or a class has no pictures; and, when reading, for a picture that cannot be
// decoded or has another size and no image_size is set.
class ImageFolder final : public Dataset {
 public:
  struct Item {
    std::filesystem::path path;
    std::int64_t label;
  };
  struct Skipped {
    std::filesystem::path path;
    std::string reason;
  };

  explicit ImageFolder(const std::filesystem::path& root, ImageFolderOptions options = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(files_->items.size()); }
  ExampleSpec spec() const override { return ExampleSpec::picture(3, size_.h, size_.w); }
  void read(std::int64_t index, Example& example) const override;
  const std::vector<std::string>& class_names() const override { return files_->classes; }

  const std::vector<Item>& items() const { return files_->items; }
  const std::vector<std::filesystem::path>& ignored() const { return files_->ignored; }
  const std::vector<Skipped>& skipped() const { return files_->skipped; }
  // One line: "60000 pictures in 10 classes under DIR; 2 files ignored that are no pictures (DIR/cat/notes.txt, ...)".
  std::string summary() const;

 private:
  struct Files {
    std::filesystem::path root;
    std::vector<std::string> classes;
    std::vector<Item> items;
    std::vector<std::filesystem::path> ignored;
    std::vector<Skipped> skipped;
  };
  static void add_class(Files& files, const std::filesystem::path& folder, std::int64_t label);
  static void drop_bad_pictures(Files& files);
  static void check_not_empty(const Files& files);

  std::shared_ptr<const Files> files_;
  Size2 size_ = 0;
  bool resize_;
};

}  // namespace spool
