#include <csignal>

#include "programs/spawn.h"
#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

TrainerOptions options_of(SmallRun& run, const std::string& checkpoint) {
  return {.epochs = 3, .accumulate = 2, .schedule = run.cosine.get(), .checkpoint = checkpoint, .verbose = false};
}

// Ends the run after a step, by a signal or by stop().
struct EndAfter : Callback {
  std::int64_t step;
  int signal;
  EndAfter(std::int64_t after, int number) : step(after), signal(number) {}
  void on_step_end(Trainer& t, const StepRecord& s) override {
    if (s.step != step) return;
    if (signal)
      ::raise(signal);
    else
      t.stop("here");
  }
};

std::string epochs_of(TrainReport report) {
  for (EpochRecord& e : report.epochs) e.seconds = 0;
  return to_json(report.epochs);
}

// How `train_child ARGUMENTS` ends; it is killed after so many microseconds, if any.
int run_child(const std::vector<std::string>& arguments, unsigned kill_after = 0) {
  const pid_t child = start(SPOOL_TRAIN_CHILD, arguments);
  if (kill_after) {
    ::usleep(kill_after);
    ::kill(child, SIGKILL);
  }
  return status_of(child);
}

}  // namespace

TEST_CASE("A run that was stopped anywhere and resumed ends with the bits of one that never stopped") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  // 90 pictures in batches of 16 are 6 batches, 3 steps of two; 3 epochs are 9 steps.
  SmallRun whole;
  const TrainReport uninterrupted =
      Trainer(*whole.model, *whole.adam, options_of(whole, "")).fit(*whole.training, *whole.validation);
  REQUIRE(uninterrupted.steps == 9);
  const std::uint64_t position = default_generator().position();
  for (const auto& [step, number] : {std::pair(1, SIGINT), std::pair(2, SIGTERM), std::pair(3, SIGINT), std::pair(3, 0),
                                     std::pair(5, 0), std::pair(8, SIGINT)}) {
    INFO("stopped after step " << step << " by signal " << number);
    {
      SmallRun first;
      EndAfter end(step, number);
      TrainerOptions options = options_of(first, path);
      options.callbacks = {&end};
      const TrainReport report = Trainer(*first.model, *first.adam, options).fit(*first.training, *first.validation);
      CHECK(report.steps == step);
      CHECK(report.signal == number);
      CHECK(report.stopped == (number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "here"));
    }
    SmallRun second(1);
    manual_seed(99);  // the checkpoint brings the generator
    TrainerOptions options = options_of(second, path);
    options.resume = path;
    const TrainReport report = Trainer(*second.model, *second.adam, options).fit(*second.training, *second.validation);
    CHECK(same_bits(second.state(), whole.state()));
    CHECK(default_generator().position() == position);
    CHECK(report.steps == 9);
    CHECK(epochs_of(report) == epochs_of(uninterrupted));
    CHECK(report.best_epoch == uninterrupted.best_epoch);
    CHECK(report.stopped.empty());
  }
}

TEST_CASE("A signal ends the run with a line that says how to go on") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  SmallRun run;
  EndAfter end(2, SIGINT);
  CapturedOutput out;
  TrainerOptions options = options_of(run, path);
  options.callbacks = {&end};
  options.verbose = true;
  options.out = out.file();
  Trainer(*run.model, *run.adam, options).fit(*run.training);
  SmallRun again;
  options.callbacks = {};
  options.resume = path;
  options.schedule = again.cosine.get();
  Trainer(*again.model, *again.adam, options).fit(*again.training);
  CHECK(mentions(out.text(), {"interrupted by SIGINT after step 2; to go on, resume from " + path,
                              "resuming " + path + " in epoch 1, after 4 of 6 batches", "epoch 3/3"}));
}

TEST_CASE("A finished run has nothing left to do") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  SmallRun run;
  TrainerOptions options = options_of(run, path);
  options.epochs = 2;
  const TrainReport first = Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  SmallRun again;
  options.resume = path;
  options.schedule = again.cosine.get();
  const TrainReport second = Trainer(*again.model, *again.adam, options).fit(*again.training, *again.validation);
  CHECK(second.steps == 6);
  CHECK(same_bits(again.state(), run.state()));
  CHECK(epochs_of(second) == epochs_of(first));
  CHECK(second.best == first.best);
}

