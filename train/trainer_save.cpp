// Saving a run and going on with it.
#include <fmt/format.h>

#include "spool/core/errors.h"
#include "spool/train/state.h"
#include "spool/train/trainer_run.h"

namespace spool {
namespace {

constexpr const char* kWho = "Trainer";

// What decides which examples make up a batch, and so whether a run can go on in the middle of an epoch.
std::vector<std::pair<std::string, std::int64_t>> batches_of(const DataLoader& loader, std::int64_t accumulate) {
  const DataLoaderOptions& l = loader.options();
  return {{"batch_size", l.batch_size},
          {"shuffle", l.shuffle},
          {"seed", static_cast<std::int64_t>(l.seed)},
          {"drop_last", l.drop_last},
          {"dataset_size", loader.dataset().size()},
          {"accumulate", accumulate}};
}

}  // namespace

RunParts Trainer::Run::parts() const {
  return {.model = &model, .optimizer = &optimizer, .schedule = o.schedule, .plateau = o.plateau};
}

Checkpoint Trainer::Run::position() const {
  Checkpoint at{
      .epoch = loader_epoch + static_cast<std::uint64_t>(epoch), .batch = batch, .extra = {}, .notes = o.checkpoint_notes};
  StateDict& e = at.extra;
  const auto integer = [&](const char* name, std::int64_t value) { e.push_back({name, detail::state_integer(value)}); };
  const auto number = [&](const char* name, double value) { e.push_back({name, detail::state_number(value)}); };
  integer("epoch", epoch);
  integer("steps", t.report_.steps);
  integer("best_epoch", t.report_.best_epoch);
  number("best", t.report_.best);
  integer("bad_epochs", bad_epochs);
  number("seconds", batch > 0 ? seconds() : 0);
  number("lr", last_lr);
  for (const auto& [name, value] : batches_of(training, o.accumulate))
    e.push_back({"loader." + name, detail::state_integer(value)});
  detail::append_state(e, "loss", loss.state_dict());
  detail::append_state(e, "grad_norm", grad_norm.state_dict());
  for (const AnyMetric& m : metrics) detail::append_state(e, "metric." + m->name(), m->state_dict());
  at.notes["history"] = to_json(t.report_.epochs);
  return at;
}

void Trainer::Run::save(const std::string& path) {
  steps.settle();
  save_checkpoint(path, parts(), position());
  tell(&Callback::on_checkpoint, path);
}

void Trainer::Run::check_same_loader(const LoadedCheckpoint& from) const {
  if (from.batch == 0) return;
  std::string differences;
  for (const auto& [name, now] : batches_of(training, o.accumulate)) {
    const auto then = detail::state_value<std::int64_t>(kWho, from.extra, "loader." + name);
    if (then != now) differences += fmt::format("\n  {} was {}, is {}", name, then, now);
  }
  if (!differences.empty())
    throw ValueError(kWho,
                     fmt::format("'{}' stands in the middle of an epoch, after {} of its batches, and the loader now makes other "
                                 "batches:{}\n  resume with the same, or from a checkpoint of the end of an epoch",
                                 o.resume, from.batch, differences));
}

void Trainer::Run::load_position(const LoadedCheckpoint& from) {
  const StateDict& e = from.extra;
  const auto integer = [&](const char* name) { return detail::state_value<std::int64_t>(kWho, e, name); };
  epoch = integer("epoch");
  batch = from.batch;
  loader_epoch = from.epoch - static_cast<std::uint64_t>(epoch);
  t.report_.steps = integer("steps");
  t.report_.best_epoch = integer("best_epoch");
  t.report_.best = detail::state_value<double>(kWho, e, "best");
  bad_epochs = integer("bad_epochs");
  seconds_before = detail::state_value<double>(kWho, e, "seconds");
  last_lr = detail::state_value<double>(kWho, e, "lr");
  if (batch > 0) {
    loss.load_state_dict(detail::part_of_state(e, "loss"));
    grad_norm.load_state_dict(detail::part_of_state(e, "grad_norm"));
    for (AnyMetric& m : metrics) {
      const StateDict state = detail::part_of_state(e, "metric." + m->name());
      if (state.empty())
        throw ValueError(
            kWho, fmt::format("'{}' stands in the middle of an epoch that had no metric '{}': resume with the same metrics",
                              o.resume, m->name()));
      m->load_state_dict(state);
    }
  }
  const auto history = from.notes.find("history");
  t.report_.epochs = epochs_from_json(history == from.notes.end() ? "[]" : history->second, o.resume);
  if (static_cast<std::int64_t>(t.report_.epochs.size()) != epoch)
    throw IoError(kWho,
                  fmt::format("'{}' has the history of {} epochs and stands after {}", o.resume, t.report_.epochs.size(), epoch));
}

void Trainer::Run::resume() {
  // What the trainer itself needs is read first, so that an error leaves the model and the optimizer alone.
  const LoadedCheckpoint from = load_checkpoint(o.resume, {.generator = nullptr});
  if (!find_tensor(from.extra, "steps"))
    throw ValueError(kWho, fmt::format("'{}' was not saved by a Trainer: load_checkpoint() reads it", o.resume));
  check_same_loader(from);
  load_position(from);
  load_checkpoint(o.resume, parts());
  first_step = t.report_.steps == 0;
  if (batch > 0)
    say(fmt::format("resuming {} in epoch {}, after {} of {} batches", o.resume, epoch + 1, batch, training.size()));
  else
    say(fmt::format("resuming {} after epoch {}", o.resume, epoch));
  if (batch == 0) stop_early();
}

}  // namespace spool
