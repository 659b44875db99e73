#include <cmath>
#include <filesystem>

#include "train_support.h"

using namespace spool;
using namespace spool::test;

namespace {

RunParts parts_of(SmallRun& run) { return {.model = run.model.get(), .optimizer = run.adam.get(), .schedule = run.cosine.get()}; }

void train_some(SmallRun& run, int steps) {
  for (auto [images, labels] : *run.training) {
    if (steps-- == 0) return;
    run.adam->zero_grad();
    cross_entropy((*run.model)(images), labels).backward();
    run.adam->step();
  }
}

}  // namespace

TEST_CASE("A checkpoint brings back weights, buffers, optimizer, schedule, generator, position and what else was given") {
  const TempFolder folder;
  const std::string path = (folder / "élèves 图像" / "my run.safetensors").string();
  std::filesystem::create_directories(folder / "élèves 图像");
  SmallRun run;
  train_some(run, 3);
  run.cosine->step();
  const std::uint64_t position = default_generator().position();
  save_checkpoint(path, parts_of(run),
                  {.epoch = 7, .batch = 3, .extra = {{"scores", tensor({1, 2, 3})}}, .notes = {{"by", "é 图"}}});

  SmallRun other;
  other.cosine->step();
  const LoadedCheckpoint at = load_checkpoint(path, parts_of(other));
  CHECK(same_bits(other.state(), run.state()));
  CHECK(default_generator().position() == position);
  CHECK(default_generator().seed() == 5);
  CHECK(at.epoch == 7);
  CHECK(at.batch == 3);
  CHECK(at.spool_version == version());
  CHECK(at.notes == Metadata{{"by", "é 图"}});
  REQUIRE(at.extra.size() == 1);
  CHECK(at.extra[0].name == "scores");
  CHECK(at.skipped.empty());
  CHECK(other.adam->lr() == run.adam->lr());
  // The file is an ordinary safetensors file, and load_weights takes the weights out of it.
  SmallNet weights;
  load_weights(weights, path);
  CHECK(same_bits(weights.state_dict(), run.model->state_dict()));
}

TEST_CASE("Batch-norm statistics come back with the weights, and again after a second save") {
  const TempFolder folder;
  BatchNorm1d bn({.num_features = 1}), loaded({.num_features = 1});
  const Tensor x = tensor({{2}, {4}, {6}, {8}});
  bn(x);
  for (int round = 0; round < 2; ++round) {
    const std::string path = (folder / ("bn" + std::to_string(round))).string();
    save_checkpoint(path, {.model = &bn});
    load_checkpoint(path, {.model = &loaded});
    CHECK(same_bits(bn.state_dict(), loaded.state_dict()));
    bn.load_state_dict(loaded.state_dict());
  }
  CHECK(loaded.running_mean.item() == Approx(0.5));
  CHECK(loaded.running_var.item() == Approx(1.5666667));
  CHECK(loaded.num_batches_tracked.item<std::int64_t>() == 1);
  loaded.eval();
  check_close(loaded(x), {1.1983993, 2.7962651, 4.3941312, 5.9919968}, 1e-6);
}

TEST_CASE("Adam goes on after a checkpoint with the moments and step count it had") {
  const TempFolder folder;
  const std::string path = (folder / "adam").string();
  struct One : Module {
    Tensor& w = add_parameter("w", ones({1}));
  } a, b;
  Adam first(a.parameters(), {.lr = 0.1}), second(b.parameters(), {.lr = 0.3});
  const auto step = [](One& m, Adam& adam, double gradient) {
    adam.zero_grad();
    m.w.set_grad(full({1}, gradient));
    adam.step();
  };
  for (const double g : {0.5, -0.25, 0.125, 0.3}) step(a, first, g);
  save_checkpoint(path, {.model = &a, .optimizer = &first});
  load_checkpoint(path, {.model = &b, .optimizer = &second});
  const double expected[] = {0.7620492, 0.7325875};
  for (int i = 0; i < 2; ++i) {
    step(a, first, i ? 0.1 : -0.2);
    step(b, second, i ? 0.1 : -0.2);
    CHECK(b.w.item<double>() == Approx(expected[i]).epsilon(1e-6));
    CHECK(bytes_of(a.w) == bytes_of(b.w));
  }
}

TEST_CASE("A cosine schedule that was stopped after epoch 3 goes on with the rates of one that was not") {
  const TempFolder folder;
  const std::string path = (folder / "cosine").string();
  Linear layer({.in_features = 1, .out_features = 1});
  SGD before(layer.parameters(), {.lr = 0.1}), after(layer.parameters(), {.lr = 0.1});
  CosineAnnealingLR saved(before, {.T_max = 10}), resumed(after, {.T_max = 10});
  std::vector<double> rates;
  for (int epoch = 0; epoch < 4; ++epoch, saved.step()) rates.push_back(before.lr());
  save_checkpoint(path, {.optimizer = &before, .schedule = &saved});
  load_checkpoint(path, {.optimizer = &after, .schedule = &resumed});
  for (int epoch = 4; epoch <= 10; ++epoch, resumed.step()) rates.push_back(after.lr());
  const double expected[] = {0.1,       0.0975528, 0.0904508, 0.0793893, 0.0654508, 0.05,
                             0.0345492, 0.0206107, 0.0095492, 0.0024472, 0};
  REQUIRE(rates.size() == 11);
  for (std::size_t i = 0; i < 11; ++i) CHECK(rates[i] == Approx(expected[i]).margin(1e-7));
}

