// Spool's half of tests/peers/event_files.py: events_peer FOLDER writes FOLDER/train and FOLDER/validation, of a run that was stopped and resumed, and FOLDER/odd.
#include <spool/spool.h>
#include <spool/train/event_file.h>
#include <spool/train/png.h>

#include <cstdio>

using namespace spool;

struct SmallNet : Module {
  Linear& fc = add<Linear>("fc", {.in_features = 3 * 32 * 32, .out_features = 10});
  Tensor forward(const Tensor& x) override { return fc(flatten(x, 1)); }
};

struct StopAfter : Callback {
  void on_step_end(Trainer& t, const StepRecord& s) override {
    if (s.step == 8 && t.options().resume.empty()) t.stop("to be resumed");
  }
};

void run(const std::string& folder, const std::string& resume) {
  manual_seed(1);
  SmallNet model;
  SGD sgd(model.parameters(), {.lr = 0.01});
  DataLoader training(Synthetic({.size = 96}), {.batch_size = 16}),
      validation(Synthetic({.train = false, .size = 32}), {.batch_size = 16});
  TensorBoardLog board(folder, {.every_steps = 1});
  StopAfter stop;
  Trainer(
      model, sgd,
      {.epochs = 2, .checkpoint = folder + "/run.safetensors", .resume = resume, .callbacks = {&board, &stop}, .verbose = false})
      .fit(training, validation);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const std::string folder = argv[1];
    run(folder, "");
    run(folder, folder + "/run.safetensors");
    EventFile odd(folder + "/odd");
    odd.add_scalar("a/b é", 1.5, 0);
    odd.add_scalar("a/b é", -2, 7);
    const std::uint8_t pixels[] = {255, 0, 0, 0, 0, 255};
    odd.add_image("picture", detail::encode_png(pixels, 2, 1, 3), 2, 1, 7);
    odd.add_scalar("a/b é", 0.25, std::int64_t{1} << 40);
    odd.add_text("note", "the last record, which is cut", 1);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "events_peer: %s\n", e.what());
    return 1;
  }
}
