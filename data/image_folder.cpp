#include "spool/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <system_error>

#include "spool/core/errors.h"
#include "spool/core/parallel.h"
#include "spool/data/image.h"

namespace spool {
namespace fs = std::filesystem;
namespace {

bool is_picture(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp";
}

std::vector<fs::path> subfolders(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(root))
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.')) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return folders;
}

}  // namespace

ImageFolder::ImageFolder(const fs::path& root, ImageFolderOptions options) : resize_(options.image_size.has_value()) {
  constexpr std::int64_t kLargest = 16384;
  if (resize_) size_ = *options.image_size;
  if (resize_ && (size_.h < 1 || size_.w < 1 || size_.h > kLargest || size_.w > kLargest))
    throw ValueError("ImageFolder", fmt::format("image_size {} x {} is out of range, 1 to {}", size_.h, size_.w, kLargest));
  auto files = std::make_shared<Files>();
  files->root = root;
  try {
    if (!fs::is_directory(root))
      throw IoError("ImageFolder", fmt::format("{} is not a folder, or does not exist", root.string()));
    for (const fs::path& folder : subfolders(root)) {
      add_class(*files, folder, static_cast<std::int64_t>(files->classes.size()));
      files->classes.push_back(folder.filename().string());
    }
  } catch (const fs::filesystem_error& e) {
    throw IoError("ImageFolder", fmt::format("{} cannot be read: {}", e.path1().string(), e.code().message()));
  }
  if (files->classes.empty())
    throw IoError("ImageFolder", fmt::format("{} has no subfolders: expected one per class, such as {}", root.string(),
                                             (root / "cat" / "1.jpg").string()));
  check_not_empty(*files);
  if (options.on_bad_picture == BadPicture::skip) {
    drop_bad_pictures(*files);
    check_not_empty(*files);
  }
  if (!resize_) {
    const PictureShape first = image_shape(files->items.front().path);
    size_ = {first.height, first.width};
  }
  files_ = std::move(files);
}

void ImageFolder::add_class(Files& files, const fs::path& folder, std::int64_t label) {
  const auto begin = static_cast<std::ptrdiff_t>(files.items.size());
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    if (is_picture(entry.path()))
      files.items.push_back({entry.path(), label});
    else
      files.ignored.push_back(entry.path());
  }
  std::sort(files.items.begin() + begin, files.items.end(),
            [](const Item& a, const Item& b) { return a.path.native() < b.path.native(); });
}

void ImageFolder::check_not_empty(const Files& files) {
  std::vector<bool> filled(files.classes.size());
  for (const Item& item : files.items) filled[static_cast<std::size_t>(item.label)] = true;
  const auto empty = std::find(filled.begin(), filled.end(), false);
  if (empty == filled.end()) return;
  const std::string& name = files.classes[static_cast<std::size_t>(empty - filled.begin())];
  const auto lost = std::find_if(files.skipped.begin(), files.skipped.end(), [&](const Skipped& s) {
    return s.path.native().starts_with((files.root / name / "").native());
  });
  throw IoError("ImageFolder",
                fmt::format("class '{}' ({}) has no pictures{}: add some (.jpg, .jpeg, .png, .bmp) or remove the folder", name,
                            (files.root / name).string(),
                            lost == files.skipped.end() ? "" : fmt::format(" that can be decoded ({})", lost->reason)));
}

void ImageFolder::drop_bad_pictures(Files& files) {
  std::vector<std::string> reasons(files.items.size());
  parallel_for(static_cast<std::int64_t>(files.items.size()), 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      try {
        read_image(files.items[i].path);
      } catch (const IoError& e) {
        reasons[i] = e.detail();
      }
    }
  });
  std::vector<Item> good;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i].empty())
      good.push_back(std::move(files.items[i]));
    else
      files.skipped.push_back({files.items[i].path, reasons[i]});
  }
  files.items = std::move(good);
}

void ImageFolder::read(std::int64_t index, Example& example) const {
  const Item& item = files_->items[static_cast<std::size_t>(index)];
  Picture picture = read_image(item.path);
  if (resize_)
    picture = resize(picture, size_);
  else if (picture.height() != size_.h || picture.width() != size_.w)
    throw IoError("ImageFolder",
                  fmt::format("{} has {} x {} pixels, the first picture {} x {}: give an image_size to bring all to one size",
                              item.path.string(), picture.height(), picture.width(), size_.h, size_.w));
  std::memcpy(example.input_data(), picture.data(), picture.shape().bytes());
  example.target<std::int64_t>()[0] = item.label;
}

std::string ImageFolder::summary() const {
  std::string text = fmt::format("{} pictures in {} classes under {}", size(), files_->classes.size(), files_->root.string());
  if (const auto& ignored = files_->ignored; !ignored.empty())
    text += fmt::format("; {} file{} ignored that {} no picture{} ({}{})", ignored.size(), ignored.size() == 1 ? "" : "s",
                        ignored.size() == 1 ? "is" : "are", ignored.size() == 1 ? "" : "s", ignored.front().string(),
                        ignored.size() == 1 ? "" : ", ...");
  if (const auto& skipped = files_->skipped; !skipped.empty())
    text += fmt::format("; {} skipped that cannot be decoded ({}{})", skipped.size(), skipped.front().path.string(),
                        skipped.size() == 1 ? "" : ", ...");
  return text;
}

}  // namespace spool
