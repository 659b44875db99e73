// Trains a convolutional network on CIFAR-10, with the training loop written out. `cifar10 --help` lists what can be varied.
#include <fmt/format.h>
#include <spool/spool.h>

#include "convnet.h"
#include "data.h"
#include "options.h"

using namespace spool;

namespace {

// Pixels to [-1, 1]; for training, where asked for, after a random shift and mirroring.
Transform transform(bool augment) {
  const Normalize normalize({0.5}, {0.5});
  if (!augment) return normalize;
  return Compose({RandomCrop({.size = 32, .padding = 4}), RandomHorizontalFlip(), normalize});
}

// Every optimizer clips, and refuses gradients that are infinite or NaN.
std::unique_ptr<Optimizer> make_optimizer(const Options& o, const Module& model) {
  const auto clip = o.clip_norm > 0 ? std::optional(o.clip_norm) : std::nullopt;
  if (o.optimizer == "sgd")
    return std::make_unique<SGD>(model.parameters(),
                                 SGD::Options{.lr = o.lr, .momentum = 0.9, .clip_norm = clip, .error_if_nonfinite = true});
  if (o.optimizer == "adamw")
    return std::make_unique<AdamW>(model.parameters(), AdamW::Options{.lr = o.lr, .clip_norm = clip, .error_if_nonfinite = true});
  return std::make_unique<Adam>(model.parameters(), Adam::Options{.lr = o.lr, .clip_norm = clip, .error_if_nonfinite = true});
}

struct Score {
  double loss;
  ConfusionMatrix confusion;
};

// Over the test pictures, in eval mode and without a tape.
Score evaluate(ConvNet& model, DataLoader& loader, Device device) {
  const EvalMode eval(model);
  const NoGrad no_grad;
  RunningMean loss;
  ConfusionMatrix confusion(10);
  for (auto [images, labels] : loader) {
    const Tensor logits = model(images.to(device)), target = labels.to(device);
    loss.add(cross_entropy(logits, target), target.numel());
    confusion.add(logits, target);
  }
  return {loss.value(), confusion};
}

// Trains until the last epoch or a signal, and returns the score after that.
Score train(ConvNet& model, Optimizer& optimizer, DataLoader& training, DataLoader& testing, Device device, int epochs,
            const Interrupt& interrupt) {
  std::optional<Score> score;
  for (int epoch = 1; epoch <= epochs && !interrupt.requested(); ++epoch) {
    const std::string name = fmt::format("epoch {}/{}", epoch, epochs);
    ProgressBar bar(name, training.dataset().size());
    RunningMean loss;
    Accuracy accuracy;
    for (auto [images, labels] : training) {
      const Tensor target = labels.to(device);
      optimizer.zero_grad();
      const Tensor logits = model(images.to(device));
      const Tensor batch_loss = cross_entropy(logits, target);
      batch_loss.backward();
      optimizer.step();

      loss.add(batch_loss, target.numel());
      accuracy.add(logits, target);
      if (bar.due()) bar.update(loss.count(), loss.value(), accuracy.value());
      if (interrupt.requested()) break;
    }
    const double seconds = bar.seconds();
    score = evaluate(model, testing, device);
    bar.finish(
        fmt::format("{}  train loss {:.4f} accuracy {:.4f}  test loss {:.4f} accuracy {:.4f}  {:.0f} images/s, {:.2f} s/epoch",
                    name, loss.value(), accuracy.value(), score->loss, score->confusion.accuracy(),
                    static_cast<double>(loss.count()) / seconds, seconds));
  }
  return score ? *score : evaluate(model, testing, device);
}

void run(const Options& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  manual_seed(options.seed);
  const Device device = device_of(options);
  check_output(options.save);
  ConvNet model;
  model.to(device);
  if (!options.load.empty()) load_weights(model, options.load);

  const Data data = load_data(options);
  fmt::print("data   {}\n       {} training and {} test pictures\n", data.description, data.train.size(), data.test.size());
  fmt::print("model  ConvNet, {} parameters, on {} with {} threads\n", model.num_parameters(), to_string(device),
             get_num_threads());
  std::fflush(stdout);

  DataLoader training(data.train, {.batch_size = options.batch_size,
                                   .shuffle = true,
                                   .seed = options.seed,
                                   .num_workers = 1,
                                   .transform = transform(options.augment)});
  DataLoader testing(data.test, {.batch_size = options.batch_size, .num_workers = 1, .transform = transform(false)});
  const auto optimizer = make_optimizer(options, model);
  const Interrupt interrupt;  // the first Ctrl-C ends training after the current step, a second one the program
  const Score score = train(model, *optimizer, training, testing, device, options.epochs, interrupt);
  if (interrupt.requested()) fmt::print("interrupted: training ended early\n");
  fmt::print("\ntest accuracy: {:.4f}\n{}", score.confusion.accuracy(),
             per_class_table(score.confusion, data.test.class_names()));
  std::fflush(stdout);
  if (options.save.empty()) return;
  save_weights(model, options.save);
  fmt::print("weights saved to {}\n", options.save);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  try {
    run(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "cifar10: {}\n", e.what());
    return 1;
  }
}
