// Tutorial 06: training on CIFAR-10. README.md quotes this file. With a folder of CIFAR-10's .bin files as its argument it trains on those.
#include <spool/spool.h>

#include <cstdio>
#include <iostream>

using namespace spool;

// [net]
struct Net : Module {
  Conv2d& conv1 = add<Conv2d>("conv1", {.in_channels = 3, .out_channels = 16, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn1 = add<BatchNorm2d>("bn1", {.num_features = 16});
  Conv2d& conv2 = add<Conv2d>("conv2", {.in_channels = 16, .out_channels = 32, .kernel_size = 3, .padding = 1});
  BatchNorm2d& bn2 = add<BatchNorm2d>("bn2", {.num_features = 32});
  Linear& fc = add<Linear>("fc", {.in_features = 32 * 8 * 8, .out_features = 10});

  Tensor forward(const Tensor& x) override {                         // [N, 3, 32, 32]
    Tensor h = max_pool2d(relu(bn1(conv1(x))), {.kernel_size = 2});  // [N, 16, 16, 16]
    h = max_pool2d(relu(bn2(conv2(h))), {.kernel_size = 2});         // [N, 32, 8, 8]
    return fc(flatten(h, 1));                                        // [N, 10]: a score for each class
  }
};
// [/net]

struct Data {
  ImageDataset train, test;
};

// [data]
Data load(int argc, char** argv) {
  if (argc > 1) return {Cifar10(argv[1], {.train = true}), Cifar10(argv[1], {.train = false})};
  return {Synthetic({.train = true, .size = 4000}), Synthetic({.train = false, .size = 1000})};
}

DataLoader training_batches(const Data& data) {
  return DataLoader(data.train, {.batch_size = 64,
                                 .shuffle = true,
                                 .transform = Compose({RandomCrop({.size = 32, .padding = 2}), Normalize({0.5}, {0.5})})});
}
DataLoader test_batches(const Data& data) {
  return DataLoader(data.test, {.batch_size = 250, .transform = Normalize({0.5}, {0.5})});
}
// [/data]

// [measure]
double accuracy(Net& model, DataLoader& loader) {
  const EvalMode eval(model);  // batch norm uses its running statistics
  const NoGrad no_grad;        // no tape: nothing is kept for a backward that never comes
  std::int64_t right = 0, all = 0;
  for (const auto& [images, labels] : loader) {
    right += eq(argmax(model(images), 1), labels).sum().item<std::int64_t>();
    all += labels.numel();
  }
  return static_cast<double>(right) / static_cast<double>(all);
}
// [/measure]

// [same]
bool same_weights(const Module& a, const Module& b) {
  const StateDict x = a.state_dict(), y = b.state_dict();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!equal(x[i].tensor, y[i].tensor)) return false;
  return true;
}
// [/same]

// [callback]
struct Lines : Callback {
  void on_epoch_end(Trainer&, const EpochRecord& e) override {
    std::printf("epoch %d  loss %.1f, test accuracy %.1f\n", static_cast<int>(e.epoch), *e.find("loss"), *e.find("val_accuracy"));
  }
};
// [/callback]

// [interrupt]
struct StopAt : Callback {
  explicit StopAt(std::int64_t at) : step(at) {}
  void on_step_end(Trainer& trainer, const StepRecord& s) override {
    if (s.step == step) trainer.stop("as if somebody had pressed Ctrl-C");
  }
  std::int64_t step;
};
// [/interrupt]

int main(int argc, char** argv) {
  set_num_threads(1);  // so that the tests can compare what this prints; leave it out to use all cores
  const Data data = load(argc, argv);
  // [look]
  std::cout << data.train.size() << " training and " << data.test.size() << " test pictures, classes";
  for (const std::string& name : data.train.class_names()) std::cout << " " << name;
  DataLoader first = test_batches(data);
  const Batch batch = *first.begin();
  std::cout << "\na batch: " << describe(batch.inputs) << ", " << describe(batch.targets) << "\n";
  // [/look]

  // [make]
  manual_seed(1);
  Net model;
  std::cout << model << "\n";
  DataLoader test = test_batches(data);
  std::printf("before training: accuracy %.1f\n", accuracy(model, test));
  // [/make]
  // [loop]
  DataLoader train = training_batches(data);
  Adam adam(model.parameters(), {.lr = 1.5e-3, .clip_norm = 1.0});
  for (int epoch = 1; epoch <= 2; ++epoch) {
    double loss_sum = 0;
    for (const auto& [images, labels] : train) {
      adam.zero_grad();
      const Tensor loss = cross_entropy(model(images), labels);
      loss.backward();
      adam.step();
      loss_sum += loss.item() * static_cast<double>(labels.numel());
    }
    std::printf("epoch %d  loss %.1f, test accuracy %.1f\n", epoch, loss_sum / static_cast<double>(data.train.size()),
                accuracy(model, test));
  }
  // [/loop]

  // [trainer]
  manual_seed(1);
  Net again;
  DataLoader again_train = training_batches(data);
  Adam again_adam(again.parameters(), {.lr = 1.5e-3, .clip_norm = 1.0});
  Lines lines;
  Trainer trainer(again, again_adam, {.epochs = 2, .checkpoint = "run.safetensors", .callbacks = {&lines}, .verbose = false});
  const TrainReport report = trainer.fit(again_train, test);
  std::cout << report.steps << " steps, best epoch " << report.best_epoch << "; " << report.warnings.size() << " warnings\n";
  std::cout << "the same weights as the loop's, to the bit: " << std::boolalpha << same_weights(model, again) << "\n";
  // [/trainer]
  {
    // [stop]
    manual_seed(1);
    Net stopped;
    DataLoader loader = training_batches(data);
    Adam optimizer(stopped.parameters(), {.lr = 1.5e-3, .clip_norm = 1.0});
    StopAt early(80);
    Trainer first_half(stopped, optimizer,
                       {.epochs = 2, .checkpoint = "stopped.safetensors", .callbacks = {&early}, .verbose = false});
    const TrainReport half = first_half.fit(loader, test);
    std::cout << "stopped after " << half.steps << " steps: " << half.stopped << "\n";
    std::cout << "the same weights: " << same_weights(stopped, again) << "\n";
    // [/stop]
  }
  {
    // [resume]
    manual_seed(12345);  // whatever it is: the checkpoint knows better
    Net resumed;
    DataLoader loader = training_batches(data);
    Adam optimizer(resumed.parameters(), {.lr = 1.5e-3, .clip_norm = 1.0});
    Lines from_here;
    Trainer second_half(resumed, optimizer,
                        {.epochs = 2, .resume = "stopped.safetensors", .callbacks = {&from_here}, .verbose = false});
    const TrainReport rest = second_half.fit(loader, test);
    std::cout << rest.steps << " steps in all; the same weights as without the stop, to the bit: " << same_weights(resumed, again)
              << "\n";
    // [/resume]
  }
  {
    // [use]
    save_weights(again, "weights.safetensors");
    Net loaded;
    load_weights(loaded, "weights.safetensors");
    loaded.eval();
    const NoGrad no_grad;
    const Tensor p = softmax(loaded(batch.inputs.narrow(0, 0, 1)), 1);
    std::cout << "probabilities " << to_string(p.shape()) << " that sum to " << p.sum().item() << "\n";
    const Scores scores = evaluate(loaded, test, {.metrics = {{Accuracy(), TopK(3)}}});
    std::cout << "the accuracy is what it was: " << (scores["accuracy"] == (*report.validation)["accuracy"]);
    std::cout << "; among the first three: " << (scores["top3"] > scores["accuracy"]) << "\n";
    // [/use]
  }
}
