// What the tests of training share: a small network with everything that a resume has to bring back, small data, comparisons to the bit.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "data_support.h"
#include "support.h"

namespace spool::test {

struct SmallNet : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 4, .kernel_size = 3, .stride = 4});
  BatchNorm2d& bn = add<BatchNorm2d>("bn", {.num_features = 4});
  Dropout& drop = add<Dropout>("drop", {.p = 0.3});
  Linear& fc = add<Linear>("fc", {.in_features = 4 * 8 * 8, .out_features = 10});
  Tensor forward(const Tensor& x) override { return fc(drop(flatten(relu(bn(conv(x))), 1))); }
};

inline std::string bytes_of(const Tensor& t) {
  const Tensor rows = t.detach().contiguous();
  return {static_cast<const char*>(rows.raw_data()), static_cast<std::size_t>(rows.numel()) * size_of(rows.dtype())};
}

// Whether two states have the same names, types, shapes and bits.
inline bool same_bits(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || describe(a[i].tensor) != describe(b[i].tensor) ||
        bytes_of(a[i].tensor) != bytes_of(b[i].tensor)) {
      UNSCOPED_INFO(a[i].name << " and " << b[i].name << " differ");
      return false;
    }
  return true;
}

inline StateDict copy_of(const StateDict& state) {
  NoGrad guard;
  StateDict copy;
  for (const NamedTensor& t : state) copy.push_back({t.name, t.tensor.clone()});
  return copy;
}

// A model, an optimizer, a schedule and data, all from one seed: two of these are equal.
struct SmallRun {
  explicit SmallRun(int workers = 0) {
    manual_seed(5);
    model = std::make_unique<SmallNet>();
    adam = std::make_unique<Adam>(model->parameters(), Adam::Options{.lr = 1e-2, .clip_norm = 1.0});
    cosine = std::make_unique<CosineAnnealingLR>(*adam, CosineAnnealingLR::Options{.T_max = 10});
    training = std::make_unique<DataLoader>(
        Synthetic({.size = 90}), DataLoaderOptions{.batch_size = 16,
                                                   .shuffle = true,
                                                   .seed = 3,
                                                   .num_workers = workers,
                                                   .transform = Compose({RandomHorizontalFlip(), Normalize({0.5}, {0.5})})});
    validation = std::make_unique<DataLoader>(Synthetic({.train = false, .size = 50}),
                                              DataLoaderOptions{.batch_size = 16, .transform = Normalize({0.5}, {0.5})});
  }
  StateDict state() const {
    StateDict all = copy_of(model->state_dict());
    for (const auto& part : {adam->state_dict(), cosine->state_dict()})
      for (const NamedTensor& t : copy_of(part)) all.push_back(t);
    return all;
  }
  std::unique_ptr<SmallNet> model;
  std::unique_ptr<Adam> adam;
  std::unique_ptr<CosineAnnealingLR> cosine;
  std::unique_ptr<DataLoader> training, validation;
};

// A file that is read back as text.
class CapturedOutput {
 public:
  CapturedOutput() : file_(std::tmpfile()) {}
  ~CapturedOutput() { std::fclose(file_); }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::rewind(file_);
    std::string all;
    char part[4096];
    for (std::size_t n; (n = std::fread(part, 1, sizeof part, file_)) > 0;) all.append(part, n);
    return all;
  }

 private:
  std::FILE* file_;
};

}  // namespace spool::test
