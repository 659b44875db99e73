#include "predict.h"

#include <fmt/format.h>
#include <spool/data/cifar_names.h>
#include <spool/data/image.h>
#include <spool/spool.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "convnet.h"
#include "data.h"

using namespace spool;

namespace {

// The largest square in the middle of a picture.
Picture middle(const Picture& picture) {
  const std::int64_t side = std::min(picture.height(), picture.width()), channels = picture.channels();
  Picture square;
  square.resize({side, side, channels});
  const std::int64_t top = (picture.height() - side) / 2, left = (picture.width() - side) / 2;
  for (std::int64_t y = 0; y < side; ++y)
    std::memcpy(square.row(y), picture.row(top + y) + left * channels, static_cast<std::size_t>(side * channels));
  return square;
}

// [1, 3, 32, 32], scaled as the training pictures were: by the same loader.
Tensor input_of(const Picture& picture) {
  const Picture small = resize(middle(picture), 32);
  Tensor pixels = empty({1, 3, 32, 32}, {.dtype = u8}, MemoryFormat::channels_last);
  std::memcpy(pixels.raw_data(), small.data(), small.shape().bytes());
  DataLoader loader(ImageDataset(pixels, zeros({1}, {.dtype = i64})), {.transform = transform(false)});
  return loader.begin()->inputs;
}

// A line a class, the likeliest first: name, probability, bar.
std::string bars(const Tensor& probabilities, const std::vector<std::string>& names) {
  const std::vector<float> p = probabilities.to_vector<float>();
  const Sorted order = sort(probabilities, 0, true);
  std::string text;
  for (const std::int64_t c : order.indices.to_vector<std::int64_t>()) {
    const double part = static_cast<double>(p[static_cast<std::size_t>(c)]);
    text += fmt::format("  {:<10}  {:6.4f}  {}", names[static_cast<std::size_t>(c)], part,
                        std::string(static_cast<std::size_t>(part * 50 + 0.5), '='));
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

// Those that the network was trained on, which are kept beside its weights; CIFAR-10's where they are not.
std::vector<std::string> class_names(const std::string& weights) {
  const Metadata notes = load_safetensors(weights).metadata;
  std::vector<std::string> names;
  if (const auto kept = notes.find("classes"); kept != notes.end()) {
    std::istringstream words(kept->second);
    for (std::string name; words >> name;) names.push_back(name);
  }
  return names.size() == kCifar10Names.size() ? names : std::vector<std::string>(kCifar10Names.begin(), kCifar10Names.end());
}

}  // namespace

bool predict(const Options& options) {
  ConvNet model;
  load_weights(model, options.load);
  const std::vector<std::string> names = class_names(options.load);
  model.eval();
  const NoGrad no_grad;
  bool all_read = true;
  for (const std::string& path : options.pictures) try {
      const Picture picture = read_image(path);
      fmt::print("{}  {} x {}\n{}", path, picture.width(), picture.height(),
                 bars(softmax(model(input_of(picture)), 1)[0], names));
    } catch (const IoError& e) {
      fmt::print(stderr, "cifar10: {}\n", e.what());
      all_read = false;
    }
  return all_read;
}