TEST_CASE("Early stopping counts the epochs before a resume") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  const auto fit = [&](std::int64_t epochs, const std::string& resume) {
    SmallRun run;
    TrainerOptions options = options_of(run, path);
    options.epochs = epochs;
    options.early_stopping = EarlyStopping{.patience = 3, .min_delta = 1e9};  // only the first epoch counts as better
    options.resume = resume;
    return Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  };
  const TrainReport whole = fit(9, "");
  CHECK(whole.epochs.size() == 4);
  CHECK(whole.stopped.starts_with("early stopping: val_loss was best, "));
  fit(3, "");
  const TrainReport resumed = fit(9, path);
  CHECK(epochs_of(resumed) == epochs_of(whole));
  CHECK(resumed.stopped == whole.stopped);
  // A run that had stopped early stays so.
  const TrainReport again = fit(9, path);
  CHECK(again.epochs.size() == 4);
  CHECK(again.stopped == whole.stopped);
}

TEST_CASE("A schedule stepped with every step shows the same rates when the last step of an epoch was before a resume") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  const auto fit = [&](const std::string& resume, std::int64_t end_after) {
    SmallRun run;
    EndAfter end(end_after, 0);
    TrainerOptions options = options_of(run, path);
    options.schedule_per = Per::step;
    options.resume = resume;
    if (end_after > 0) options.callbacks = {&end};
    return Trainer(*run.model, *run.adam, options).fit(*run.training, *run.validation);
  };
  const TrainReport whole = fit("", 0);
  fit("", 3);
  CHECK(epochs_of(fit(path, 0)) == epochs_of(whole));
}

TEST_CASE("In the middle of an epoch a run goes on only with the same batches and metrics") {
  const TempFolder folder;
  const std::string path = (folder / "run.safetensors").string();
  SmallRun run;
  EndAfter end(2, 0);
  TrainerOptions options = options_of(run, path);
  options.callbacks = {&end};
  Trainer(*run.model, *run.adam, options).fit(*run.training);
  SmallRun again;
  const StateDict before = again.state();
  options.callbacks = {};
  options.resume = path;
  options.schedule = again.cosine.get();
  DataLoader other(Synthetic({.size = 90}), {.batch_size = 15, .shuffle = true, .seed = 4});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(*again.model, *again.adam, options).fit(other); }),
                 {"middle of an epoch", "batch_size was 16, is 15", "seed was 3, is 4", "run.safetensors"}));
  options.metrics = {{TopK(2)}};
  CHECK(mentions(message_of<ValueError>([&] { Trainer(*again.model, *again.adam, options).fit(*again.training); }),
                 {"no metric 'top2'"}));
  CHECK(same_bits(again.state(), before));
  save_checkpoint(path, {.model = run.model.get()});
  CHECK(mentions(message_of<ValueError>([&] { Trainer(*again.model, *again.adam, options).fit(*again.training); }),
                 {"not saved by a Trainer", "load_checkpoint()"}));
  options.resume = path + ".none";
  CHECK(mentions(message_of<IoError>([&] { Trainer(*again.model, *again.adam, options).fit(*again.training); }),
                 {"run.safetensors.none"}));
}

TEST_CASE("Killed again and again at any moment, a run that resumes ends with the bits of one that was left alone") {
  const TempFolder folder;
  const std::string checkpoint = (folder / "run.safetensors").string(), end = (folder / "end.safetensors").string(),
                    alone = (folder / "alone.safetensors").string();
  REQUIRE(run_child({(folder / "other.safetensors").string(), alone}) == 0);
  int kills = 0;
  for (unsigned wait = 25'000; kills < 65; wait += wait / 9) {  // up to 20 s, on a machine that is slow or busy
    const int status = run_child({checkpoint, end, "--resume"}, wait);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);
      break;
    }
    ++kills;
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(folder.path())) ++files;
    CHECK(files <= 4);  // two of the run left alone, the checkpoint, and one that was being written
  }
  CHECK(kills >= 2);
  CHECK(read_file(end) == read_file(alone));
}