TEST_CASE("What does not fit is listed all at once, of every part, and nothing is changed") {
  const TempFolder folder;
  const std::string path = (folder / "run").string();
  SmallRun run;
  train_some(run, 2);
  save_checkpoint(path, parts_of(run));
  const std::uint64_t position = default_generator().position();

  struct Other : Module {
    Conv2d& conv = add<Conv2d>("conv", {.in_channels = 3, .out_channels = 5, .kernel_size = 3});
    Linear& head = add<Linear>("head", {.in_features = 2, .out_features = 2});
  } other;
  SGD sgd(other.parameters(), {.lr = 0.5, .momentum = 0.9});
  StepLR schedule(sgd, {.step_size = 3});
  const StateDict before = copy_of(other.state_dict());
  const RunParts parts{.model = &other, .optimizer = &sgd, .schedule = &schedule};
  CHECK(mentions(message_of<ValueError>([&] { load_checkpoint(path, parts); }),
                 {"does not fit this run", "nothing was loaded", "missing: head.weight, head.bias", "unexpected: bn.bias",
                  "conv.weight is [5, 3, 3, 3] in the module and [4, 3, 3, 3]", "optimizer: ", "head.weight.step",
                  "CosineAnnealingLR, this run has a StepLR", "strict = false"}));
  CHECK(same_bits(copy_of(other.state_dict()), before));
  CHECK(sgd.lr() == 0.5);

  default_generator().set_position(position + 5);
  const LoadedCheckpoint loaded = load_checkpoint(path, parts, {.strict = false});
  std::string skipped;
  for (const std::string& s : loaded.skipped) skipped += s + '\n';
  CHECK(mentions(skipped,
                 {"model.conv.weight: [5, 3, 3, 3] f32 cpu in the model, [4, 3, 3, 3] f32 cpu in the file",
                  "model.head.weight: not in the file", "model.bn.weight: not in the model", "optimizer: ", "schedule: "}));
  CHECK(same_bits(copy_of(other.state_dict()), before));  // of this model nothing fits
  CHECK(default_generator().position() == position);      // but the generator does
}

TEST_CASE("A later part that does not fit takes back the earlier ones") {
  const TempFolder folder;
  const std::string path = (folder / "run").string();
  SmallRun run, other;
  train_some(run, 2);
  save_checkpoint(path, {.model = run.model.get(), .optimizer = run.adam.get()});
  SGD sgd(other.model->parameters(), {.lr = 0.5});
  const StateDict before = copy_of(other.model->state_dict());
  const std::string text =
      message_of<ValueError>([&] { load_checkpoint(path, {.model = other.model.get(), .optimizer = &sgd}); });
  CHECK(mentions(text, {"optimizer: the state does not fit this SGD", "exp_avg"}));
  CHECK(same_bits(copy_of(other.model->state_dict()), before));
  // And a schedule in the run that the file has none of, or the other way round, is not passed over in silence.
  CHECK(mentions(message_of<ValueError>([&] { load_checkpoint(path, parts_of(other)); }), {"schedule: the file has none of it"}));
  save_checkpoint(path, parts_of(run));
  CHECK(mentions(
      message_of<ValueError>([&] { load_checkpoint(path, {.model = other.model.get(), .optimizer = other.adam.get()}); }),
      {"schedule: the file holds the state of one, this run has none"}));
}

TEST_CASE("Any flipped bit, missing byte or file of another kind is refused, and changes nothing") {
  const TempFolder folder;
  const auto path = folder / "run";
  SmallRun run;
  train_some(run, 1);
  save_checkpoint(path.string(), parts_of(run), {.notes = {{"note", "text"}}});
  const std::string good = read_file(path);
  SmallRun other;
  const StateDict before = other.state();
  int refused = 0, tried = 0;
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 150) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    write_file(path, bad);
    ++tried;
    try {
      load_checkpoint(path.string(), parts_of(other));
      UNSCOPED_INFO("byte " << at << " of " << good.size());
    } catch (const IoError&) {
      ++refused;
    } catch (const ValueError&) {
      ++refused;  // the name of a tensor or note
    }
  }
  CHECK(refused == tried);
  CHECK(tried > 100);
  write_file(path, good.substr(0, good.size() - 100));
  CHECK(mentions(message_of<IoError>([&] { load_checkpoint(path.string(), parts_of(other)); }), {"run", "damaged"}));
  std::string flipped = good;
  flipped[good.size() - 10] = static_cast<char>(flipped[good.size() - 10] ^ 4);
  write_file(path, flipped);
  CHECK(mentions(message_of<IoError>([&] { load_checkpoint(path.string(), parts_of(other)); }), {"damaged", "checksum"}));
  CHECK(mentions(message_of<IoError>([&] { load_weights(*other.model, path.string()); }), {"damaged", "checksum"}));
  save_weights(*run.model, path.string());
  CHECK(mentions(message_of<IoError>([&] { load_checkpoint(path.string(), parts_of(other)); }),
                 {"no checkpoint", "load_weights()"}));
  CHECK(same_bits(other.state(), before));
  write_file(path, good);
  load_checkpoint(path.string(), parts_of(other));
  CHECK(same_bits(other.state(), run.state()));
}

TEST_CASE("A checkpoint of a newer format is refused with the version that wrote it") {
  const TempFolder folder;
  const std::string path = (folder / "run").string();
  save_safetensors(path, {{"a", ones({1})}}, {{"format", "spool-checkpoint-2"}, {"spool_version", "9.1.0"}});
  SmallRun run;
  CHECK(mentions(message_of<IoError>([&] { load_checkpoint(path, parts_of(run)); }), {"9.1.0", "newer", version()}));
  CHECK(mentions(message_of<ValueError>([&] { save_checkpoint(path, {}, {.notes = {{"crc32c", "x"}}}); }), {"'crc32c'"}));
}
