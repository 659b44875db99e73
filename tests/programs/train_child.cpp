// A training run to be killed: train_child CHECKPOINT WEIGHTS [--resume]. It saves after every step, and its weights when it is done.
#include <spool/spool.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace spool;

struct Net : Module {
  Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 8, .kernel_size = 3, .stride = 2});
  BatchNorm2d& bn = add<BatchNorm2d>("bn", {.num_features = 8});
  Dropout& drop = add<Dropout>("drop", {.p = 0.3});
  Linear& fc = add<Linear>("fc", {.in_features = 8 * 15 * 15, .out_features = 10});
  Tensor forward(const Tensor& x) override { return fc(drop(flatten(relu(bn(conv(x))), 1))); }
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    set_num_threads(1);
    manual_seed(11);
    Net model;
    Adam adam(model.parameters(), {.lr = 1e-2});
    StepLR schedule(adam, {.step_size = 7, .gamma = 0.9});
    DataLoader training(Synthetic({.size = 240}),
                        {.batch_size = 16, .shuffle = true, .seed = 2, .num_workers = 1, .transform = RandomHorizontalFlip()});
    DataLoader validation(Synthetic({.train = false, .size = 64}), {.batch_size = 32});
    const std::string checkpoint = argv[1];
    const bool resume = argc > 3 && !std::strcmp(argv[3], "--resume") && std::filesystem::exists(checkpoint);
    Trainer trainer(model, adam,
                    {.epochs = 4,
                     .accumulate = 2,
                     .schedule = &schedule,
                     .schedule_per = Per::step,
                     .checkpoint = checkpoint,
                     .checkpoint_steps = 1,
                     .resume = resume ? checkpoint : ""});
    const TrainReport report = trainer.fit(training, validation);
    if (report.signal) return 128 + report.signal;
    save_weights(model, argv[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train_child: %s\n", e.what());
    return 1;
  }
}
