// starter PICTURES [EPOCHS]: trains a small network on a folder with one subfolder of pictures for each class.
// Writes run.safetensors (goes on from it where it exists), weights.safetensors and report.html to the current folder.
#include <spool/spool.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

using namespace spool;

struct Net : Module {
  Conv2d& conv1 = add<Conv2d>("conv1", {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn1 = add<BatchNorm2d>("bn1", {.num_features = 16});
  Conv2d& conv2 = add<Conv2d>("conv2", {.in_channels = 16, .out_channels = 32, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn2 = add<BatchNorm2d>("bn2", {.num_features = 32});
  AdaptiveAvgPool2d& pool = add<AdaptiveAvgPool2d>("pool", {.output_size = 4});
  Linear& fc;

  explicit Net(std::int64_t classes) : fc(add<Linear>("fc", {.in_features = 32 * 4 * 4, .out_features = classes})) {}

  Tensor forward(const Tensor& x) override {
    Tensor h = bn1.relu_max_pool2d(conv1(x), {.kernel_size = 2});
    h = bn2.relu_max_pool2d(conv2(h), {.kernel_size = 2});
    return fc(flatten(pool(h), 1));
  }
};

int main(int argc, char** argv) {
  const std::int64_t epochs = argc > 2 ? std::atoll(argv[2]) : 10;
  if (argc < 2 || argc > 3 || epochs < 1) {
    std::cerr << "usage: starter PICTURES [EPOCHS]\n";
    return 2;
  }
  try {
    manual_seed(0);
    const ImageFolder pictures(argv[1], {.image_size = 32});
    std::cout << pictures.summary() << "\n";
    const auto parts = random_split(load_images(pictures), {0.8, 0.2});
    const Device device = default_device();
    DataLoader train(parts[0], {.batch_size = 32, .shuffle = true, .transform = RandomHorizontalFlip(), .device = device});
    DataLoader test(parts[1], {.batch_size = 32, .device = device});

    Net model(static_cast<std::int64_t>(pictures.class_names().size()));
    model.to(device);
    Adam adam(model.parameters(), {.lr = 1e-3, .clip_norm = 1.0});
    HtmlReport page("report.html");
    const std::string run = "run.safetensors";
    Trainer trainer(model, adam,
                    {.epochs = epochs, .checkpoint = run, .resume = std::filesystem::exists(run) ? run : "", .callbacks = {&page}});
    const TrainReport report = trainer.fit(train, test);
    save_weights(model, "weights.safetensors");
    return report.signal ? 128 + report.signal : 0;
  } catch (const std::exception& e) {
    std::cerr << "starter: " << e.what() << "\n";
    return 1;
  }
}
